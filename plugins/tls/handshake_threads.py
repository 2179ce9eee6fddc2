"""Threads in which handshakes compute, beside the event loop.

A step of a handshake takes up to some milliseconds, without the interpreter's lock. These threads are for
nothing else: to have them do a step costs less than `trio.to_thread`. Where processors are scarce they come
after the event loop, so that clients who are connected wait less beside a storm of handshakes.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NICENESS: Final = 10
"""Added to that of the process (nice(1)): beside others that take all there is, a tenth of one processor."""
_HIGHEST: Final = 19


class HandshakeThreads:
    """So many threads at most, which begin when they are needed."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "tidelog-tls-handshakes", _come_last)

    def close(self) -> None:
        """Have the threads end, after the steps that they have."""
        self._pool.shutdown(wait=False)

    async def run(self, step: Callable[[], T]) -> T:
        """Return or raise what a function does in one of the threads; who is cancelled waits for it, too."""
        task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

        def work() -> None:
            result = outcome.capture(step)
            # An event loop that has ended waits for nothing.
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(trio.lowlevel.reschedule, task, result)

        self._pool.submit(work)
        result: T = await trio.lowlevel.wait_task_rescheduled(_wait_for_the_thread)
        return result


def _wait_for_the_thread(_: object) -> trio.lowlevel.Abort:
    # It uses the socket, which would be closed.
    return trio.lowlevel.Abort.FAILED


def _come_last() -> None:
    # Elsewhere a thread has no priority of its own, and the call would change that of the process.
    # A sandbox may forbid it.
    if sys.platform == "linux":
        with suppress(OSError):
            thread = threading.get_native_id()
            niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
            os.setpriority(os.PRIO_PROCESS, thread, min(niceness, _HIGHEST))
