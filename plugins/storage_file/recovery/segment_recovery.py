"""Recovery of a segment: every batch is read and validated, and what follows the last valid one is cut off.

Two kinds of damage are expected after a crash: the tail is missing, or the file grew by blocks that were
never written (nonsense or zeros). Both end at the first batch that is not whole, does not have its CRC, or
does not follow the offsets before it. Messages of the formats 0 and 1 are validated as batches are, with
their own checksum; those in a compressed one are not read. Source: Apache Kafka's `LogSegment.recover`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import TypeAlias

from tidelog.kernel.checksum import crc32c
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    Buffer,
    parse_message,
)
from tidelog.kernel.records.stored import LEAST_BYTES
from tidelog.plugins.storage_file.log_file import CHUNK_BYTES as HEADERS_CHUNK_BYTES
from tidelog.plugins.storage_file.log_file import LogFile, not_a_batch
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder

CHUNK_BYTES = 1024 * 1024
"""Read at once: large enough to amortise the call, small enough to stay in the processor's cache."""

# baseOffset, batchLength, magic, crc, attributes, lastOffsetDelta and maxTimestamp of a batch header.
# The format is unsigned here: a negative one does not exist either, and is no index.
_FIELDS = Struct(">qi4xBIhi8xq")
_unpack_fields = _FIELDS.unpack_from

_LEAST_BYTES = LEAST_BYTES[0]

MAX_OFFSET = 2**63 - 1

_Fields: TypeAlias = tuple[int, int, int, int, int, int, int]


def validate_batches(log: LogFile, size: int, limit_offset: int | None, builder: SegmentBuilder) -> bool:
    """Blocking: validate the first `size` bytes of a segment, and feed its valid batches to `builder`.

    `limit_offset` is the base offset of the next segment, which no batch may reach. Returns whether there are
    control batches among them.
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
        while (fields := _fields_at(buffer, at, available)) is not None:
            first, length, magic, _, _, delta, max_timestamp = fields
            bytes_of_batch = length + LOG_OVERHEAD_BYTES
            fits = 0 < bytes_of_batch <= size - position - at
            if magic > MAGIC_V2 or first < builder.next_offset or delta < 0 or not fits:
                raise not_a_batch(log, position + at)
            add(first, first + delta, bytes_of_batch, max_timestamp)
            at += bytes_of_batch
        if not at:
            raise not_a_batch(log, position)
        position += at


def _fields_at(data: Buffer, at: int, available: int) -> _Fields | None:
    """Return the fields of the batch, or of the message of format 0 or 1, at `at`; None if cut."""
    if at + _LEAST_BYTES > available:
        return None
    magic = data[at + MAGIC_AT]
    return _fields_of(data, at) if at + LEAST_BYTES[min(magic, MAGIC_V2)] <= available else None


def _fields_of(data: Buffer, at: int) -> _Fields:
    magic = data[at + MAGIC_AT]
    if magic >= MAGIC_V2:
        return _unpack_fields(data, at)
    header = parse_message(data, at)
    return header.base_offset, header.batch_length, magic, header.crc, 0, 0, header.max_timestamp


def _checksum_of(magic: int) -> tuple[Callable[[Buffer, int], int], int]:
    """Return the checksum that a format has, and the first byte that it covers."""
    return (crc32c, CRC_COVERS_FROM) if magic == MAGIC_V2 else (zlib.crc32, MAGIC_AT)


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
        while self._intact and self._size - builder.size >= _LEAST_BYTES:
            available = self._fill(builder.size)
            if not self._check_chunk(available) and self._intact:
                self._check_large_batch()
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
        while (fields := _fields_at(view, at, available)) is not None:
            base_offset, length, magic, crc, attributes, delta, max_timestamp = fields
            end = at + length + LOG_OVERHEAD_BYTES
            if not self._plausible(base_offset, length, magic, delta):
                return at
            if end > available:
                return at
            checksum, covers_from = _checksum_of(magic)
            if checksum(view[at + covers_from : end], 0) != crc:
                self._intact = False
                return at
            if attributes & CONTROL_BIT:
                self._has_markers = True
            add(base_offset, base_offset + delta, end - at, max_timestamp)
            at = end
        # The head of the first one is cut only where the file ends.
        self._intact = at > 0
        return at

    def _plausible(self, base_offset: int, length: int, magic: int, delta: int) -> bool:
        builder = self._builder
        self._intact = (
            magic <= MAGIC_V2
            and length >= LEAST_BYTES[magic] - LOG_OVERHEAD_BYTES
            and builder.size + LOG_OVERHEAD_BYTES + length <= self._size
            and base_offset >= builder.next_offset
            and delta >= 0
            and base_offset + delta < self._limit_offset
        )
        return self._intact

    def _check_large_batch(self) -> None:
        """Validate one batch that is larger than the buffer, whose header is at the buffer's start."""
        # Read before the checksum, which fills the buffer again.
        base_offset, length, magic, crc, _, delta, max_timestamp = _fields_of(self._view, 0)
        position, size = self._builder.size, LOG_OVERHEAD_BYTES + length
        checksum, covers_from = _checksum_of(magic)
        if self._checksum(position + covers_from, position + size, checksum) != crc:
            self._intact = False
            return
        self._builder.add(base_offset, base_offset + delta, size, max_timestamp)

    def _checksum(self, at: int, end: int, update: Callable[[Buffer, int], int]) -> int | None:
        """Return the CRC of a range that may be larger than the buffer, None when the file ends within it."""
        value = 0
        while at < end:
            count = min(self._fill(at), end - at)
            if not count:
                return None
            value = update(self._view[:count], value)
            at += count
        return value
