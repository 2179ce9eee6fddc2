"""Reads and lookups of a partition, which continue when segments are deleted meanwhile or it moves.

On the event loop they never wait: what is not in memory is `WouldBlock`, and repeated in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.seams.storage import (
    EMPTY_SLICE,
    AbortedTransaction,
    FileRegion,
    LogSlice,
    SegmentView,
    WouldBlock,
)
from tidelog.plugins.storage_file.log_file import LogFile

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.storage_file.log.local_log import LocalLog
    from tidelog.plugins.storage_file.segments.log_segments import LogSegments

_Found = TypeVar("_Found")


class ReadableStore:
    """The part of a partition's store that any thread may use; `PartitionStore` describes the methods.

    `log` is replaced when a replica move ends: what meets files that are gone is then read from the new one.
    """

    __slots__ = ("_start_offset", "log", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, log: LocalLog, log_start_offset: int) -> None:
        self.topic_partition = topic_partition
        self.log: LocalLog = log
        self._start_offset = log_start_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        return max(self._start_offset, self.log.segments.all[0].base_offset)

    def segments(self) -> Sequence[SegmentView]:
        """Blocking: return a view of each segment for cleanup policies, oldest first.

        Raises:
            OSError: the disk refused, or the partition was deleted.
        """
        while True:
            log = self.log
            changes = log.segments.changes
            try:
                return log.segments.views()
            except FileNotFoundError:
                if not self._has_changed(log, changes):
                    raise

    def first_timestamp(self, base_offset: int) -> int:
        """Blocking: return the largest timestamp of the first batch of a segment, -1 without one."""
        return self._look_up(lambda segments: segments.first_timestamp(base_offset))

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on. See `PartitionStore` for errors."""
        if offset >= limit_offset:
            return EMPTY_SLICE
        log = self.log
        active = log.segments.active
        try:
            if offset >= active.base_offset:
                found = active.read_from_segment(offset, max_bytes, limit_offset, wait) or EMPTY_SLICE
            else:
                found = self._read_inactive(log, offset, max_bytes, limit_offset, wait)
            for region in found.regions:
                if isinstance(region, FileRegion) and isinstance(region.file, LogFile):
                    # The region is read or sent later, and the disk may refuse then.
                    region.file.reported_to = log
            return found
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.log.segments.active is not active:
                # The partition has moved to another log directory meanwhile.
                return self.read_batches(offset, max_bytes, limit_offset, wait=wait)
            log.report_disk_error(error)
            raise

    def _read_inactive(
        self, log: LocalLog, offset: int, max_bytes: int, limit_offset: int, wait: bool
    ) -> LogSlice:
        changes = log.segments.changes
        try:
            for segment in log.segments.from_offset(offset):
                found = segment.read_from_segment(offset, max_bytes, limit_offset, wait)
                if found is not None:
                    return found
        except FileNotFoundError:
            # The segment was removed between taking the list and opening its file.
            if offset < self.log_start_offset:
                raise OffsetOutOfRange(f"{self.topic_partition}: offset {offset} was deleted") from None
            # What comes next waits for the end of the change, which the event loop must not.
            if not wait:
                raise WouldBlock from None
            if not self._has_changed(log, changes):
                raise
            return self.read_batches(offset, max_bytes, limit_offset, wait=wait)
        return EMPTY_SLICE

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that overlap `[from_offset, to_offset)`.

        Raises:
            WouldBlock: they are not in memory (never with `wait`).
        """
        return self._look_up(
            lambda segments: segments.aborted_transactions(from_offset, to_offset, wait=wait), wait=wait
        )

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Blocking: return the first batch whose max timestamp is at least `timestamp_ms`."""
        return self._look_up(lambda segments: segments.batch_at_timestamp(timestamp_ms))

    def batch_of_max_timestamp(self) -> bytes | None:
        """Blocking: return the first batch with the largest timestamp of all."""
        return self._look_up(lambda segments: segments.batch_of_max_timestamp())

    def _look_up(self, look: Callable[[LogSegments], _Found], *, wait: bool = True) -> _Found:
        """Repeat a lookup as long as it meets segments that were removed meanwhile."""
        while True:
            log = self.log
            # Before the look-up, so that a change while it runs counts.
            changes = log.segments.changes
            try:
                return look(log.segments)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    if not wait:
                        raise WouldBlock from None
                    if self._has_changed(log, changes):
                        continue
                log.report_disk_error(error)
                raise

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: iterate over the headers of the batches from the one that holds `from_offset` on."""
        while True:
            log = self.log
            changes = log.segments.changes
            try:
                for header in log.segments.headers(from_offset):
                    yield header
                    from_offset = header.next_offset
                return
            except FileNotFoundError:
                if not self._has_changed(log, changes):
                    raise

    def _has_changed(self, log: LocalLog, changes: int) -> bool:
        """Blocking: return whether segments were removed since, or the partition has moved."""
        return log.segments.changed_since(changes) or self.log is not log
