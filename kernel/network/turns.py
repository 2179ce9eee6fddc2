"""Turns on the event loop and on its processor: a long response gives way to others between its pieces.

Sending megabytes that lie in memory takes about as many milliseconds, and the event loop would have no rest
in them. So while other connections get short answers, a response is sent in short pieces. After each one
first other processes get the processor, such as a client that has its answer already, and then the requests
that have arrived meanwhile are served. Connections with long responses alone do not need that: they lose more
by many small pieces than they win.

A process that only computes keeps the processor for some milliseconds each time. So there is a limit on the
time that goes to others in long turns, and the processor is kept while it is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

import trio

from tidelog.kernel.network.busy_poll import yield_processor

PIECE_BYTES: Final = 128 * 1024
"""Of a file in one call, about 50 µs; after each of them a response that shares turns gives way."""
SHORT_SECONDS: Final = 0.0003
"""More than the threads of a client need for an answer; what is longer counts as lost."""
LOST_SHARE: Final = 0.03
"""Of all time, may be lost to others."""
MOST_LOST_SECONDS: Final = 0.03
"""May be lost in a row, after a time in which nothing was."""


class Turns:
    """What the connections of a server share; `short_answers` counts how often they had no long response."""

    __slots__ = ("_looked_at", "_now", "_spare", "_yield_processor", "short_answers")

    def __init__(
        self,
        now: Callable[[], float] = perf_counter,
        yield_processor: Callable[[], None] = yield_processor,
    ) -> None:
        self.short_answers = 0
        self._now = now
        self._yield_processor = yield_processor
        self._spare, self._looked_at = MOST_LOST_SECONDS, now()

    async def give_way(self) -> None:
        """Let other processes run, and then the other tasks."""
        begin = self._now()
        self._spare = min(self._spare + (begin - self._looked_at) * LOST_SHARE, MOST_LOST_SECONDS)
        self._looked_at = begin
        if self._spare > 0:
            self._yield_processor()
            self._spare -= max(self._now() - begin - SHORT_SECONDS, 0.0)
        # What the first turn finds ready runs in the second one, in any order with this task.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
