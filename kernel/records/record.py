"""Records inside a batch: decode and encode them.

    length          varint     bytes of the record after this field
    attributes      int8
    timestampDelta  varlong    to the batch's baseTimestamp
    offsetDelta     varint     to the batch's baseOffset
    keyLength       varint     -1: null; then the key
    valueLength     varint     -1: null; then the value
    headers         varint count, then for each: key length and key, value length (-1: null) and value

Source: seed 000, section 5.3.2. Nothing here runs on the produce or fetch path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, Buffer
from tidelog.kernel.records.compression import decompress
from tidelog.kernel.records.varint import read_varlong, write_varlong

MAX_RECORDS_BYTES = 256 * 1024 * 1024
"""The most that one batch may unpack to: a small batch can claim gigabytes."""


@attrs.frozen
class Record:
    """One record with its absolute offset and timestamp (milliseconds since the epoch)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def iter_records(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """All records of a batch, unpacked.

    Raises:
        CorruptBatch: the records' bytes contradict themselves or unpack to more than 256 MiB.
        UnsupportedCompression: the codec is unknown.
    """
    data = _records_of(batch, header)
    position = 0
    for _ in range(header.record_count):
        length, position = read_varlong(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise CorruptBatch(f"a record of {length} bytes does not fit its batch")
        yield _decode_record(data, position, header)
        position = end


def iter_timestamps(batch: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of all records; keys and values are passed over. Raises as `iter_records`."""
    data = _records_of(batch, header)
    position = 0
    for _ in range(header.record_count):
        length, position = read_varlong(data, position)
        timestamp_delta, at = read_varlong(data, position + 1)
        offset_delta, _ = read_varlong(data, at)
        if length < 0:
            raise CorruptBatch(f"a record of {length} bytes does not fit its batch")
        position += length
        yield header.base_offset + offset_delta, _timestamp(header, timestamp_delta)


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


def _records_of(batch: Buffer, header: BatchHeader) -> Buffer:
    data = memoryview(batch)[HEADER_BYTES : header.size]
    return decompress(header.codec, data, MAX_RECORDS_BYTES) if header.codec else data


def _timestamp(header: BatchHeader, delta: int) -> int:
    return header.max_timestamp if header.is_append_time else header.base_timestamp + delta


def _decode_record(data: Buffer, position: int, header: BatchHeader) -> Record:
    timestamp_delta, position = read_varlong(data, position + 1)
    offset_delta, position = read_varlong(data, position)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    count, position = read_varlong(data, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position)
        content, position = _read_bytes(data, position)
        headers.append(((name or b"").decode(errors="replace"), content))
    return Record(
        header.base_offset + offset_delta, _timestamp(header, timestamp_delta), key, value, tuple(headers)
    )


def _read_bytes(data: Buffer, position: int) -> tuple[bytes | None, int]:
    length, position = read_varlong(data, position)
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise CorruptBatch(f"a field of {length} bytes does not fit its record")
    return bytes(data[position:end]), end


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    write_varlong(out, -1 if content is None else len(content))
    out += content or b""
