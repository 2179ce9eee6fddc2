"""Message sets: the formats 0 and 1 that clients older than Kafka 0.11 read.

    offset        int64
    message size  int32   bytes after this field
    crc           uint32  CRC-32 (not CRC-32C) of everything after it
    magic         int8    0 or 1
    attributes    int8    bits 0-2 codec, in format 1 bit 3 timestamp type
    timestamp     int64   format 1 only, milliseconds since the epoch
    key           int32 length (-1: null) and bytes
    value         int32 length (-1: null) and bytes

Source: Kafka documentation, "Old Message Format".
"""

from __future__ import annotations

import struct
import zlib

from tidelog.kernel.records.record import Record

MAGIC_V0 = 0
MAGIC_V1 = 1
APPEND_TIME_BIT = 0x08

_ENTRY = struct.Struct(">qiI")
_HEAD_V0 = struct.Struct(">bb")
_HEAD_V1 = struct.Struct(">bbq")
_LENGTH = struct.Struct(">i")
CRC_BYTES = 4


def encode_message(out: bytearray, record: Record, magic: int, *, is_append_time: bool = False) -> None:
    """Append a record as an uncompressed message of that format, which has no room for its headers."""
    body = _encode_body(record, magic, is_append_time=is_append_time)
    out += _ENTRY.pack(record.offset, CRC_BYTES + len(body), zlib.crc32(body))
    out += body


def _encode_body(record: Record, magic: int, *, is_append_time: bool) -> bytes:
    if magic == MAGIC_V0:
        head = _HEAD_V0.pack(MAGIC_V0, 0)
    else:
        head = _HEAD_V1.pack(MAGIC_V1, APPEND_TIME_BIT if is_append_time else 0, record.timestamp)
    return head + _sized(record.key) + _sized(record.value)


def _sized(content: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if content is None else _LENGTH.pack(len(content)) + content
