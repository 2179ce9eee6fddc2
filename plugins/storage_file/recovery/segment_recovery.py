"""Recovery of a segment: every batch is read and checked, indexes are made anew, a bad tail goes.

Two kinds of damage are expected after a crash: the tail is missing, or the file grew by blocks that were
never written (nonsense or zeros). Both end at the first batch that is not whole, does not have its CRC, or
does not follow the offsets before it. Sources: seed 000, section 5.4; seed 002, "Crash recovery".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct

import attrs
from crc32c import crc32c

from tidelog.kernel.errors import StorageError
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    NO_TIMESTAMP,
)
from tidelog.plugins.storage_file.indexes.entry_sampler import EntrySampler
from tidelog.plugins.storage_file.segments.batch_scan import CHUNK_BYTES as HEADERS_CHUNK_BYTES
from tidelog.plugins.storage_file.segments.batch_scan import not_a_batch
from tidelog.plugins.storage_file.segments.log_file import LogFile

CHUNK_BYTES = 1024 * 1024
"""Read at once: large enough to amortise the call, small enough to stay in the processor's cache."""

# baseOffset, batchLength, magic, crc, attributes, lastOffsetDelta and maxTimestamp of a batch header.
_FIELDS = Struct(">qi4xbIhi8xq")
_unpack_fields = _FIELDS.unpack_from

MAX_OFFSET = 2**63 - 1
_LEGACY_CRC_AT = 12
_LEGACY_CRC = Struct(">I")
_MIN_LEGACY_BYTES = 26


@attrs.define
class SegmentScan:
    """What checking a segment found: its first `valid_bytes` are good batches up to `next_offset`.

    `has_markers`: there are control batches among them.
    """

    valid_bytes: int
    next_offset: int
    first_timestamp: int
    batches: int
    has_markers: bool = False


def scan_segment(
    log: LogFile, size: int, base_offset: int, limit_offset: int | None, sampler: EntrySampler
) -> SegmentScan:
    """Blocking: check the batches in the first `size` bytes of a segment and feed the good ones to `sampler`.

    `limit_offset` is the base offset of the next segment, which no batch may reach.

    Raises:
        StorageError: the segment holds intact messages of a format older than record batches.
    """
    return _Scanner(log, size, base_offset, limit_offset, sampler).run()


def scan_headers(log: LogFile, size: int, base_offset: int, sampler: EntrySampler) -> SegmentScan:
    """Blocking: go through the batches of a segment that is known to be good, and feed them to `sampler`.

    Raises:
        CorruptBatch: it is not good.
    """
    scan = SegmentScan(size, base_offset, NO_TIMESTAMP, 0)
    buffer = bytearray(HEADERS_CHUNK_BYTES)
    position, next_offset, add = 0, base_offset, sampler.add
    while position < size:
        available = min(log.read_into(buffer, position, wait=True), size - position)
        at = 0
        while at + HEADER_BYTES <= available:
            first, length, magic, _, _, delta, max_timestamp = _unpack_fields(buffer, at)
            end = at + length + LOG_OVERHEAD_BYTES
            if magic != MAGIC_V2 or first < next_offset or delta < 0 or not at < end <= size - position:
                raise not_a_batch(log, position + at)
            add(first, first + delta, position + at, max_timestamp)
            if not scan.batches:
                scan.first_timestamp = max_timestamp
            scan.batches += 1
            next_offset = first + delta + 1
            at = end
        if not at:
            raise not_a_batch(log, position)
        position += at
    scan.next_offset = next_offset
    return scan


class _Scanner:
    def __init__(
        self, log: LogFile, size: int, base_offset: int, limit_offset: int | None, sampler: EntrySampler
    ) -> None:
        self._log = log
        self._size = size
        self._sampler = sampler
        self._limit_offset = MAX_OFFSET if limit_offset is None else limit_offset
        self._buffer = bytearray(min(CHUNK_BYTES, max(size, 1)))
        self._view = memoryview(self._buffer)
        self._scan = SegmentScan(0, base_offset, -1, 0)
        self._intact = True

    def run(self) -> SegmentScan:
        scan = self._scan
        while self._intact and self._size - scan.valid_bytes >= HEADER_BYTES:
            available = self._fill(scan.valid_bytes)
            if not self._check_chunk(available) and self._intact:
                self._check_large_batch()
        if scan.valid_bytes < self._size:
            self._refuse_legacy_messages()
        return scan

    def _fill(self, position: int) -> int:
        wanted = min(len(self._buffer), self._size - position)
        filled = 0
        while filled < wanted:
            count = self._log.read_into(self._view[filled:wanted], position + filled, wait=True)
            if not count:
                # The file is shorter than it was; what is gone counts as torn off.
                self._size = position + filled
                break
            filled += count
        return filled

    def _check_chunk(self, available: int) -> int:
        """Check the batches that lie wholly in the buffer; the bytes they take."""
        scan, view, add = self._scan, self._view, self._sampler.add
        start = scan.valid_bytes
        at = 0
        while at + HEADER_BYTES <= available:
            base_offset, length, magic, crc, attributes, delta, max_timestamp = _unpack_fields(view, at)
            end = at + length + LOG_OVERHEAD_BYTES
            if not self._plausible(start + at, base_offset, length, magic, delta):
                break
            if end > available:
                break
            if crc32c(view[at + CRC_COVERS_FROM : end]) != crc:
                self._intact = False
                break
            if attributes & CONTROL_BIT:
                scan.has_markers = True
            add(base_offset, base_offset + delta, start + at, max_timestamp)
            self._accept(base_offset + delta, max_timestamp)
            at = end
        scan.valid_bytes = start + at
        return at

    def _plausible(self, position: int, base_offset: int, length: int, magic: int, delta: int) -> bool:
        self._intact = (
            magic == MAGIC_V2
            and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
            and position + LOG_OVERHEAD_BYTES + length <= self._size
            and base_offset >= self._scan.next_offset
            and delta >= 0
            and base_offset + delta < self._limit_offset
        )
        return self._intact

    def _accept(self, last_offset: int, max_timestamp: int) -> None:
        scan = self._scan
        if not scan.batches:
            scan.first_timestamp = max_timestamp
        scan.batches += 1
        scan.next_offset = last_offset + 1

    def _check_large_batch(self) -> None:
        """Check one batch that is larger than the buffer, whose header is at the buffer's start."""
        scan = self._scan
        base_offset, length, _, crc, _, delta, max_timestamp = _unpack_fields(self._view, 0)
        position, end = scan.valid_bytes, scan.valid_bytes + LOG_OVERHEAD_BYTES + length
        if self._checksum(position + CRC_COVERS_FROM, end, crc32c) != crc:
            self._intact = False
            return
        self._sampler.add(base_offset, base_offset + delta, position, max_timestamp)
        self._accept(base_offset + delta, max_timestamp)
        scan.valid_bytes = end

    def _checksum(self, at: int, end: int, update: Callable[[memoryview, int], int]) -> int | None:
        """The CRC of a range that may be larger than the buffer, None when the file ends before it does."""
        value = 0
        while at < end:
            count = min(self._fill(at), end - at)
            if not count:
                return None
            value = update(self._view[:count], value)
            at += count
        return value

    def _refuse_legacy_messages(self) -> None:
        """Cutting off what an old broker wrote would destroy good data, so nothing is touched then."""
        position = self._scan.valid_bytes
        head = self._log.read_exactly(position, min(self._size - position, HEADER_BYTES))
        if len(head) < _MIN_LEGACY_BYTES or head[MAGIC_AT] not in (0, 1):
            return
        size = LOG_OVERHEAD_BYTES + int.from_bytes(head[8:12], "big", signed=True)
        if not _MIN_LEGACY_BYTES <= size <= self._size - position:
            return
        value = self._checksum(position + MAGIC_AT, position + size, zlib.crc32)
        if value == _LEGACY_CRC.unpack_from(head, _LEGACY_CRC_AT)[0]:
            raise StorageError(
                f"{self._log.path} holds messages of format {head[MAGIC_AT]} at byte {position}; only record "
                "batches (format 2) can be served. Copy the topic with a client that reads the old format."
            )
