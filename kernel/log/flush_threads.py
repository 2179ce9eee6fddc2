"""Threads that flush logs: a few for each log directory, shared by all partitions of a broker.

Files of one directory are flushed in several threads at once, since a file system writes its journal once for
all that are waiting at that moment. Directories have threads of their own: a device that hangs holds up no
other. A thread takes the next log by itself, and one turn of the event loop receives all that has ended until
then: handing every flush to a thread and back alone takes more of a processor than the flush does.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

import attrs
import trio

_log = logging.getLogger(__name__)

THREADS_PER_DIRECTORY: Final = 4
"""Flushes of one log directory that run at once; the others wait, the oldest first."""


class _Flush(NamedTuple):
    """One flush of one log: `run` blocks, `ended` gets what it returned or raised, on the event loop."""

    directory: str
    run: Callable[[], int]
    ended: Callable[[int | Exception], None]


@attrs.define(eq=False)
class _DirectoryQueue:
    """What waits for a thread of one log directory, and how many threads it has."""

    waiting: deque[_Flush] = attrs.field(factory=deque[_Flush])
    threads: int = 0


class FlushThreads:
    """Runs flushes; all methods are for the event loop."""

    def __init__(self, run_shielded: Callable[[str, Callable[[], Awaitable[object]]], None]) -> None:
        """`run_shielded(name, job)` runs a job on the event loop, soon and without ever cancelling it."""
        self._run_shielded = run_shielded
        self._begun: list[_Flush] = []
        self._queues: dict[str, _DirectoryQueue] = {}
        # Guards the queues: a thread that finds its queue empty ends, unless a flush comes just before.
        self._lock = threading.Lock()
        self._ended: deque[tuple[_Flush, int | Exception]] = deque()
        self._is_notified = False
        self._unfinished = 0
        self._is_serving = False
        self._woken = trio.Event()

    def begin(self, directory: str, run: Callable[[], int], ended: Callable[[int | Exception], None]) -> None:
        """Run the flush of a log in `directory` in a thread, from the event loop's next turn on.

        So it includes all that this turn still appends. `ended` is called with its outcome, whatever becomes
        of the caller.
        """
        self._begun.append(_Flush(directory, run, ended))
        if self._is_serving:
            self._woken.set()
        else:
            self._is_serving = True
            self._run_shielded("flush logs", self._serve)

    async def _serve(self) -> None:
        """Start threads and deliver what has ended, until nothing is left to flush."""
        token = trio.lowlevel.current_trio_token()
        try:
            # No checkpoint lies between the last look here and `_is_serving = False`: a flush that begins
            # then starts a new round.
            while self._begun or self._unfinished:
                self._start_threads(token)
                await self._woken.wait()
                # Before what was woken for is looked at: a wake-up from now on is for the next round.
                self._woken = trio.Event()
                # Before it looks at what has ended: a flush that ends from now on notifies again.
                self._is_notified = False
                self._deliver()
        finally:
            self._is_serving = False

    def _start_threads(self, token: trio.lowlevel.TrioToken) -> None:
        begun, self._begun = self._begun, []
        self._unfinished += len(begun)
        for flush in begun:
            # Kept once it is there: there are as many as log directories.
            queue = self._queues.setdefault(flush.directory, _DirectoryQueue())
            with self._lock:
                queue.waiting.append(flush)
                # One of them takes it: a thread only ends under the lock, and with an empty queue.
                if queue.threads >= THREADS_PER_DIRECTORY:
                    continue
                queue.threads += 1
            work = partial(self._work, queue, token)
            trio.lowlevel.start_thread_soon(work, _report_failure, f"flush {flush.directory}")

    def _deliver(self) -> None:
        while self._ended:
            flush, outcome = self._ended.popleft()
            self._unfinished -= 1
            try:
                flush.ended(outcome)
            # One partition's end must not keep the other ones from theirs: their producers wait.
            except Exception:
                _log.exception("the end of a flush in %s failed", flush.directory)

    # --- in threads

    def _work(self, queue: _DirectoryQueue, token: trio.lowlevel.TrioToken) -> None:
        while (flush := self._next(queue)) is not None:
            try:
                outcome: int | Exception = flush.run()
            except Exception as error:
                outcome = error
            self._ended.append((flush, outcome))
            # After the append: the event loop clears the flag before it looks at what has ended.
            # Two threads may both see False: a second wake-up finds nothing to deliver.
            if not self._is_notified:
                self._is_notified = True
                token.run_sync_soon(self._wake)

    def _next(self, queue: _DirectoryQueue) -> _Flush | None:
        with self._lock:
            if queue.waiting:
                return queue.waiting.popleft()
            queue.threads -= 1
            return None

    def _wake(self) -> None:
        self._woken.set()


def _report_failure(outcome: object) -> None:
    """Deliver nothing: a thread's work has no result of its own."""
    del outcome
