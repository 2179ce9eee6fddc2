"""Replies to requests that wait for other members, or for the disk."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.coordinator.runtime.runtime import Durable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

AWAKE_AT_ONCE: Final = 32
"""Tasks that are woken before the event loop looks at its sockets again; each then encodes a response."""


class Reply(Protocol[T_contra]):
    """Interface of a state machine to a waiting request."""

    def set(self, outcome: T_contra | BrokerError, durable: Durable | None = None) -> None:
        """Answer, once; with `durable` not before that returned."""
        ...


class ReplyQueue:
    """Wakes the tasks whose replies are set, in order and some at a time: each that runs wakes the next.

    A generation of a group answers all of its members at once, which may be thousands.
    """

    def __init__(self) -> None:
        self._set: deque[WaitingReply[Any]] = deque()
        self._awake = 0

    def add(self, reply: WaitingReply[Any]) -> None:
        """Wake the task of a reply that is set, if it waits, now or after others."""
        self._set.append(reply)
        if self._awake < AWAKE_AT_ONCE:
            self._awake += 1
            self.wake_next()

    def wake_next(self) -> None:
        """Wake another task instead of one that was woken and runs."""
        while self._set:
            if self._set.popleft().wake():
                return
        self._awake -= 1


class WaitingReply(Generic[T]):
    """A `Reply` that a task waits for; the task may have been cancelled by the time that it is set."""

    __slots__ = ("_durable", "_outcome", "_queue", "_waiting")

    def __init__(self, queue: ReplyQueue) -> None:
        self._queue = queue
        self._waiting: trio.Event | None = None
        self._outcome: T | BrokerError | None = None
        self._durable: Durable | None = None

    def set(self, outcome: T | BrokerError, durable: Durable | None = None) -> None:
        """Answer, once; with `durable` not before that returned."""
        self._outcome = outcome
        self._durable = durable
        if self._waiting is not None:
            self._queue.add(self)

    def wake(self) -> bool:
        """Wake the task that waits; return whether there is one."""
        if self._waiting is None:
            return False
        self._waiting.set()
        return True

    def nowait(self) -> T | None:
        """Return the reply if it can be given at once, else None.

        Raises:
            BrokerError: the reply is that error.
        """
        if self._durable is not None or self._outcome is None:
            return None
        return self._given()

    async def wait(self) -> T:
        """Return the reply, once it may be given.

        Raises:
            BrokerError: the reply is that error, or what was written for it cannot be acknowledged.
        """
        if self._outcome is None:
            await self._wait_until_set()
        if self._durable is not None:
            await self._durable()
        return self._given()

    def _given(self) -> T:
        outcome = self._outcome
        if not isinstance(outcome, BrokerError):
            return cast("T", outcome)
        # Its traceback has this object and this frame: in them it would be left to the garbage collector.
        self._outcome = None
        try:
            raise outcome
        finally:
            del outcome

    async def _wait_until_set(self) -> None:
        self._waiting = woken = trio.Event()
        try:
            await woken.wait()
        finally:
            self._waiting = None
            if woken.is_set():
                self._queue.wake_next()
