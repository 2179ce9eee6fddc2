"""The threads in which interceptors work, and the limit on how long they may take there.

A thread cannot be ended from outside. One that an interceptor keeps busy beyond its time is left behind: its
request continues without it, and it ends at the next record, if ever. While several are left behind, none is
started.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from tidelog.kernel.pace import ThreadPace

if TYPE_CHECKING:
    from tidelog.kernel.request.active_interceptor import ActiveInterceptor

T = TypeVar("T")

THREADS: Final = 4
"""Batches that interceptors work on at the same time: they may wait for something, but share a processor."""
MAX_LEFT_BEHIND: Final = 4
PORTION_SECONDS: Final = 0.1
"""Work on many batches ends its call of a thread after so long, and is continued by another one."""
GRACE_SECONDS: Final = 0.5
"""How much later than the interceptor itself the event loop ends the wait: so one that hands out records in
time is ended at a record, and its thread with it."""


class TookTooLong(Exception):
    """The time of an interceptor is over."""


class Watch:
    """The time that interceptors have in a thread; `current` is the one that works."""

    def __init__(self) -> None:
        self.current: ActiveInterceptor | None = None
        self.is_over = False
        self.in_thread = False
        self._deadline = 0.0
        self._started = perf_counter()
        self._pace = ThreadPace()

    def has_thread(self) -> bool:
        """Return whether a thread works for it."""
        return self.in_thread

    def begin(self, interceptor: ActiveInterceptor) -> None:
        """Give an interceptor its time, for one batch."""
        self.current = interceptor
        self._deadline = perf_counter() + interceptor.timeout_s

    def turn(self) -> None:
        """Release the interpreter's lock if it was held for long; called before each record.

        Raises:
            TookTooLong: the time is over, or nothing waits for the work any more.
        """
        self._pace.turn()
        if self.is_over or perf_counter() > self._deadline:
            raise TookTooLong

    @property
    def portion_is_done(self) -> bool:
        """Whether the call has taken `PORTION_SECONDS`."""
        return perf_counter() - self._started > PORTION_SECONDS


class InterceptorThreads:
    """Runs work of interceptors in threads, within their time."""

    def __init__(self) -> None:
        self._slots = trio.CapacityLimiter(THREADS)
        self._threads = trio.CapacityLimiter(THREADS + MAX_LEFT_BEHIND)
        self._left_behind: set[Watch] = set()

    async def run(self, work: Callable[[Watch], T], watch: Watch, timeout_s: float) -> T:
        """Run one call of some work, which may take `timeout_s` and a portion.

        Raises:
            TookTooLong: it did, or too many threads are left behind; `watch.current` says by whom.
        """
        if len(self._left_behind) >= MAX_LEFT_BEHIND:
            raise TookTooLong
        # Outside of the time: others may be at work, and they end.
        async with self._slots:
            try:
                with trio.move_on_after(timeout_s + PORTION_SECONDS + GRACE_SECONDS):
                    return await trio.to_thread.run_sync(
                        self._run, work, watch, abandon_on_cancel=True, limiter=self._threads
                    )
            finally:
                watch.is_over = True
                if watch.has_thread():
                    self._left_behind.add(watch)
                    # The thread may have ended in between, and has discarded what was not there yet.
                    if not watch.has_thread():
                        self._left_behind.discard(watch)
        raise TookTooLong

    def _run(self, work: Callable[[Watch], T], watch: Watch) -> T:
        watch.in_thread = True
        try:
            return work(watch)
        finally:
            watch.in_thread = False
            self._left_behind.discard(watch)
