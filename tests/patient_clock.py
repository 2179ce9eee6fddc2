"""Clocks of the tests that jump when all tasks wait do not jump while a thread of trio works.

A task that waits for a thread is idle to trio. If the clock jumped then, a timeout would expire before a
thread that is slow on a busy machine has returned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.testing import MockClock

if TYPE_CHECKING:
    import pytest

# A test that holds up a thread on purpose makes its clock jump itself, or takes that long.
PATIENCE_S: Final = 20.0
_PAUSE_S: Final = 0.0005


class WorkingThreads:
    """Counts the calls of functions in threads of trio."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._delivered = 0
        self._delivered_before = 0
        self._last_change = 0.0

    def started(self) -> None:
        """Note that a thread begins with a function."""
        with self._lock:
            self._working += 1
            self._last_change = time.monotonic()

    def delivered(self) -> None:
        """Note that the event loop has been handed the result."""
        with self._lock:
            self._working -= 1
            self._delivered += 1

    def may_jump(self) -> bool:
        """Return whether an event loop that found nothing to do has no result of a thread to wait for.

        A result that came since the last call may be what the event loop has not looked at yet.
        """
        now = time.monotonic()
        with self._lock:
            if self._delivered != self._delivered_before:
                self._delivered_before, self._last_change = self._delivered, now
                return False
            return self._working == 0 or now - self._last_change > PATIENCE_S


def install_patient_clocks(patch: pytest.MonkeyPatch) -> WorkingThreads:
    """Change all clocks of trio's tests."""
    threads = WorkingThreads()
    start: Callable[[Callable[[], Any], Callable[[Any], object], str | None], None]
    start, jump = trio.lowlevel.start_thread_soon, vars(MockClock)["_autojump"]

    def start_thread_soon(
        function: Callable[[], Any], deliver: Callable[[Any], object], name: str | None = None
    ) -> None:
        def deliver_and_note(result: Any) -> None:
            try:
                deliver(result)
            finally:
                threads.delivered()

        threads.started()
        start(function, deliver_and_note, name)

    def autojump(clock: MockClock) -> None:
        if threads.may_jump():
            jump(clock)
        else:
            time.sleep(_PAUSE_S)

    patch.setattr("trio._threads.start_thread_soon", start_thread_soon)
    patch.setattr(MockClock, "_autojump", autojump)
    return threads
