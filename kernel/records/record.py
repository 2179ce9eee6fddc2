"""Decoding and encoding of the records in a batch, whose layout is drawn in `scanner`.

Source: Kafka documentation, "Record". Nothing here runs on the produce or fetch path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import attrs
from librt.strings import BytesWriter

from tidelog.kernel.errors import CorruptBatch, MessageTooLarge
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.pieces import PieceReader
from tidelog.kernel.records.scanner import FIELDS, HEADER_FIELDS, Scanner, note_headers
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
_FIELDS: Final = struct.Struct(f"<{FIELDS}q")
_HEADER_FIELDS: Final = struct.Struct(f"<{HEADER_FIELDS}q")


@attrs.frozen
class Record:
    """One record with its absolute offset and timestamp (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


class RecordPlaces(NamedTuple):
    """Where the parts of a record are in some bytes: `FIELDS` of a scanner from the key on."""

    key_start: int
    key_size: int
    value_start: int
    value_size: int
    header_start: int
    header_count: int

    def record(self, data: bytes, offset: int, timestamp: int) -> Record:
        """Return the record, with this offset and timestamp."""
        headers = _headers(data, self.header_start, self.header_count) if self.header_count else ()
        key, value = _part(data, *self[:2]), _part(data, *self[2:4])
        return Record(offset, timestamp, key, value, headers)


def iter_records(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Iterate over all records of a batch, decompressed.

    Raises:
        CorruptBatch: the records are malformed or decompress to more than 256 MiB.
        UnsupportedCompression: the codec is unknown.
    """
    for data, (_, _, timestamp_delta, offset_delta, *places) in _scanned(batch, header, MAX_RECORDS_BYTES):
        offset, timestamp = _offset_and_timestamp(offset_delta, timestamp_delta, header)
        yield RecordPlaces(*places).record(data, offset, timestamp)


def iter_with_bytes(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[tuple[Record, bytes]]:
    """Iterate over all records of a batch, each with its bytes in the batch; raises as `iter_contents`."""
    for data, fields in _scanned(batch, header, most_bytes):
        start, end, timestamp_delta, offset_delta, *places = fields
        offset, timestamp = _offset_and_timestamp(offset_delta, timestamp_delta, header)
        yield RecordPlaces(*places).record(data, offset, timestamp), data[start:end]


def iter_contents(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[Record]:
    """Iterate over all records of a batch, without their headers. Raises as `iter_records`.

    Raises:
        MessageTooLarge: the next one has more than `most_bytes`; it is not decompressed as a whole.
    """
    for data, (_, _, timestamp_delta, offset_delta, *places) in _scanned(batch, header, most_bytes):
        offset, timestamp = _offset_and_timestamp(offset_delta, timestamp_delta, header)
        yield Record(offset, timestamp, _part(data, *places[:2]), _part(data, *places[2:4]))


def iter_timestamps(batch: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Iterate over (offset, timestamp) of all records; skips keys and values. Raises as `iter_records`."""
    for content in _split(batch, header, OFFSET_AND_TIMESTAMP_BYTES):
        timestamp_delta, position = read_varlong(content, ATTRIBUTES_BYTES)
        offset_delta, _ = read_varint(content, position)
        yield _offset_and_timestamp(offset_delta, timestamp_delta, header)


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


def _scanned(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Iterate over `FIELDS` of each record, with the bytes that they are in.

    Raises:
        MessageTooLarge: the next one has more than `most_bytes`.
    """
    scanner = Scanner(most_bytes=most_bytes)
    held: list[bytes] = []
    there = needed = 0
    for piece in _pieces(batch, header):
        held.append(bytes(piece))
        there += len(piece)
        # Joined only when the next record may be whole: else a long one in many pieces would be copied with
        # each of them.
        if there < needed:
            continue
        data, fields = b"".join(held) if len(held) > 1 else held[0], BytesWriter()
        position = scanner.scan(data, 0, header.record_count, fields)
        for noted in _FIELDS.iter_unpack(fields.getvalue()):
            yield data, noted
        if scanner.index == header.record_count:
            return
        held = [data[position:]]
        there, needed = len(held[0]), _needed(scanner, data, position, most_bytes)
    if scanner.index < header.record_count:
        raise CorruptBatch(f"the records end early: {header.record_count} are counted in the header")


def _needed(scanner: Scanner, data: bytes, position: int, most_bytes: int) -> int:
    """Return how many bytes the record at `position`, which the scanner stopped before, needs at least.

    Raises:
        MessageTooLarge: more than `most_bytes`.
        CorruptBatch: it is whole, so it is malformed.
    """
    left = len(data) - position
    try:
        length, start = read_varint(data, position)
    except CorruptBatch:
        # With so many bytes there the length is not cut off but too long.
        if left >= MAX_VARINT_BYTES:
            raise
        return left + 1
    if length > most_bytes:
        raise MessageTooLarge(f"a record has more than {most_bytes} bytes")
    if length < 0 or start + length <= len(data):
        raise CorruptBatch(f"record {scanner.index} is malformed")
    return start + length - position


def _pieces(batch: Buffer, header: BatchHeader) -> Iterator[Buffer]:
    packed = memoryview(batch)[HEADER_BYTES : header.size]
    return unpack(header.codec, packed, MAX_RECORDS_BYTES) if header.codec else iter((packed,))


def _split(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[memoryview]:
    """Iterate over the first `most_bytes` of each record, without its length."""
    cut = _Cut(_pieces(batch, header))
    for _ in range(header.record_count):
        length = cut.length()
        yield cut.take(min(length, most_bytes))
        cut.skip(length - most_bytes)


class _Cut(PieceReader):
    """Records in pieces of their bytes."""

    def length(self) -> int:
        """Take the length of a record."""
        # There may be fewer, at the end of the last record: `read_varint` finds out.
        self.hold(MAX_VARINT_BYTES)
        length, self.position = read_varint(self.data, self.position)
        if length < 0:
            raise CorruptBatch(f"a record cannot have {length} bytes")
        return length


def _offset_and_timestamp(offset_delta: int, timestamp_delta: int, header: BatchHeader) -> tuple[int, int]:
    """Return a record's offset and timestamp.

    Raises:
        CorruptBatch: the offset is none of the batch.
    """
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptBatch(f"offset delta {offset_delta} is beyond the batch's {header.last_offset_delta}")
    if header.is_append_time:
        return header.base_offset + offset_delta, header.max_timestamp
    timestamp = (header.base_timestamp + timestamp_delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP  # as Java
    return header.base_offset + offset_delta, timestamp


def _headers(data: bytes, start: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    fields = BytesWriter()
    note_headers(data, start, count, fields)
    return tuple(
        (data[key : key + key_size].decode(errors="replace"), _part(data, value, value_size))
        for key, key_size, value, value_size in _HEADER_FIELDS.iter_unpack(fields.getvalue())
    )


def _part(data: bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else data[start : start + size]


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    write_varlong(out, -1 if content is None else len(content))
    out += content or b""
