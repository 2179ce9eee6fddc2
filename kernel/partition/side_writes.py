"""Writing files beside a log in the background: snapshots of producers, the lineage of leader epochs.

Jobs run in any order, in several threads, and some time later. Of two writes of one file the newer content
stays, and what a truncation has made untrue is not written any more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection

from tidelog.kernel.storage import PartitionStore


class SideWrites:
    """The writes of one partition; `soon` never waits for a disk."""

    __slots__ = ("_in_thread", "_naming", "_newest", "_numbers", "_store", "_wanted", "_writing")

    def __init__(
        self,
        store: PartitionStore,
        in_thread: Callable[[str, Callable[[], object]], None],
        wanted: Callable[[], bool],
    ) -> None:
        """`in_thread(name, job)` runs a job soon; nothing is written unless `wanted()` says so then."""
        self._store = store
        self._in_thread = in_thread
        self._wanted = wanted
        self._writing = threading.Lock()
        self._naming = threading.Lock()
        self._numbers = itertools.count()
        self._newest: dict[str, int] = {}

    def soon(self, job: str, name: str, content: bytes) -> None:
        """Replace a file's content soon; `job` is what the background work is called."""
        number = next(self._numbers)
        with self._naming:
            self._newest[name] = number
        self._in_thread(job, lambda: self._write(name, content, number))

    def _write(self, name: str, content: bytes, number: int) -> None:
        with self._writing:
            with self._naming:
                if self._newest.get(name) != number:
                    return
                del self._newest[name]
            if self._wanted():
                self._store.write_side_file(name, content)

    def forget(self) -> Collection[str]:
        """Blocking: drop what waits to be written, after the write under way; the names of those files."""
        with self._writing, self._naming:
            waiting, self._newest = self._newest, {}
        return waiting
