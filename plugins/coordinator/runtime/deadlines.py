"""Deadlines of the coordinator: one task and one heap for the timers of all members.

A deadline that is put off costs a store into a dict: the heap keeps its old place, and only when that comes
up is the key put where it belongs. The task sleeps until the earliest place.

The clock is one that stops while the event loop stands still: heartbeats that could not be read must not have
members expelled.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections.abc import Callable, Hashable

import attrs
import trio

from tidelog.kernel.pace import Pace

_log = logging.getLogger(__name__)

SPARE_PLACES = 64
"""Unused places in the heap are removed once they outnumber the keys by this."""


@attrs.define
class _Deadline:
    at_ms: int
    callback: Callable[[], None]
    place_ms: int


class Deadlines:
    """Callbacks by key, each called once at its time; times are those of `now_ms`."""

    def __init__(self, now: Callable[[], float] = trio.current_time) -> None:
        """Create it without deadlines; `now` returns seconds and never goes back."""
        self._now = now
        self._deadlines: dict[Hashable, _Deadline] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = itertools.count()
        self._asleep_until_ms: float = -math.inf
        self._sooner = trio.Event()

    def now_ms(self) -> int:
        """Return milliseconds of a clock that does not jump when the machine's is set."""
        return round(self._now() * 1000)

    def __len__(self) -> int:
        return len(self._deadlines)

    def schedule(self, key: Hashable, at_ms: int, callback: Callable[[], None]) -> None:
        """Call `callback` at `at_ms`; this replaces the deadline of the key."""
        deadline = self._deadlines.get(key)
        if deadline is not None and deadline.place_ms <= at_ms:
            deadline.at_ms = at_ms
            deadline.callback = callback
            return
        self._deadlines[key] = _Deadline(at_ms, callback, at_ms)
        self._push(key, at_ms)

    def schedule_by(self, key: Hashable, at_ms: int, callback: Callable[[], None]) -> None:
        """Like `schedule`, but an earlier deadline of the key stays."""
        deadline = self._deadlines.get(key)
        if deadline is None or deadline.at_ms > at_ms:
            self.schedule(key, at_ms, callback)

    def cancel(self, key: Hashable) -> None:
        """Cancel the deadline of the key, if it has one."""
        self._deadlines.pop(key, None)

    async def run(self) -> None:
        """Serve deadlines until cancelled. An error of a callback is logged; the others are served."""
        while True:
            self._sooner = trio.Event()
            self._asleep_until_ms = self._heap[0][0] if self._heap else math.inf
            with trio.move_on_after(max(self._asleep_until_ms / 1000 - self._now(), 0.0)):
                await self._sooner.wait()
            self._asleep_until_ms = -math.inf
            # After a long pause of the process thousands of deadlines may have passed.
            pace = Pace()
            while self._heap and self._heap[0][0] <= self.now_ms():
                place_ms, _, key = heapq.heappop(self._heap)
                self._serve(key, place_ms)
                await pace.turn()

    def _serve(self, key: Hashable, place_ms: int) -> None:
        deadline = self._deadlines.get(key)
        if deadline is None or deadline.place_ms != place_ms:
            return
        if deadline.at_ms > place_ms:
            deadline.place_ms = deadline.at_ms
            self._push(key, deadline.at_ms)
            return
        del self._deadlines[key]
        try:
            deadline.callback()
        except Exception:
            _log.exception("serving the deadline of %r failed", key)

    def _push(self, key: Hashable, place_ms: int) -> None:
        if len(self._heap) > 2 * len(self._deadlines) + SPARE_PLACES:
            self._heap = [(kept.place_ms, next(self._order), key) for key, kept in self._deadlines.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (place_ms, next(self._order), key))
        if place_ms < self._asleep_until_ms:
            self._sooner.set()
