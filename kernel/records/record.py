"""Decoding and encoding of the records in a batch.

    length          varint     bytes of the record after this field
    attributes      int8
    timestampDelta  varlong    to the batch's baseTimestamp
    offsetDelta     varint     to the batch's baseOffset
    keyLength       varint     -1: null; then the key
    valueLength     varint     -1: null; then the value
    headers         varint count, then for each: key length and key, value length (-1: null) and value

Source: Kafka documentation, "Record". Nothing here runs on the produce or fetch path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tidelog.kernel.errors import CorruptBatch, MessageTooLarge
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.pieces import PieceReader
from tidelog.kernel.records.varint import (
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    read_varint,
    read_varlong,
    write_varlong,
)

MAX_RECORDS_BYTES = 256 * 1024 * 1024
"""Limit of the decompressed size of one batch: a small batch can decompress to gigabytes."""
ATTRIBUTES_BYTES = 1
OFFSET_AND_TIMESTAMP_BYTES = ATTRIBUTES_BYTES + MAX_VARLONG_BYTES + MAX_VARINT_BYTES
"""Bytes of a record, at most, up to the end of its timestamp and offset."""
MIN_TIMESTAMP = -(2**63)
MIN_RECORD_BYTES = 7
"""Of a record without key, value and headers: each of its fields has one byte."""


@attrs.frozen
class Record:
    """One record with its absolute offset and timestamp (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def iter_records(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Iterate over all records of a batch, decompressed.

    Raises:
        CorruptBatch: the records are malformed or decompress to more than 256 MiB.
        UnsupportedCompression: the codec is unknown.
    """
    for content in _split(batch, header):
        yield decode_record(content, header)


def iter_contents(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[Record]:
    """Iterate over all records of a batch, without their headers. Raises as `iter_records`.

    Raises:
        MessageTooLarge: the next one has more than `most_bytes`; it is not decompressed as a whole.
    """
    for content in _split(batch, header, most_bytes + 1):
        if len(content) > most_bytes:
            raise MessageTooLarge(f"a record has more than {most_bytes} bytes")
        offset, timestamp, position = _decode_offset_and_timestamp(content, header)
        key, position = _read_bytes(content, position)
        value, _ = _read_bytes(content, position)
        yield Record(offset, timestamp, key, value)


def iter_timestamps(batch: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Iterate over (offset, timestamp) of all records; skips keys and values. Raises as `iter_records`."""
    for content in _split(batch, header, OFFSET_AND_TIMESTAMP_BYTES):
        offset, timestamp, _ = _decode_offset_and_timestamp(content, header)
        yield offset, timestamp


def encode_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    """Append a record to the records of a batch with that base offset and timestamp."""
    body = bytearray(1)
    write_varlong(body, record.timestamp - base_timestamp)
    write_varlong(body, record.offset - base_offset)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varlong(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key.encode())
        _write_bytes(body, value)
    write_varlong(out, len(body))
    out += body


def _split(batch: Buffer, header: BatchHeader, most_bytes: int = MAX_RECORDS_BYTES) -> Iterator[memoryview]:
    """Iterate over the bytes of each record, without its length, or the first `most_bytes` of them."""
    packed = memoryview(batch)[HEADER_BYTES : header.size]
    pieces = unpack(header.codec, packed, MAX_RECORDS_BYTES) if header.codec else iter((packed,))
    cut = _Cut(pieces)
    for _ in range(header.record_count):
        length = cut.length()
        yield cut.take(min(length, most_bytes))
        cut.skip(length - most_bytes)


class _Cut(PieceReader):
    """Records in pieces of their bytes."""

    def length(self) -> int:
        """Take the length of a record."""
        self.hold(MAX_VARINT_BYTES)
        length, self.position = read_varint(self.data, self.position)
        if length < 0:
            raise CorruptBatch(f"a record cannot have {length} bytes")
        return length


def decode_record(content: memoryview, header: BatchHeader) -> Record:
    """Return the record of a batch with that header; `content` are its bytes without the length.

    Raises:
        CorruptBatch: it is malformed.
    """
    offset, timestamp, position = _decode_offset_and_timestamp(content, header)
    key, position = _read_bytes(content, position)
    value, position = _read_bytes(content, position)
    headers, position = _decode_headers(content, position)
    if position != len(content):
        raise CorruptBatch(f"{len(content) - position} bytes follow the headers of the record at {offset}")
    return Record(offset, timestamp, key, value, headers)


def _decode_offset_and_timestamp(content: memoryview, header: BatchHeader) -> tuple[int, int, int]:
    """Return a record's offset, its timestamp and the position of its key."""
    timestamp_delta, position = read_varlong(content, ATTRIBUTES_BYTES)
    offset_delta, position = read_varint(content, position)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptBatch(f"offset delta {offset_delta} is beyond the batch's {header.last_offset_delta}")
    if header.is_append_time:
        return header.base_offset + offset_delta, header.max_timestamp, position
    timestamp = (header.base_timestamp + timestamp_delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP  # as Java
    return header.base_offset + offset_delta, timestamp, position


def _decode_headers(content: memoryview, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(content, position)
    if count < 0:
        raise CorruptBatch(f"a record cannot have {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(content, position)
        if name is None:
            raise CorruptBatch("a record has a header without a key")
        value, position = _read_bytes(content, position)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def _read_bytes(content: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(content, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(content):
        raise CorruptBatch(f"a field of {length} bytes does not fit its record")
    return bytes(content[position:end]), end


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    write_varlong(out, -1 if content is None else len(content))
    out += content or b""
