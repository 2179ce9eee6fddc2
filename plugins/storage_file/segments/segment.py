"""A segment: a run of the log in one file, with its indexes.

Batches follow each other in `.log` without anything between them. Source: Apache Kafka's `LogSegment`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.kernel import disk
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import MAGIC_V2, NO_TIMESTAMP, BatchHeader, Buffer
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, IndexFormat, IndexPlace, SegmentIndex
from tidelog.plugins.storage_file.indexes.transaction_index import NO_OFFSET, TransactionIndex
from tidelog.plugins.storage_file.log_config import ALWAYS, RollPolicy
from tidelog.plugins.storage_file.log_file import LogFile, iter_headers
from tidelog.plugins.storage_file.names import LOG_SUFFIX, TXN_INDEX_SUFFIX
from tidelog.plugins.storage_file.segments.readable_segment import ReadableSegment
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder

_log = logging.getLogger(__name__)


class Segment(ReadableSegment):
    """One segment of a partition; only the active one is appended to, by one thread.

    A segment is asleep until it is used: it holds no descriptor and no mapping, and its limits send an append
    to the slow path, which calls `wake`. `byte_limit`, `offset_limit` and `roll_after` are what an
    append may reach on the fast path. `unfinished`: it is inactive, but its files are not trimmed yet.
    """

    __slots__ = (
        "_entries_left",
        "_fd",
        "_format",
        "_since_index",
        "_size_at_last_look",
        "_writer",
        "aborted",
        "byte_limit",
        "created_ms",
        "first_timestamp",
        "index_interval_bytes",
        "indexes_durable",
        "offset_limit",
        "roll_after",
        "unfinished",
    )

    def __init__(
        self,
        place: IndexPlace,
        index_format: IndexFormat,
        index: SegmentIndex,
        created_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Create an empty segment over existing files; `created_ms` is the clock's time in milliseconds."""
        super().__init__(place, index)
        self._format = index_format
        self._fd = -1
        self._writer: LogFile | None = None
        self._since_index = 0
        self._size_at_last_look = 0
        self.aborted = TransactionIndex(place)
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.indexes_durable = True
        self.offset_limit = place.base_offset + MAX_RELATIVE_OFFSET
        self.byte_limit = ALWAYS
        self.roll_after = ALWAYS
        self.unfinished = False
        self._entries_left = 0

    def wake(self, policy: RollPolicy) -> int:
        """Open the log for appends, set the limits of the fast path by `policy`, and return the descriptor.

        The number of the descriptor shows how many are open.
        """
        # Held separately: a reader's thread that opens the file too may replace `log`.
        self._writer = self.open_log()
        self._fd = self._writer.fd
        if not self.size:
            # Its first batch sets the timestamp that rolling by age uses.
            self.byte_limit = self.roll_after = ALWAYS
        else:
            self.byte_limit = ALWAYS if self.index.is_full else policy.segment_bytes
            self.roll_after = policy.roll_after(self.first_timestamp)
        self._entries_left = policy.index_entries - self.index.entries
        return self._fd

    def sleep(self) -> None:
        """Release descriptor and mappings; the next use opens them again."""
        self.byte_limit = self.roll_after = ALWAYS
        self._fd = -1
        self._writer = self.log = None
        self.index.release()

    def sleep_if_idle(self) -> None:
        """Release descriptor and mappings unless it was read or appended to since the last call."""
        if self.log is None:
            return
        if self.touched or self.size != self._size_at_last_look:
            self.touched = False
            self._size_at_last_look = self.size
        else:
            self.sleep()

    def become_inactive(self) -> None:
        """Take no more appends; `finish` is still to be called in a thread."""
        self._fd = -1
        self._writer = None
        self.byte_limit = self.roll_after = ALWAYS
        self.modified_ms = None
        self.indexes_durable = False
        self.unfinished = True

    def finish(self) -> None:
        """Blocking: trim the files of an inactive segment and complete its indexes; idempotent.

        Raises:
            OSError: the disk refused; it may be tried again.
        """
        if self.unfinished:
            self.close_indexes()
            self.trim_log()
            self.unfinished = False

    def configure(self, index_bytes: int) -> None:
        """Use another maximum size of the index files."""
        self.index.resize(index_bytes)
        # The next append computes the limits again.
        self.byte_limit = self.roll_after = ALWAYS

    def relocate(self, place: IndexPlace) -> None:
        """Note that the files were renamed."""
        self.index.relocate(place)
        self.place = self.aborted.place = place

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of its files; not every file has to exist."""
        return (LOG_SUFFIX, *self._format.suffixes, TXN_INDEX_SUFFIX)

    def should_roll(
        self, policy: RollPolicy, size: int, last_offset: int, max_timestamp: int, now_ms: Callable[[], int]
    ) -> bool:
        """Return whether a batch of `size` bytes has to go into a new segment; `now_ms` is the clock."""
        if last_offset > self.offset_limit:
            return True
        if not self.size:
            # A full index on an empty segment means that no segment can have entries; rolling would not help.
            return False
        return self.index.is_full or self.exceeds(policy, size, max_timestamp, now_ms)

    def exceeds(self, policy: RollPolicy, size: int, max_timestamp: int, now_ms: Callable[[], int]) -> bool:
        """Return whether a batch of `size` bytes would bring a segment with batches beyond `policy`."""
        if self.size + size > policy.segment_bytes or self.index.entries > policy.index_entries:
            return True
        since = self.first_timestamp
        waited = max_timestamp - since if since >= 0 else now_ms() - self.created_ms
        return policy.outlived(waited)

    def append_to_segment(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch of `size` bytes.

        Raises:
            OSError: the disk refused; the segment is as before.
        """
        position = self.size
        index_due = self._since_index > self.index_interval_bytes
        if index_due:
            # Before the batch: if the disk has no room for the entry, nothing was appended yet.
            self.index.make_room()
        try:
            written = disk.pwrite(self._fd, batch, position)
            if written != size:
                # The system may write less than it was asked to, and return an error only for the rest.
                disk.write_all(self._fd, memoryview(batch)[written:], position + written)
        except OSError:
            self._truncate_file(position)
            raise
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        # In this order, see `ReadableSegment`; and before the index entry, which must not point behind
        # `size`.
        self.next_offset = last_offset + 1
        self.size = position + size
        if index_due:
            self._since_index = size
            self._entries_left -= 1
            full = self.index.append_entry(
                last_offset, position, self.max_timestamp, self.max_timestamp_offset
            )
            if full or self._entries_left < 0:
                self.byte_limit = ALWAYS
        else:
            self._since_index += size

    def _truncate_file(self, size: int) -> None:
        try:
            disk.ftruncate(self._fd, size)
        except OSError as error:
            # Harmless: the next append overwrites it, and closing or recovering truncates the file.
            _log.error("%s could not be truncated to %d bytes: %s", self.path(), size, error)

    def load_tail(self) -> None:
        """Blocking: read end offset and largest timestamp from the indexes and the batches behind them.

        `size` has to be set.

        Raises:
            CorruptBatch: indexes and log do not agree.
        """
        indexed_offset, start = self.index.last_position()
        self.max_timestamp, self.max_timestamp_offset = self.index.last_timestamp()
        self.next_offset = self.base_offset
        if not 0 <= start < max(self.size, 1):
            raise CorruptBatch(f"{self.index} has an entry for byte {start} of {self.size}")
        for position, header in iter_headers(self.open_log(), start, self.size):
            if position == start and start and not _is_indexed_by(header, indexed_offset):
                raise CorruptBatch(f"{self.index} has an entry of another batch for byte {start}")
            if header.base_offset < self.next_offset or header.last_offset_delta < 0:
                raise CorruptBatch(f"{self.path()} has offsets that do not grow at byte {position}")
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.next_offset = header.next_offset
        self._since_index = self.size - start

    def adopt(self, builder: SegmentBuilder) -> None:
        """Take over what is known of all its batches; its index is new and not yet durable."""
        self.size = builder.size
        self.next_offset = builder.next_offset
        self.first_timestamp = builder.first_timestamp
        self.max_timestamp = builder.max_timestamp
        self.max_timestamp_offset = builder.max_timestamp_offset
        self._since_index = builder.size - builder.indexed_position
        self.indexes_durable = False

    def load_first_timestamp(self) -> None:
        """Blocking: read the timestamp of the first batch, which rolling by age uses."""
        for _, header in iter_headers(self.open_log(), 0, self.size):
            self.first_timestamp = header.max_timestamp
            return

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the batch that holds `offset` and all later ones; nothing is appended meanwhile."""
        place = self.find(offset, self.size, wait=True)
        # From now on it is the active one.
        self.unfinished = False
        self.sleep()
        self.aborted.truncate_to(offset)
        if place is not None:
            self.index.truncate_to(offset)
            # Before the file is cut: readers must not look behind its end.
            self.size = place.position
        # It may lie behind the cut, where no batch needs to begin afterwards. A new one, and behind the size,
        # see `read_from_segment`.
        self._boundary = [self.base_offset, 0]
        if place is not None:
            disk.truncate(self.path(), self.size)
        self.load_tail()
        self.load_first_timestamp()

    def close_indexes(self) -> None:
        """Blocking: store the largest timestamp in the index, and trim its files to their entries."""
        # Beyond it only in a segment that is damaged, or was written by a broker without that limit.
        fits = self.max_timestamp_offset <= self.offset_limit
        self.index.close(self.max_timestamp, self.max_timestamp_offset if fits else NO_OFFSET)

    def trim_log(self) -> None:
        """Blocking: truncate `.log` by what was preallocated, or left by an append that failed."""
        path = self.path()
        if disk.stat(path).st_size != self.size:
            disk.truncate(path, self.size)

    def remove_files(self) -> None:
        """Unlink all files."""
        self.removed = True
        for suffix in self.suffixes:
            disk.remove_if_there(self.path(suffix))


def _is_indexed_by(header: BatchHeader, indexed_offset: int) -> bool:
    """Return whether an index entry with that offset can be the one of the batch.

    Apache Kafka before 0.11 wrote the first offset of a compressed message, whose header has the last one.
    """
    if header.magic < MAGIC_V2:
        return indexed_offset <= header.last_offset
    return indexed_offset == header.last_offset
