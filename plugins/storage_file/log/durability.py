"""Durability of a log: its durable offset, and flushes.

After a failed flush nothing counts as durable any more, since the system drops what it could not write and
marks it clean. Apache Kafka calls the offset recovery point.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from tidelog.kernel import disk
from tidelog.plugins.storage_file.names import PARTITION_METADATA
from tidelog.plugins.storage_file.segments.segment import Segment


class Durability:
    """The durable offset of one partition, and the lock that keeps its flushes apart."""

    __slots__ = (
        "_directory_changed",
        "_durable_offset",
        "_failure",
        "_flushing",
        "_parent_changes",
        "_parent_changes_synced",
        "_retired",
    )

    def __init__(self, durable_offset: int, *, names_durable: bool) -> None:
        """Begin with a durable offset; `names_durable`: the names of all files are durable, too.

        The names are not durable in a new partition, nor after a crash of a process that created files.
        """
        self._durable_offset = durable_offset
        self._flushing = threading.Lock()
        self._directory_changed = not names_durable
        # Two numbers and no flag: a rename while the parent is flushed must not count as durable, nor may a
        # second thread return before the flush has ended. Only the event loop raises the first one.
        self._parent_changes = int(not names_durable)
        self._parent_changes_synced = 0
        self._retired = False
        self._failure: OSError | None = None

    @property
    def offset(self) -> int:
        """The offset below which everything is on disk."""
        return self._durable_offset

    def recovery_point(self, segments: Sequence[Segment]) -> int:
        """Return the offset from which the log has to be checked after a crash.

        A segment whose trimmed indexes may not be on disk is checked whole, however durable its log is.
        """
        for segment in segments[:-1]:
            if not (segment.indexes_durable and segment.aborted.durable):
                return min(self._durable_offset, segment.base_offset)
        return self._durable_offset

    def check(self) -> None:
        """Refuse to continue after a failed flush.

        Raises:
            OSError: a flush failed since the partition was opened.
        """
        if self._failure is not None:
            raise OSError(errno.EIO, f"an earlier flush failed: {self._failure}")

    def fail(self, error: OSError) -> None:
        """Count nothing as durable from now on: the disk failed."""
        self._failure = self._failure or error

    def parent_changed(self) -> None:
        """Note that the directory itself was renamed."""
        self._parent_changes += 1

    def files_created(self) -> None:
        """Note that the directory has new files, whose names have to be made durable too."""
        self._directory_changed = True

    @contextlib.contextmanager
    def cutting(self, offset: int, segment_base: int) -> Generator[bool]:
        """Hold off flushes while the log is truncated to `offset`; yield whether that drops what is durable.

        Then nothing counts as durable from now on of the segment that is cut, which begins at `segment_base`.
        """
        with self._flushing:
            lowered = offset < self._durable_offset
            if lowered:
                self._durable_offset = min(offset, segment_base)
            yield lowered

    def sync_cut(self, segment: Segment) -> None:
        """Blocking: make a segment's new end durable, before anything else is appended behind it.

        Raises:
            OSError: the disk refused.
        """
        self._sync_log(segment)

    @property
    def is_retired(self) -> bool:
        """Return whether `retire` was called."""
        return self._retired

    def retire(self) -> None:
        """Make flushes do nothing from now on, since the partition was deleted or moved."""
        self._retired = True

    def flush(self, choose: Callable[[], Sequence[Segment]], directory: str, *, growing: bool) -> int:
        """Blocking: make segments durable, which have to be the log's oldest; return the durable offset.

        `choose` returns them, called while the log is not truncated. `growing`: the last one takes appends
        meanwhile, so its indexes are not complete yet.

        Raises:
            OSError: the disk refused, now or at an earlier flush.
        """
        with self._flushing:
            self.check()
            segments = choose()
            if self._retired or not segments:
                return self._durable_offset
            # Before the files are flushed: what is appended meanwhile may not be among it.
            target = segments[-1].next_offset
            if self._sync_unless_retired(segments, directory, growing):
                self._durable_offset = max(self._durable_offset, target)
            return self._durable_offset

    def _sync_unless_retired(self, segments: Sequence[Segment], directory: str, growing: bool) -> bool:
        try:
            self._sync(segments, directory, growing)
        except FileNotFoundError:
            # A partition that is deleted meanwhile has its directory renamed.
            if not self._retired:
                raise
            return False
        return True

    def _sync(self, segments: Sequence[Segment], directory: str, growing: bool) -> None:
        if self._parent_changes != self._parent_changes_synced:
            # Before any record: a log must not survive without the id of its topic.
            self._sync_topic_id(directory)
        for segment in segments:
            try:
                if segment.next_offset > self._durable_offset:
                    self._sync_log(segment)
                complete = not (segment.unfinished or (growing and segment is segments[-1]))
                if complete and not segment.indexes_durable:
                    for path in segment.index.files:
                        self._sync_path(path, disk.fsync)
                    segment.indexes_durable = True
                if not segment.aborted.durable:
                    self._sync_aborted(segment)
            except FileNotFoundError:
                if not segment.removed:
                    raise
        # Nothing counts as durable before its name is.
        if self._directory_changed:
            self._sync_names(directory)
        if self._parent_changes != self._parent_changes_synced:
            self._sync_parent(directory)

    def sync_parent(self, directory: str) -> None:
        """Blocking: make the name of the partition's directory durable, if it may not be.

        Raises:
            OSError: the disk refused.
        """
        if self._parent_changes != self._parent_changes_synced:
            self._sync_topic_id(directory)
            self._sync_parent(directory)

    def _sync_parent(self, directory: str) -> None:
        changes = self._parent_changes
        self._sync_path(str(Path(directory).parent), disk.fsync)
        self._parent_changes_synced = changes

    def _sync_topic_id(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._sync_path(f"{directory}/{PARTITION_METADATA}", disk.fsync)

    def _sync_aborted(self, segment: Segment) -> None:
        # Before, so that an entry which is added meanwhile does not count as durable.
        segment.aborted.durable = True
        try:
            self._sync_path(segment.aborted.path, disk.fsync)
        except OSError:
            segment.aborted.durable = False
            raise

    def _sync_names(self, directory: str) -> None:
        # Before, so that a file which is created meanwhile does not count as durable.
        self._directory_changed = False
        try:
            self._sync_path(directory, disk.fsync)
        except OSError:
            # Typically the directory was renamed meanwhile: the next flush finds it.
            self._directory_changed = True
            raise

    def _sync_log(self, segment: Segment) -> None:
        # Referenced here, so that the descriptor stays open if the event loop puts the segment to sleep
        # meanwhile.
        log = segment.log
        if log is None:
            self._sync_path(segment.path(), disk.sync_data)
        else:
            self._sync_descriptor(log.fd, disk.sync_data)

    def _sync_path(self, path: str, sync: Callable[[int], None]) -> None:
        fd = disk.open_file(path, os.O_RDONLY)
        try:
            self._sync_descriptor(fd, sync)
        finally:
            disk.close(fd)

    def _sync_descriptor(self, fd: int, sync: Callable[[int], None]) -> None:
        try:
            sync(fd)
        except OSError as error:
            # Not when a file could not even be opened: then nothing was lost, and the next flush may succeed.
            self._failure = error
            if disk.is_full(error):
                # Some systems find out only now: what was appended is lost, room does not bring it back.
                raise OSError(errno.EIO, f"what was appended cannot be flushed: {error}") from error
            raise
