"""Background work on a partition's files: snapshots, the lineage of leader epochs, deletion of old segments.

Jobs run in any order, in several threads, and some time later; those that a full disk refuses run again. Of
two writes of one file the newer content stays, and what a truncation has made wrong is not written any more.
A partition that is deleted ends this work first: its directory is renamed then, and a new topic of the same
name may get one of the old name.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection
from typing import TypeVar

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import PartitionStore

T = TypeVar("T")


class SideWrites:
    """The background work of one partition; `soon` and `run_soon` never wait for a disk.

    Nothing is written unless it is `wanted` when its time comes.
    """

    __slots__ = (
        "_closed",
        "_given_up",
        "_in_thread",
        "_naming",
        "_newest",
        "_numbers",
        "_store",
        "_writing",
        "wanted",
    )

    def __init__(
        self,
        store: PartitionStore,
        in_thread: Callable[[str, Callable[[], object]], None],
    ) -> None:
        """`in_thread(name, job)` runs a job soon."""
        self.wanted = True
        self._store = store
        self._in_thread = in_thread
        # Held while files are changed, so that two threads never change those of one partition at once. The
        # other lock is held for a moment only: the event loop takes it, and must not wait for a disk.
        self._writing = threading.Lock()
        self._naming = threading.Lock()
        self._numbers = itertools.count()
        self._newest: dict[str, int] = {}
        self._given_up: set[str] = set()
        self._closed = False

    def soon(self, job: str, name: str, content: bytes) -> None:
        """Replace a file's content in the background; `job` is the name of the work, for logs."""
        number = next(self._numbers)
        with self._naming:
            self._newest[name] = number
            self._given_up.discard(name)
        self._in_thread(job, lambda: self._write(name, content, number))

    def run_soon(self, job: str, change: Callable[[], object]) -> None:
        """Change files of the partition in the background; `job` is the name of the work, for logs."""
        self._in_thread(job, lambda: self.run(change))

    def run(self, change: Callable[[], T]) -> T | None:
        """Blocking: change files of the partition; return None without doing it if the partition is gone."""
        with self._writing:
            # Under the lock: `close` is called before the directory is renamed, and waits for what holds it.
            return change() if not self._closed and self.wanted else None

    def _write(self, name: str, content: bytes, number: int) -> None:
        with self._writing:
            # Jobs run in any order: a newer content is written by its own job, or was already, or a
            # truncation forgot this one.
            if self._newest.get(name) != number:
                return
            # After an error it stays the newest: a truncation has to know that the file lacks it.
            if not self._closed and self.wanted:
                self._write_or_give_up(name, content, number)
            with self._naming:
                # A newer content may have come while this one was being written: its job needs the entry.
                if self._newest.get(name) == number:
                    del self._newest[name]

    def _write_or_give_up(self, name: str, content: bytes, number: int) -> None:
        try:
            self._store.write_side_file(name, content)
        except Exception as error:
            # If the disk is full the job comes again, after any other error it does not.
            if not disk.is_full(error):
                with self._naming:
                    if self._newest.get(name) == number:
                        self._given_up.add(name)
            raise

    def is_waiting(self, name: str) -> bool:
        """Return whether the newest content of a file is not written yet."""
        return name in self._newest

    def has_given_up(self, name: str) -> bool:
        """Return whether the newest content of a file was refused, and no job will write it."""
        return name in self._given_up

    def forget(self) -> Collection[str]:
        """Blocking: drop what waits to be written, after the write under way; return the files' names."""
        # In this order in all places, as two threads that took them crosswise would wait forever.
        with self._writing, self._naming:
            waiting, self._newest = self._newest, {}
            self._given_up.clear()
        return waiting

    def close(self) -> bool:
        """Start no change any more; return whether one is under way, which `wait_closed` waits for."""
        # Before the lock is looked at: a job that gets it afterwards sees this and changes nothing.
        self._closed = True
        return self._writing.locked()

    def wait_closed(self) -> None:
        """Blocking: wait for the change under way."""
        with self._writing:
            pass
