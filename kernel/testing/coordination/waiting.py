"""Requests that may wait for other members, and time that only a test advances."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.testing.coordination.harness import CoordinatorHarness

T = TypeVar("T")

STEP_MS = 500
LONG_MS = 60_000
"""Longest time that a request waits for its response."""


class Time:
    """The wall clock and trio's clock, advanced together: sessions may use either."""

    def __init__(self, harness: CoordinatorHarness, clock: MockClock) -> None:
        self._harness = harness
        self._clock = clock

    async def passes(self, by_ms: int) -> None:
        """Advance both clocks, and run what is due."""
        self._harness.clock.advance(by_ms)
        self._clock.jump(by_ms / 1000)
        await wait_all_tasks_blocked()


class PendingRequest(Generic[T]):
    """A request that was sent, and its response or error."""

    def __init__(self) -> None:
        self._answers: list[T | BrokerError] = []

    @property
    def answered(self) -> bool:
        """Whether it has a response."""
        return bool(self._answers)

    @property
    def answer(self) -> T:
        """The response; raises the error, if it is one."""
        assert self._answers, "the request still waits for its answer"
        (answer,) = self._answers
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    async def run(self, ask: Callable[[], T | Awaitable[T]]) -> None:
        """Send it, and wait for the response."""
        try:
            answer = ask()
            self._answers.append(await answer if inspect.isawaitable(answer) else answer)
        except BrokerError as error:
            self._answers.append(error)


async def send(nursery: trio.Nursery, ask: Callable[[], T | Awaitable[T]]) -> PendingRequest[T]:
    """Send a request; it has its response on return unless it has to wait."""
    request = PendingRequest[T]()
    nursery.start_soon(request.run, ask)
    await wait_all_tasks_blocked()
    return request


async def answers(time: Time, *requests: PendingRequest[T]) -> list[T]:
    """Return the responses to all requests; time passes while one waits."""
    for _ in range(LONG_MS // STEP_MS):
        if all(request.answered for request in requests):
            break
        await time.passes(STEP_MS)
    return [request.answer for request in requests]
