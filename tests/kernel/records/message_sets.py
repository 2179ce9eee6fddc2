"""Message sets as clients before Kafka 0.11 send them, built by kafka-python and by hand."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.message_set import Message, encode_message

GZIP, SNAPPY, LZ4 = 1, 2, 3
MIB = 1024 * 1024

Row = tuple[int, bytes | None, bytes | None]
"""Timestamp, key and value."""


def by_kafka_python(rows: Sequence[Row], magic: int, codec: int = 0) -> bytes:
    """A set as kafka-python sends it to a broker of that age; it has gzip itself, other codecs are ours."""
    builder = LegacyRecordBatchBuilder(magic, codec if codec == GZIP else 0, 64 * MIB)
    for offset, (timestamp, key, value) in enumerate(rows):
        builder.append(offset, timestamp, key, value)
    built = bytes(builder.build())
    return built if codec in (0, GZIP) else wrapper(built, magic, codec, len(rows) - 1)


def plain_set(rows: Sequence[Row], magic: int, first_offset: int = 0, *, attributes: int = 0) -> bytes:
    """Messages one after the other."""
    out = bytearray()
    for offset, row in enumerate(rows, first_offset):
        encode_message(out, Message(offset, *row), magic, attributes=attributes)
    return bytes(out)


def wrapper(
    content: bytes, magic: int, codec: int, offset: int = 0, timestamp: int = 1, *, attributes: int = 0
) -> bytes:
    """A compressed message that holds a set."""
    out = bytearray()
    packed = compress(codec, content, magic=magic)
    encode_message(out, Message(offset, timestamp, None, packed), magic, attributes=attributes | codec)
    return bytes(out)
