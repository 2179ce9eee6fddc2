"""A segment: a run of the log in one file, with its two sparse indexes.

Batches follow each other in `.log` without anything between them. Source: seed 002, "LogSegment: a file pair
plus indexes" and "Writing into the segment & the sparse index".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import NO_TIMESTAMP, BatchHeader, Buffer
from tidelog.kernel.storage import FileRegion, LogSlice, SegmentView, WouldBlock
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.batch_scan import BatchPlace, find_batch, iter_headers, not_a_batch
from tidelog.plugins.storage_file.index_builder import IndexBuilder
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.names import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_file
from tidelog.plugins.storage_file.offset_index import OffsetIndex
from tidelog.plugins.storage_file.recovery import SegmentScan
from tidelog.plugins.storage_file.rolling import ALWAYS, MAX_RELATIVE_OFFSET, RollPolicy
from tidelog.plugins.storage_file.time_index import TimeIndex

_log = logging.getLogger(__name__)

_ASTRAY = BatchPlace(-1, 0, 0, 0)


class Segment:
    """One segment of a partition.

    Only the active segment is appended to, by one thread. Any thread may read: `next_offset` is published
    before `size`, and a reader takes `size` first, so it never sees a batch that it does not know of.

    A segment is asleep until it is used: it holds no descriptor and no mapping, and its limits make the first
    append come through `wake`. `byte_limit`, `offset_limit` and `roll_after` are what an append may reach
    without a look at the rolling rules.
    """

    __slots__ = (
        "_boundary",
        "_directory",
        "_fd",
        "_since_index",
        "_size_at_last_look",
        "_writer",
        "base_offset",
        "byte_limit",
        "created_ms",
        "first_timestamp",
        "index_interval_bytes",
        "indexes_durable",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "modified_ms",
        "next_offset",
        "offset_limit",
        "offsets",
        "removed",
        "roll_after",
        "size",
        "times",
        "touched",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        offsets: OffsetIndex,
        times: TimeIndex,
        created_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """An empty segment over files that are there; `created_ms` is the clock's time in milliseconds."""
        self._directory = directory
        self._fd = -1
        self._writer: LogFile | None = None
        self._since_index = 0
        self._size_at_last_look = 0
        self._boundary = (base_offset, 0)
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.created_ms = created_ms
        self.modified_ms: int | None = None
        self.index_interval_bytes = index_interval_bytes
        self.offsets = offsets
        self.times = times
        self.log: LogFile | None = None
        self.indexes_durable = True
        self.touched = False
        self.removed = False
        self.offset_limit = base_offset + MAX_RELATIVE_OFFSET
        self.byte_limit = ALWAYS
        self.roll_after = ALWAYS

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        """One of the segment's files."""
        return f"{self._directory}/{segment_file(self.base_offset, suffix)}"

    def open_log(self) -> LogFile:
        """The open `.log` file."""
        log = self.log
        if log is None:
            self.log = log = LogFile(self.path(), os.O_RDWR)
        return log

    def wake(self, policy: RollPolicy) -> int:
        """Make ready for appends, and set the limits that an append may reach by the rolling rules.

        Returns the descriptor, whose number tells how many are open.
        """
        # Held on its own: a reader's thread that opens the file too may replace `log`.
        self._writer = self.open_log()
        self._fd = self._writer.fd
        if not self.size:
            # Its first batch sets the age that rolling goes by.
            self.byte_limit = self.roll_after = ALWAYS
        else:
            self.byte_limit = ALWAYS if self.index_is_full else policy.segment_bytes
            self.roll_after = policy.roll_after(self.first_timestamp)
        return self._fd

    def sleep(self) -> None:
        """Let go of descriptor and mappings; the next use brings them back."""
        self.byte_limit = self.roll_after = ALWAYS
        self._fd = -1
        self._writer = self.log = None
        self.offsets.release()
        self.times.release()

    def sleep_if_idle(self) -> None:
        """Fall asleep unless it was read or appended to since the last call."""
        if self.log is None:
            return
        if self.touched or self.size != self._size_at_last_look:
            self.touched = False
            self._size_at_last_look = self.size
        else:
            self.sleep()

    def become_inactive(self) -> None:
        """Take no more appends; the indexes are closed, and not yet durable."""
        self._fd = -1
        self._writer = None
        self.byte_limit = self.roll_after = ALWAYS
        self.modified_ms = None
        self.indexes_durable = False

    def configure(self, index_bytes: int) -> None:
        """Take another maximum size of the index files into use."""
        self.offsets.resize(index_bytes)
        self.times.resize(index_bytes)
        # The next append works the limits out anew.
        self.byte_limit = self.roll_after = ALWAYS

    @property
    def index_is_full(self) -> bool:
        """Whether one of the indexes can take no further entry."""
        return self.offsets.is_full or self.times.is_full

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch of `size` bytes.

        Raises:
            OSError: the disk refused; the segment is as before.
        """
        position = self.size
        index_due = self._since_index > self.index_interval_bytes
        if index_due:
            self.offsets.make_room()
            self.times.make_room()
        try:
            written = disk.pwrite(self._fd, batch, position)
            if written != size:
                disk.write_all(self._fd, memoryview(batch)[written:], position + written)
        except OSError:
            self._cut_back(position)
            raise
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self.next_offset = last_offset + 1
        self.size = position + size
        if index_due:
            self.offsets.append(last_offset, position)
            self.times.append(self.max_timestamp, self.max_timestamp_offset)
            self._since_index = size
            if self.index_is_full:
                self.byte_limit = ALWAYS
        else:
            self._since_index += size

    def _cut_back(self, size: int) -> None:
        try:
            disk.ftruncate(self._fd, size)
        except OSError as error:
            # Harmless: the next append writes over it, and closing or recovering cuts it off.
            _log.error("%s could not be cut back to %d bytes: %s", self.path(), size, error)

    def read(self, offset: int, max_bytes: int, limit_offset: int, wait: bool) -> LogSlice | None:
        """As `PartitionStore.read` within this segment; None when it has no batch from `offset` on.

        Raises:
            WouldBlock: the position cannot be found without waiting (never with `wait`).
        """
        size = self.size
        whole = limit_offset >= self.next_offset
        self.touched = True
        boundary_offset, position = self._boundary
        first_size = 0
        if offset != boundary_offset:
            place = self.find(offset, size, wait)
            if place is None or place.base_offset >= limit_offset:
                return None
            position, first_size = place.position, place.size
        end = size if whole else self._end_below(limit_offset, size, wait)
        count = end - position
        if count <= 0:
            return None
        log = self.open_log()
        if count > max_bytes:
            if not first_size:
                first_size = self._batch_at(log, position, size, wait).size
            count = min(count, max(max_bytes, first_size))
        elif whole:
            # A reader that keeps up asks next for exactly this offset.
            self._boundary = (limit_offset, end)
        return LogSlice((FileRegion(log, position, count),), count)

    def find(self, offset: int, size: int, wait: bool) -> BatchPlace | None:
        """The first batch that holds `offset` or lies beyond it, in the first `size` bytes; None without one.

        Raises:
            WouldBlock: it cannot be found without waiting (never with `wait`).
            CorruptBatch: the log itself is damaged.
        """
        if offset >= self.next_offset:
            return None
        log = self.open_log()
        start = self.offsets.floor_position(offset, wait)
        if not start:
            return find_batch(log, 0, size, offset, wait)
        place = self._find_from(log, start, size, offset, wait)
        if place is not _ASTRAY:
            return place
        if not wait:
            raise WouldBlock
        _log.error("%s leads astray, to byte %d; its segment is scanned instead", self.offsets.path, start)
        return find_batch(log, 0, size, offset, wait)

    def _find_from(self, log: LogFile, start: int, size: int, offset: int, wait: bool) -> BatchPlace | None:
        """As `find`, from where the index leads; `_ASTRAY` when that cannot be right."""
        if not 0 < start < self.size:
            return _ASTRAY
        try:
            place = find_batch(log, start, size, offset, wait)
        except CorruptBatch:
            return _ASTRAY
        if place is not None and place.position == start and place.base_offset > offset:
            return _ASTRAY
        return place

    def read_batch(self, place: BatchPlace) -> bytes:
        """Blocking: a whole batch."""
        return self.open_log().read_exactly(place.position, place.size)

    def find_timestamp(self, timestamp_ms: int) -> BatchPlace | None:
        """Blocking: the first batch whose max timestamp is `timestamp_ms` or later."""
        if self.max_timestamp < timestamp_ms:
            return None
        size = self.size
        place = self.find(self.times.floor_offset(timestamp_ms), size, wait=True)
        if place is None:
            return None
        for position, header in iter_headers(self.open_log(), place.position, size):
            if header.max_timestamp >= timestamp_ms:
                return BatchPlace(position, header.size, header.base_offset, header.last_offset)
        return None

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: headers of the batches from the one that holds `from_offset` on."""
        size = self.size
        place = self.find(from_offset, size, wait=True)
        if place is not None:
            for _, header in iter_headers(self.open_log(), place.position, size):
                yield header

    def view(self, *, active: bool) -> SegmentView:
        """What policies may know of it."""
        modified_ms = self.modified_ms
        if modified_ms is None or active:
            self.modified_ms = modified_ms = disk.stat(self.path()).st_mtime_ns // 1_000_000
        return SegmentView(self.base_offset, self.next_offset, self.size, self.max_timestamp, modified_ms)

    def load_tail(self) -> None:
        """Blocking: learn end offset and largest timestamp from the indexes and the batches behind them.

        `size` has to be set.

        Raises:
            CorruptBatch: indexes and log do not agree.
        """
        indexed_offset, start = self.offsets.last_entry()
        self.max_timestamp, self.max_timestamp_offset = self.times.last_entry()
        self.next_offset = self.base_offset
        if not 0 <= start < max(self.size, 1):
            raise CorruptBatch(f"{self.offsets.path} has an entry for byte {start} of {self.size}")
        for position, header in iter_headers(self.open_log(), start, self.size):
            if position == start and start and header.last_offset != indexed_offset:
                raise CorruptBatch(f"{self.offsets.path} has an entry of another batch for byte {start}")
            if header.base_offset < self.next_offset or header.last_offset_delta < 0:
                raise CorruptBatch(f"{self.path()} has offsets that do not grow at byte {position}")
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            self.next_offset = header.next_offset
        self._since_index = self.size - start

    def adopt(self, scan: SegmentScan, builder: IndexBuilder) -> None:
        """Take over what checking the whole segment found; its indexes are new and not yet durable."""
        self.size = scan.valid_bytes
        self.next_offset = scan.next_offset
        self.first_timestamp = scan.first_timestamp
        self.max_timestamp = builder.max_timestamp
        self.max_timestamp_offset = builder.max_timestamp_offset
        self._since_index = scan.valid_bytes - builder.indexed_position
        self.indexes_durable = False

    def load_first_timestamp(self) -> None:
        """Blocking: learn the timestamp of the first batch, which rolling by time goes by."""
        for _, header in iter_headers(self.open_log(), 0, self.size):
            self.first_timestamp = header.max_timestamp
            return

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the batch that holds `offset` and all behind it; nothing is appended meanwhile."""
        place = self.find(offset, self.size, wait=True)
        self.sleep()
        self._boundary = (self.base_offset, 0)
        if place is not None:
            self.offsets.truncate_to(offset)
            self.times.truncate_to(offset)
            self.size = place.position
            disk.truncate(self.path(), self.size)
        self.load_tail()
        self.load_first_timestamp()

    def close_indexes(self) -> None:
        """Blocking: write the last time entry and cut the indexes to their entries."""
        # Beyond it only in a segment that was damaged, or written by a broker which did not mind the limit.
        if self.max_timestamp_offset <= self.offset_limit:
            self.times.append_last(self.max_timestamp, self.max_timestamp_offset)
        self.offsets.trim()
        self.times.trim()

    def trim_log(self) -> None:
        """Blocking: cut what was preallocated, or left by an append that failed, off the end of `.log`."""
        path = self.path()
        if disk.stat(path).st_size != self.size:
            disk.truncate(path, self.size)

    def remove_files(self) -> None:
        """Unlink all files."""
        self.removed = True
        for suffix in SEGMENT_SUFFIXES:
            disk.remove_if_there(self.path(suffix))

    def _end_below(self, limit_offset: int, size: int, wait: bool) -> int:
        place = self.find(limit_offset, size, wait)
        if place is None:
            return size
        return place.position + (place.size if place.base_offset < limit_offset else 0)

    def _batch_at(self, log: LogFile, position: int, size: int, wait: bool) -> BatchPlace:
        place = find_batch(log, position, size, -1, wait)
        if place is None:
            raise not_a_batch(log, position)
        return place
