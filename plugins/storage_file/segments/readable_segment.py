"""Reading a segment: by offset, by timestamp, header by header."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator

from tidelog.kernel import disk
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import MAGIC_V2, NO_TIMESTAMP, BatchHeader
from tidelog.kernel.seams.indexes import IndexPlace, SegmentIndex
from tidelog.kernel.seams.storage import FileRegion, LogSlice, SegmentView, WouldBlock
from tidelog.plugins.storage_file.log_file import BatchPlace, LogFile, find_batch, iter_headers, not_a_batch
from tidelog.plugins.storage_file.names import LOG_SUFFIX

_log = logging.getLogger(__name__)

_MISLED = BatchPlace(-1, 0, 0, 0)


class ReadableSegment:
    """The part of a segment that any thread may use.

    `next_offset` is published before `size`, and a reader takes `size` first, so that it never sees a batch
    beyond `next_offset`. `removed` is set before the files are removed or replaced by others of the same
    names: what was opened while it was not set belongs to this segment.
    """

    __slots__ = (
        "_boundary",
        "base_offset",
        "index",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "modified_ms",
        "next_offset",
        "place",
        "removed",
        "size",
        "touched",
    )

    def __init__(self, place: IndexPlace, index: SegmentIndex) -> None:
        """Create an empty segment over existing files."""
        base_offset = place.base_offset
        self.place = place
        # Offset and position at which a reader at the end of the log continues. A list, which a truncation
        # replaces: what a reader that began before it notes afterwards goes into the old one.
        self._boundary = [base_offset, 0]
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.modified_ms: int | None = None
        self.index = index
        self.removed = False
        self.log: LogFile | None = None
        self.touched = False

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        """Return the path of one of the segment's files."""
        return self.place.path(suffix)

    def open_log(self) -> LogFile:
        """Return the open `.log` file.

        Raises:
            FileNotFoundError: the segment was removed.
        """
        log = self.log
        if log is None:
            log = LogFile(self.path(), os.O_RDWR)
            # After opening: what was opened while `removed` was not set is this segment's.
            self.check_not_removed()
            self.log = log
        return log

    def check_not_removed(self) -> None:
        """Check that what was just opened belongs to this segment.

        Raises:
            FileNotFoundError: the segment was removed.
        """
        if self.removed:
            raise FileNotFoundError(errno.ENOENT, "the segment was removed", self.path())

    def read_from_segment(
        self, offset: int, max_bytes: int, limit_offset: int, wait: bool
    ) -> LogSlice | None:
        """Return the batches from `offset` on, as `PartitionStore.read_batches` does; None if there is none.

        Raises:
            WouldBlock: the position cannot be found without waiting (never with `wait`).
        """
        # Before the size, which `truncate_to` cuts first: one from before is not noted in a new boundary.
        to_note = self._boundary
        # In this order, see the class: a `next_offset` that is newer only makes `whole` false.
        size = self.size
        whole = limit_offset >= self.next_offset
        self.touched = True
        # Read again, after the size: if that is of a log which was cut, this is not from before the cut.
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
        log = self.log or self.open_log()
        if count > max_bytes:
            if not first_size:
                first_size = self._batch_at(log, position, size, wait).size
            # The first batch comes whole even if it is larger than `max_bytes`, so that a consumer gets on
            # (KIP-74).
            count = min(count, max(max_bytes, first_size))
            bound = self.index.offset_behind(position + count, offset) or self.next_offset
        else:
            bound = self.next_offset
            if whole:
                # One assignment of both: a reader in another thread never sees one half of it.
                to_note[:] = limit_offset, end
        return LogSlice((FileRegion(log, position, count),), count, min(bound, limit_offset))

    def find(self, offset: int, size: int, wait: bool) -> BatchPlace | None:
        """Return the first batch that holds `offset` or lies beyond it, None without one in `size` bytes.

        Raises:
            WouldBlock: it cannot be found without waiting (never with `wait`).
            CorruptBatch: the log itself is damaged.
            FileNotFoundError: the segment was removed.
        """
        if offset >= self.next_offset:
            return None
        log = self.log or self.open_log()
        start = self.index.floor_position(offset, wait)
        # The index may have mapped the file of a segment that took the name.
        if self.removed:
            self.check_not_removed()
        if not start:
            return find_batch(log, 0, size, offset, wait)
        place = self._find_from(log, start, size, offset, wait)
        if place is not _MISLED:
            return place
        if not wait:
            raise WouldBlock
        _log.error("%s points to byte %d, where no batch can be; the segment is scanned", self.index, start)
        return find_batch(log, 0, size, offset, wait)

    def _find_from(self, log: LogFile, start: int, size: int, offset: int, wait: bool) -> BatchPlace | None:
        """As `find`, from the position that the index gave; `_MISLED` when that cannot be right."""
        if not 0 < start < self.size:
            return _MISLED
        try:
            place = find_batch(log, start, size, offset, wait)
        except CorruptBatch:
            return _MISLED
        if place is not None and place.position == start and place.base_offset > offset:
            # An index of Apache Kafka before 0.11 has the first offset of a compressed message.
            return place if place.magic < MAGIC_V2 else _MISLED
        return place

    def read_batch(self, place: BatchPlace) -> bytes:
        """Blocking: return a whole batch."""
        return self.open_log().read_exactly(place.position, place.size)

    def find_timestamp(self, timestamp_ms: int) -> BatchPlace | None:
        """Blocking: return the place of the first batch whose max timestamp is at least `timestamp_ms`."""
        if self.max_timestamp < timestamp_ms:
            return None
        size = self.size
        place = self.find(self.index.floor_offset(timestamp_ms), size, wait=True)
        if place is None:
            return None
        for position, header in iter_headers(self.open_log(), place.position, size):
            if header.max_timestamp >= timestamp_ms:
                return BatchPlace(position, header.size, header.base_offset, header.last_offset, header.magic)
        return None

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: iterate over the headers of the batches from the one that holds `from_offset` on."""
        size = self.size
        place = self.find(from_offset, size, wait=True)
        if place is not None:
            for _, header in iter_headers(self.open_log(), place.position, size):
                yield header

    def view(self, *, active: bool) -> SegmentView:
        """Return a view of the segment for cleanup policies."""
        modified_ms = self.modified_ms
        if modified_ms is None or active:
            self.modified_ms = modified_ms = disk.stat(self.path()).st_mtime_ns // 1_000_000
        return SegmentView(self.base_offset, self.next_offset, self.size, self.max_timestamp, modified_ms)

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
