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
from typing import Final, NamedTuple

import trio

_log = logging.getLogger(__name__)

THREADS_PER_DIRECTORY: Final = 4
"""Flushes of one log directory that run at once; the others wait, the oldest first."""
IDLE_SECONDS: Final = 1.0
"""A thread without anything to flush ends after so long."""


class _Flush(NamedTuple):
    """One flush of one log: `run` blocks, `ended` gets what it returned or raised, on the event loop."""

    directory: str
    run: Callable[[], int]
    ended: Callable[[int | Exception], None]


class _Directory:
    """What waits for a thread of one log directory, and its threads."""

    __slots__ = ("_idle", "_lock", "_name", "_report", "_threads", "_waiting")

    def __init__(self, name: str, report: Callable[[_Flush, int | Exception], None]) -> None:
        """`report` gets the outcome of each flush, in its thread."""
        self._name = name
        self._report = report
        # Guards the rest: a thread that finds nothing to do is idle before anything else is added.
        self._lock = threading.Lock()
        self._waiting: deque[_Flush] = deque()
        # Each thread that sleeps, by the lock whose release wakes it.
        self._idle: list[threading.Lock] = []
        self._threads = 0

    def add(self, flush: _Flush) -> None:
        """Have a thread run the flush: one that is idle, a new one, or the first that has ended another."""
        with self._lock:
            self._waiting.append(flush)
            if self._idle:
                # The one that has slept for the shortest time: the others end if they are not needed.
                self._idle.pop().release()
                return
            if self._threads >= THREADS_PER_DIRECTORY:
                return
            self._threads += 1
        threading.Thread(target=self._work, name=f"flush {self._name}", daemon=True).start()

    # --- in threads

    def _work(self) -> None:
        wake = threading.Lock()
        wake.acquire()
        while (flush := self._next(wake)) is not None:
            try:
                outcome: int | Exception = flush.run()
            except Exception as error:
                outcome = error
            self._report(flush, outcome)
            # Or they would live for as long as the thread is idle.
            del flush, outcome

    def _next(self, wake: threading.Lock) -> _Flush | None:
        """Wait for the oldest flush that no thread has; None if the thread is not needed any more."""
        while True:
            with self._lock:
                if self._waiting:
                    return self._waiting.popleft()
                self._idle.append(wake)
            if wake.acquire(timeout=IDLE_SECONDS):
                continue
            with self._lock:
                if wake in self._idle:
                    self._idle.remove(wake)
                    self._threads -= 1
                    return None
            # Taken from the idle ones since the time was over: `wake` is released already.
            wake.acquire()


class FlushThreads:
    """Runs flushes; all methods are for the event loop."""

    def __init__(self, run_shielded: Callable[[str, Callable[[], Awaitable[object]]], None]) -> None:
        """`run_shielded(name, job)` runs a job on the event loop, soon and without ever cancelling it."""
        self._run_shielded = run_shielded
        self._begun: list[_Flush] = []
        self._directories: dict[str, _Directory] = {}
        self._ended: deque[tuple[_Flush, int | Exception]] = deque()
        self._is_notified = False
        self._unfinished = 0
        self._token: trio.lowlevel.TrioToken
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
        # Before a thread is there that reports.
        self._token = trio.lowlevel.current_trio_token()
        try:
            # No checkpoint lies between the last look here and `_is_serving = False`: a flush that begins
            # then starts a new round.
            while self._begun or self._unfinished:
                self._hand_over()
                await self._woken.wait()
                # Before what was woken for is looked at: a wake-up from now on is for the next round.
                self._woken = trio.Event()
                # Before it looks at what has ended: a flush that ends from now on notifies again.
                self._is_notified = False
                self._deliver()
        finally:
            self._is_serving = False

    def _hand_over(self) -> None:
        begun, self._begun = self._begun, []
        self._unfinished += len(begun)
        for flush in begun:
            directory = self._directories.get(flush.directory)
            if directory is None:
                # Kept once it is there: there are as many as log directories.
                directory = self._directories[flush.directory] = _Directory(flush.directory, self._report)
            directory.add(flush)

    def _deliver(self) -> None:
        while self._ended:
            flush, outcome = self._ended.popleft()
            self._unfinished -= 1
            try:
                flush.ended(outcome)
            # One partition's end must not keep the other ones from theirs: their producers wait.
            except Exception:
                _log.exception("the end of a flush in %s failed", flush.directory)

    def _wake(self) -> None:
        self._woken.set()

    def _report(self, flush: _Flush, outcome: int | Exception) -> None:
        """In a thread: have the outcome delivered."""
        self._ended.append((flush, outcome))
        # After the append: the event loop clears the flag before it looks at what has ended.
        # Two threads may both see False: a second wake-up finds nothing to deliver.
        if not self._is_notified:
            self._is_notified = True
            self._token.run_sync_soon(self._wake)
