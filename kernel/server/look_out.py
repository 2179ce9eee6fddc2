"""Staying awake for a moment, for a client that sends its next request as soon as it has its answer.

To be woken up takes some ten microseconds, several times that on a virtual machine, and whoever was asleep
finds the processor's caches cold. So the event loop goes on turning for such a client, and serves everybody
else meanwhile. One connection at a time is looked out for, during `socket.busy.poll.us` at most, and only
while that mostly succeeds: after each time in vain it takes twice as many prompt requests until the next
time. A client that got a long answer has something else to do first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

import trio

MOST_DISTRUST: Final = 64
"""Prompt requests that a client has to send, at most, before it is looked out for again."""
_LONG_AGO: Final = float("-inf")


class Attention:
    """What a server has once: the connection that is looked out for."""

    __slots__ = ("_possible", "_taken", "now", "seconds")

    def __init__(
        self, seconds: float, now: Callable[[], float] = perf_counter, processors: int | None = None
    ) -> None:
        """For `seconds` at most; with a single processor never, as the client could not run meanwhile."""
        self.seconds = seconds
        self.now = now
        self._taken = False
        self._possible = seconds > 0 and (_processors() if processors is None else processors) > 1

    def take(self) -> bool:
        """Whether it was to be had."""
        if self._taken or not self._possible:
            return False
        self._taken = True
        return True

    def release(self) -> None:
        """Let another connection have it."""
        self._taken = False


class LookOut:
    """When a connection's next request is worth staying awake for.

    Tell it when the client was `served` and when it has `woken` the connection, and ask `goes_on` before
    sleeping; each time that says so await a `turn`.
    """

    __slots__ = ("_attention", "_distrust", "_prompt", "_served_at", "_until")

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._served_at = _LONG_AGO
        self._until: float | None = None
        self._prompt = 0
        self._distrust = 1

    def served(self, *, at_length: bool = False) -> None:
        """All that has come is answered, as far as it is whole; `at_length`: the client has much to read."""
        if self._until is not None:
            self._distrust = max(1, self._distrust // 2)
            self.end()
        if at_length:
            self._prompt = 0
            self._served_at = _LONG_AGO
        else:
            self._served_at = self._attention.now()

    def woken(self) -> None:
        """Something came after the connection went to sleep."""
        if self._attention.now() - self._served_at < self._attention.seconds:
            self._prompt += 1
        else:
            self._prompt = 0

    def goes_on(self) -> bool:
        """Whether to stay awake, as nothing has come yet."""
        if self._until is None:
            if self._prompt < self._distrust or not self._attention.take():
                return False
            self._until = self._served_at + self._attention.seconds
        if self._attention.now() < self._until:
            return True
        self._prompt = 0
        self._distrust = min(2 * self._distrust, MOST_DISTRUST)
        self.end()
        return False

    @staticmethod
    async def turn() -> None:
        """Let the other tasks have their turn, and then other processes the processor, the client perhaps."""
        await trio.lowlevel.checkpoint()
        _yield_processor()

    def end(self) -> None:
        """Look out no more."""
        if self._until is not None:
            self._until = None
            self._attention.release()


def _no_yield() -> None:
    """Where the system has no such call."""


_yield_processor: Final[Callable[[], None]] = getattr(os, "sched_yield", _no_yield)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
