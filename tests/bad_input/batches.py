"""Record batches (magic 2) byte by byte, so that each field can be wrong by itself."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

HEADER = struct.Struct(">qiibI")
PROTECTED = struct.Struct(">hiqqqhii")


def varint(number: int) -> bytes:
    """Zigzag varint, as records have them."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(
    value: bytes | None, *, key: bytes | None = b"key", offset_delta: int = 0, timestamp_delta: int = 0
) -> bytes:
    """One record without headers."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + _bytes(key) + _bytes(value) + varint(0)
    return varint(len(body)) + body


def records(values: Sequence[bytes | None], *, key: bytes | None = b"key") -> bytes:
    """Records with offset deltas from 0 on."""
    return b"".join(record(value, key=key, offset_delta=delta) for delta, value in enumerate(values))


def _bytes(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    body: bytes | None = None,
    base_offset: int = 0,
    batch_length: int | None = None,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    timestamp: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    count: int | None = None,
) -> bytes:
    """A batch that is right unless an argument says otherwise.

    `body` replaces the records of `values`; `producer` is (id, epoch, base sequence); `timestamp` (now unless
    given, in ms) is both the first and the largest one.
    """
    time_ms = int(time.time() * 1000) if timestamp is None else timestamp
    protected = PROTECTED.pack(
        attributes,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        time_ms,
        time_ms,
        *producer,
        len(values) if count is None else count,
    ) + (records(values) if body is None else body)
    head = HEADER.pack(
        base_offset,
        len(protected) + 9 if batch_length is None else batch_length,
        -1,
        magic,
        crc32c(protected) if crc is None else crc,
    )
    return head + protected
