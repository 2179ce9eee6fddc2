"""The log of one partition: its segments, oldest first, the last of which takes the appends.

Appending and reading are here; everything else that is done to a log has a module in `log/`. Source: seed
002, "The layered abstraction" (the storage half of it), "The read / fetch-by-offset path".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.seams.storage import (
    EMPTY_SLICE,
    AbortedTransaction,
    LogSlice,
    SegmentDraft,
    SegmentView,
    WouldBlock,
)
from tidelog.plugins.storage_file.disk_errors import telling
from tidelog.plugins.storage_file.log import appending, lookups, removal
from tidelog.plugins.storage_file.log.flushes import close_files, flush_all
from tidelog.plugins.storage_file.log.open_log import OpenLog
from tidelog.plugins.storage_file.log.operations import Operation
from tidelog.plugins.storage_file.log_config import LogConfig
from tidelog.plugins.storage_file.segments.draft import FileSegmentDraft
from tidelog.plugins.storage_file.segments.roll_policy import RollPolicy

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader, Buffer


class FilePartitionStore(OpenLog):
    """One partition in files; see `PartitionStore` for what each method promises.

    `append` runs on the event loop only.
    """

    __slots__ = ()

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """See `PartitionStore.append`."""
        size = len(batch)
        segment = self.segment_list.active
        if (
            segment.size + size > segment.byte_limit
            or max_timestamp > segment.roll_after
            or last_offset > segment.offset_limit
            or base_offset < segment.next_offset
        ):
            return appending.append_with_care(self, batch, size, base_offset, last_offset, max_timestamp)
        try:
            segment.append(batch, size, last_offset, max_timestamp)
        except OSError as error:
            self.tell_unless_full(error)
            raise
        return False

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """See `PartitionStore.read`."""
        if offset >= limit_offset:
            return EMPTY_SLICE
        active = self.segment_list.active
        try:
            if offset >= active.base_offset:
                return active.read(offset, max_bytes, limit_offset, wait) or EMPTY_SLICE
            return self._read_older(offset, max_bytes, limit_offset, wait)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.segment_list.active is not active:
                # The partition has moved to another log directory meanwhile.
                return self.read(offset, max_bytes, limit_offset, wait=wait)
            self.tell(error)
            raise

    def _read_older(self, offset: int, max_bytes: int, limit_offset: int, wait: bool) -> LogSlice:
        changes = self.changes
        try:
            for segment in self.segment_list.from_offset(offset):
                found = segment.read(offset, max_bytes, limit_offset, wait)
                if found is not None:
                    return found
        except FileNotFoundError:
            # The segment was taken away between our look at the list and the opening of its file.
            if offset < self.log_start_offset:
                raise OffsetOutOfRange(f"{self.topic_partition}: offset {offset} was deleted") from None
            if not wait:
                raise WouldBlock from None
            if not self.changed_since(changes):
                raise
            return self.read(offset, max_bytes, limit_offset, wait=wait)
        return EMPTY_SLICE

    @telling
    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `PartitionStore.add_aborted`."""
        segment = self.segment_list.from_offset(aborted.last_offset)[0]
        if segment.aborted.append(aborted):
            self.durability.files_created()
        mirror = self.mirror
        if mirror is not None:
            mirror.add_aborted(aborted)

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """See `PartitionStore.aborted_transactions`."""
        return lookups.aborted_transactions(self, from_offset, to_offset, wait=wait)

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """See `PartitionStore.batch_at_timestamp`."""
        return lookups.batch_at_timestamp(self, timestamp_ms)

    def batch_of_max_timestamp(self) -> bytes | None:
        """See `PartitionStore.batch_of_max_timestamp`."""
        return lookups.batch_of_max_timestamp(self)

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """See `PartitionStore.headers`."""
        return lookups.headers(self, from_offset)

    def segments(self) -> Sequence[SegmentView]:
        """See `PartitionStore.segments`."""
        segments = self.segment_list.all
        last = len(segments) - 1
        return [segment.view(active=index == last) for index, segment in enumerate(segments)]

    def configure(self, config: TopicConfig) -> None:
        """See `PartitionStore.configure`."""
        self.config = config.derive(LogConfig.of)
        self.policy = RollPolicy.of(self.config)
        self.segment_list.active.configure(self.config.segment_index_bytes)

    def truncate_to(self, offset: int) -> None:
        """See `PartitionStore.truncate_to`."""
        removal.truncate_to(self, offset)

    def delete_segments_before(self, offset: int) -> int:
        """See `PartitionStore.delete_segments_before`."""
        return removal.delete_segments_before(self, offset)

    @telling
    def draft_segment(self, base_offset: int) -> FileSegmentDraft:
        """See `PartitionStore.draft_segment`."""
        self.check()
        return self.drafts.begin(lambda: self.directory, base_offset, self.segment_settings())

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """See `PartitionStore.replace_segments`."""
        removal.replace_segments(self, drafts, replaced)

    def raise_log_start(self, offset: int) -> None:
        """See `PartitionStore.raise_log_start`."""
        self.start_offset = max(self.start_offset, offset)
        mirror = self.mirror
        if mirror is not None:
            mirror.copy.raise_log_start(offset)

    def flush(self) -> int:
        """See `PartitionStore.flush`; after a failure the partition takes no appends until a restart."""
        while True:
            mirror, segments = self.mirror, self.segment_list
            flushed = flush_all(self, growing=True)
            # One that began to be kept meanwhile has some of what was flushed, and may count before long.
            mirror = self.mirror or mirror
            if mirror is not None:
                mirror.do("flush", mirror.copy.flush)
            if self.segment_list is segments:
                return flushed

    def side_files(self) -> Sequence[str]:
        """See `PartitionStore.side_files`."""
        return self.files_beside.names()

    @telling
    def read_side_file(self, name: str) -> bytes | None:
        """See `PartitionStore.read_side_file`."""
        return self.files_beside.read(name)

    @telling
    def write_side_file(self, name: str, content: bytes) -> None:
        """See `PartitionStore.write_side_file`."""
        self.check()
        with self.beside() as copies:
            for side_files in copies:
                side_files.write(name, content)

    @telling
    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """See `PartitionStore.delete_side_file`."""
        self.check()
        with self.beside() as copies:
            for side_files in copies:
                side_files.delete(name, durable=durable)

    def release_idle(self) -> None:
        """Let go of descriptors and mappings of segments that were not used since the last call."""
        for segment in self.segment_list.all:
            segment.sleep_if_idle()

    def retire(self) -> None:
        """Blocking: the partition is to be deleted, nothing of it has to be made durable any more."""
        self.operations.begin(Operation.CLOSE)
        with self.changing:
            self.durability.retire()
        self.spare.close()
        self.touched = False

    def delete_later(self, path: str) -> None:
        """Remove the partition's directory, which was renamed to `path`, after the topic's delay."""
        self.services.delete_later([path], self.config.file_delete_delay_ms)
        self.sleep()

    def close(self) -> None:
        """See `PartitionStore.close`."""
        self.operations.begin(Operation.CLOSE)
        if not self.has_failed:
            close_files(self)
