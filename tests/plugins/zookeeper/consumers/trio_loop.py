"""A trio run as the loop of a member."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import trio

T = TypeVar("T")


class TrioTimer:
    """A call of a loop in the future."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()

    def cancel(self) -> None:
        self.scope.cancel()


class TrioLoop:
    """Runs everything as tasks of a nursery, until `is_stopped`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.is_stopped = False

    def clock(self) -> float:
        return trio.current_time()

    def call_at(self, when: float, call: Callable[[], None]) -> TrioTimer:
        timer = TrioTimer()

        async def wait() -> None:
            with timer.scope:
                await trio.sleep_until(min(when, math.inf))
                call()

        if not self.is_stopped:
            self._nursery.start_soon(wait)
        return timer

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], done: Callable[[T | Exception], None]) -> None:
        async def run() -> None:
            try:
                outcome: T | Exception = await work()
            except Exception as error:
                outcome = error
            done(outcome)

        if not self.is_stopped:
            self._nursery.start_soon(run)

    def post(self, call: Callable[[], None]) -> None:
        call()
