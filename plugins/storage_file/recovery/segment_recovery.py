"""Recovery of a segment: every batch is read and validated, and what follows the last valid one is cut off.

Two kinds of damage are expected after a crash: the tail is missing, or the file grew by blocks that were
never written (nonsense or zeros). Both end at the first batch that is not whole, does not have its CRC, or
does not follow the offsets before it. Source: Apache Kafka's `LogSegment.recover`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct

from crc32c import crc32c

from tidelog.kernel.errors import StorageError
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
)
from tidelog.plugins.storage_file.log_file import LogFile
from tidelog.plugins.storage_file.segments.batch_scan import CHUNK_BYTES as HEADERS_CHUNK_BYTES
from tidelog.plugins.storage_file.segments.batch_scan import not_a_batch
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder

CHUNK_BYTES = 1024 * 1024
"""Read at once: large enough to amortise the call, small enough to stay in the processor's cache."""

# baseOffset, batchLength, magic, crc, attributes, lastOffsetDelta and maxTimestamp of a batch header.
_FIELDS = Struct(">qi4xbIhi8xq")
_unpack_fields = _FIELDS.unpack_from

MAX_OFFSET = 2**63 - 1
_LEGACY_CRC_AT = 12
_LEGACY_CRC = Struct(">I")
_MIN_LEGACY_BYTES = 26


def validate_batches(log: LogFile, size: int, limit_offset: int | None, builder: SegmentBuilder) -> bool:
    """Blocking: validate the first `size` bytes of a segment, and feed its valid batches to `builder`.

    `limit_offset` is the base offset of the next segment, which no batch may reach. Returns whether there are
    control batches among them.

    Raises:
        StorageError: the segment holds intact messages of a format older than record batches.
    """
    return _Validation(log, size, limit_offset, builder).run()


def read_headers(log: LogFile, size: int, builder: SegmentBuilder) -> None:
    """Blocking: feed the batches of a segment that is known to be valid to `builder`, by their headers.

    Raises:
        CorruptBatch: it is not valid.
    """
    buffer = bytearray(HEADERS_CHUNK_BYTES)
    add, position = builder.add, 0
    while position < size:
        available = min(log.read_into(buffer, position, wait=True), size - position)
        at = 0
        while at + HEADER_BYTES <= available:
            first, length, magic, _, _, delta, max_timestamp = _unpack_fields(buffer, at)
            bytes_of_batch = length + LOG_OVERHEAD_BYTES
            fits = 0 < bytes_of_batch <= size - position - at
            if magic != MAGIC_V2 or first < builder.next_offset or delta < 0 or not fits:
                raise not_a_batch(log, position + at)
            add(first, first + delta, bytes_of_batch, max_timestamp)
            at += bytes_of_batch
        if not at:
            raise not_a_batch(log, position)
        position += at


class _Validation:
    def __init__(self, log: LogFile, size: int, limit_offset: int | None, builder: SegmentBuilder) -> None:
        self._log = log
        self._size = size
        self._builder = builder
        self._limit_offset = MAX_OFFSET if limit_offset is None else limit_offset
        self._buffer = bytearray(min(CHUNK_BYTES, max(size, 1)))
        self._view = memoryview(self._buffer)
        self._has_markers = False
        self._intact = True

    def run(self) -> bool:
        builder = self._builder
        while self._intact and self._size - builder.size >= HEADER_BYTES:
            available = self._fill(builder.size)
            if not self._check_chunk(available) and self._intact:
                self._check_large_batch()
        if builder.size < self._size:
            self._refuse_legacy_messages()
        return self._has_markers

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
        """Validate the batches that lie wholly in the buffer; return the bytes they take."""
        view, add = self._view, self._builder.add
        at = 0
        while at + HEADER_BYTES <= available:
            base_offset, length, magic, crc, attributes, delta, max_timestamp = _unpack_fields(view, at)
            end = at + length + LOG_OVERHEAD_BYTES
            if not self._plausible(base_offset, length, magic, delta):
                break
            if end > available:
                break
            if crc32c(view[at + CRC_COVERS_FROM : end]) != crc:
                self._intact = False
                break
            if attributes & CONTROL_BIT:
                self._has_markers = True
            add(base_offset, base_offset + delta, end - at, max_timestamp)
            at = end
        return at

    def _plausible(self, base_offset: int, length: int, magic: int, delta: int) -> bool:
        builder = self._builder
        self._intact = (
            magic == MAGIC_V2
            and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
            and builder.size + LOG_OVERHEAD_BYTES + length <= self._size
            and base_offset >= builder.next_offset
            and delta >= 0
            and base_offset + delta < self._limit_offset
        )
        return self._intact

    def _check_large_batch(self) -> None:
        """Validate one batch that is larger than the buffer, whose header is at the buffer's start."""
        base_offset, length, _, crc, _, delta, max_timestamp = _unpack_fields(self._view, 0)
        position, size = self._builder.size, LOG_OVERHEAD_BYTES + length
        if self._checksum(position + CRC_COVERS_FROM, position + size, crc32c) != crc:
            self._intact = False
            return
        self._builder.add(base_offset, base_offset + delta, size, max_timestamp)

    def _checksum(self, at: int, end: int, update: Callable[[memoryview, int], int]) -> int | None:
        """Return the CRC of a range that may be larger than the buffer, None when the file ends within it."""
        value = 0
        while at < end:
            count = min(self._fill(at), end - at)
            if not count:
                return None
            value = update(self._view[:count], value)
            at += count
        return value

    def _refuse_legacy_messages(self) -> None:
        """Raise for message sets of an older format, which truncation would destroy."""
        position = self._builder.size
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
