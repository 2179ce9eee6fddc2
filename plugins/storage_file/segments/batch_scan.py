"""Iteration over the batches of a segment file by their headers, without reading their records."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    BatchHeader,
)
from tidelog.kernel.records.stored import LEAST_BYTES, whole_header
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.storage_file.log_file import LogFile

CHUNK_BYTES = 4096
"""Bytes of one read: the default distance of index entries, so that one read ends most lookups."""

# baseOffset, batchLength, magic and lastOffsetDelta of a batch header.
_PLACE = Struct(">qi4xb6xi")
_unpack_place = _PLACE.unpack_from
_PLACE_BYTES = _PLACE.size
_SMALLEST_MESSAGE_BYTES = LEAST_BYTES[0]


class BatchPlace(NamedTuple):
    """The position of a batch in its segment file, and the offsets that it holds."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int = MAGIC_V2
    """With 0 or 1 it is a message, whose base offset is its last one even if it holds others."""


def find_batch(log: LogFile, position: int, end: int, offset: int, wait: bool) -> BatchPlace | None:
    """Return the first batch in `[position, end)` that holds `offset` or lies beyond it, None without one.

    `position` starts a batch.

    Raises:
        WouldBlock: a header is not in memory (never with `wait`).
        CorruptBatch: what is there is no batch.
    """
    buffer = bytearray(CHUNK_BYTES)
    while position < end:
        available = min(log.read_into(buffer, position, wait), end - position)
        at = 0
        while at + _PLACE_BYTES <= available:
            base_offset, length, magic, delta = _unpack_place(buffer, at)
            if magic != MAGIC_V2 or length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                message = _header_of_message(log, position, buffer, at, available)
                if message is None:
                    break
                base_offset, length, magic, delta = *message[:2], message.magic, 0
            size = length + LOG_OVERHEAD_BYTES
            if base_offset + delta >= offset:
                return BatchPlace(position + at, size, base_offset, base_offset + delta, magic)
            at += size
        if not at:
            message = _smallest_message(log, position, buffer, end, available)
            if message is None:
                _short_header(log, position, end, wait)
            elif message.base_offset >= offset:
                return BatchPlace(
                    position, message.size, message.base_offset, message.last_offset, message.magic
                )
            at = _SMALLEST_MESSAGE_BYTES
        position += at
    return None


def iter_headers(log: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Blocking: iterate over position and header of every batch in `[position, end)`.

    `position` starts a batch.

    Raises:
        CorruptBatch: what is there is no batch.
    """
    buffer = bytearray(CHUNK_BYTES)
    while position < end:
        available = min(log.read_into(buffer, position, wait=True), end - position)
        at = 0
        while (header := _whole_header(log, position, buffer, at, available)) is not None:
            yield position + at, header
            at += header.size
        if not at:
            raise not_a_batch(log, position)
        position += at


def _header_of_message(
    log: LogFile, position: int, buffer: bytearray, at: int, available: int
) -> BatchHeader | None:
    """Return the header of a message of format 0 or 1, None if its head is not in the buffer."""
    header = _whole_header(log, position, buffer, at, available)
    if header is not None and header.magic == MAGIC_V2:
        raise not_a_batch(log, position + at)
    return header


def _smallest_message(
    log: LogFile, position: int, buffer: bytearray, end: int, available: int
) -> BatchHeader | None:
    """Return the header of a message that ends the segment and is shorter than the place of a batch."""
    if available != _SMALLEST_MESSAGE_BYTES or position + available != end:
        return None
    return _header_of_message(log, position, buffer, 0, available)


def _whole_header(
    log: LogFile, position: int, buffer: bytearray, at: int, available: int
) -> BatchHeader | None:
    try:
        return whole_header(buffer, at, available)
    except CorruptBatch as error:
        raise not_a_batch(log, position + at) from error


def _short_header(log: LogFile, position: int, end: int, wait: bool) -> None:
    if not wait and position + _PLACE_BYTES <= end:
        raise WouldBlock
    raise not_a_batch(log, position)


def not_a_batch(log: LogFile, position: int) -> CorruptBatch:
    """Return the error for bytes that are no batch where one should start."""
    return CorruptBatch(f"{log.path} holds no record batch at byte {position}")
