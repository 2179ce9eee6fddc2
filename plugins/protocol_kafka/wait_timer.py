"""Ends the waits of very many requests when their time is over, with one task for all of them.

A cancel scope for each wait takes longer than the rest of an incremental Fetch request that waits. Here a
wait is an entry in a set: all that end within the same tick are woken together.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from tidelog.kernel.seams.partition import AppendWaiter

TICKS_PER_S: Final = 200
"""A wait may take up to 5 ms longer than it was asked to, as it does on a busy broker."""
# Without it a deadline on a tick could end one tick later, by the error of the multiplication.
_ROUNDING: Final = 1e-6


class WaitTimer:
    """Waiters by the tick at which they are abandoned; its task runs as long as there are any."""

    def __init__(self, start: Callable[[str, Callable[[], Awaitable[None]]], None]) -> None:
        """`start(name, job)` runs a job on the event loop soon, see `Tasks.once`."""
        self._start = start
        self._waiters: dict[int, set[AppendWaiter]] = {}
        # Each tick of `_waiters` once, also if none is left at it.
        self._ticks: list[int] = []
        self._is_running = False
        self._sooner = trio.Event()

    def add(self, waiter: AppendWaiter, deadline: float) -> int:
        """Abandon `waiter` at that time of trio's clock, or soon after it; return the tick for `discard`."""
        tick = math.ceil(deadline * TICKS_PER_S - _ROUNDING)
        waiters = self._waiters.get(tick)
        if waiters is None:
            waiters = self._waiters[tick] = set()
            heapq.heappush(self._ticks, tick)
            if not self._is_running:
                self._is_running = True
                self._start("waiting requests", self._run)
            # The task sleeps until a tick that is later than this one.
            elif self._ticks[0] == tick:
                self._sooner.set()
        waiters.add(waiter)
        return tick

    def discard(self, waiter: AppendWaiter, tick: int) -> None:
        """Do not abandon a waiter, if it was not yet."""
        waiters = self._waiters.get(tick)
        if waiters is not None:
            waiters.discard(waiter)

    async def _run(self) -> None:
        try:
            while self._ticks:
                due = self._ticks[0] / TICKS_PER_S
                if trio.current_time() < due:
                    self._sooner = trio.Event()
                    with trio.move_on_at(due):
                        await self._sooner.wait()
                else:
                    for waiter in self._waiters.pop(heapq.heappop(self._ticks)):
                        waiter.abandon()
        finally:
            self._is_running = False
