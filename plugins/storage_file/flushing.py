"""What of a partition is on disk for good, and how more of it gets there.

Sources: seed 002, "Offset boundaries: LSO, LEO, HW, recovery point"; the fault matrix: after a failed flush
nothing may be taken for durable, since the system drops what it could not write and calls it clean.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.segment import Segment


class Durability:
    """The durable offset of one partition, and the lock that keeps its flushes apart."""

    __slots__ = (
        "_directory_changed",
        "_durable_offset",
        "_failure",
        "_flushing",
        "_parent_changed",
        "_retired",
    )

    def __init__(self, durable_offset: int, *, created: bool) -> None:
        """Everything below `durable_offset` is on disk; `created`: the partition's directory is new."""
        self._durable_offset = durable_offset
        self._flushing = threading.Lock()
        self._directory_changed = created
        self._parent_changed = created
        self._retired = False
        self._failure: OSError | None = None

    def recovery_point(self, segments: Sequence[Segment]) -> int:
        """The offset from which the log has to be checked after a crash.

        A segment whose trimmed indexes may not be on disk is checked whole, however durable its log is.
        """
        for segment in segments[:-1]:
            if not segment.indexes_durable:
                return min(self._durable_offset, segment.base_offset)
        return self._durable_offset

    def check(self) -> None:
        """Refuse to go on after a failed flush.

        Raises:
            OSError: a flush failed since the partition was opened.
        """
        if self._failure is not None:
            raise OSError(errno.EIO, f"an earlier flush failed: {self._failure}")

    def files_created(self) -> None:
        """Note that the directory has new files, whose names have to be made durable too."""
        self._directory_changed = True

    def truncated(self, end_offset: int) -> None:
        """Note that the log ends earlier now."""
        self._durable_offset = min(self._durable_offset, end_offset)

    def retire(self) -> None:
        """Forget about durability: the partition was deleted, and flushes that still come do nothing."""
        self._retired = True

    def flush(self, segments: Sequence[Segment], directory: str, *, growing: bool) -> int:
        """Blocking: make segments durable, which have to be the log's oldest; the offset up to which it is.

        `growing`: the last of them is appended to meanwhile, so its indexes are not complete yet.

        Raises:
            OSError: the disk refused, now or at an earlier flush.
        """
        with self._flushing:
            self.check()
            if self._retired or not segments:
                return self._durable_offset
            target = segments[-1].next_offset
            try:
                self._sync(segments, directory, growing)
            except OSError as error:
                self._failure = error
                # The next append has to notice.
                for segment in segments:
                    segment.byte_limit = -1
                raise
            self._durable_offset = max(self._durable_offset, target)
            return self._durable_offset

    def _sync(self, segments: Sequence[Segment], directory: str, growing: bool) -> None:
        for segment in segments:
            if segment.next_offset > self._durable_offset:
                _sync_log(segment)
            if not segment.indexes_durable and not (growing and segment is segments[-1]):
                _sync_indexes(segment)
        if self._directory_changed:
            self._directory_changed = False
            disk.sync_directory(directory)
        if self._parent_changed:
            disk.sync_directory(Path(directory).parent)
            self._parent_changed = False


def _sync_log(segment: Segment) -> None:
    log = segment.log
    if log is not None:
        disk.sync_data(log.fd)
    else:
        disk.sync_file(segment.path())


def _sync_indexes(segment: Segment) -> None:
    disk.sync_file(segment.offsets.path)
    disk.sync_file(segment.times.path)
    segment.indexes_durable = True
