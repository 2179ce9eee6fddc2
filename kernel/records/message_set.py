"""Messages of the formats 0 and 1, which Kafka before 0.11 sent and stored, and sets of them.

    offset        int64
    message size  int32   bytes after this field
    crc           uint32  CRC-32 (not CRC-32C) of everything after it
    magic         int8    0 or 1
    attributes    int8    bits 0-2 codec, in format 1 bit 3 timestamp type
    timestamp     int64   format 1 only, milliseconds since the epoch
    key           int32 length (-1: null) and bytes
    value         int32 length (-1: null) and bytes

The value of a compressed message is a set of others: it is their wrapper, and its offset is that of the last
of them. Those in a wrapper of format 0 have their offsets, those of format 1 have offsets that count from the
first of them. In a wrapper with LogAppendTime all have its timestamp.

Source: Kafka documentation, "Old Message Format".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tidelog.kernel.errors import CorruptBatch, MessageTooLarge
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    LEAST_MESSAGE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.pieces import PieceReader

MAGIC_V0, MAGIC_V1 = 0, 1
CRC_BYTES = 4
ATTRIBUTES_AT = 17
HEAD_BYTES = (18, 26)
"""Bytes before the key, of each format."""
MAX_SET_BYTES = 256 * 1024 * 1024
"""Limit of the decompressed size of a wrapper: a small one can decompress to gigabytes."""

_ENTRY = struct.Struct(">qiI")
_ATTRIBUTES_V0 = struct.Struct(">bb")
_ATTRIBUTES_V1 = struct.Struct(">bbq")
_PLACE = struct.Struct(">qi")
_CRC = struct.Struct(">I")
_CRC_AT = LOG_OVERHEAD_BYTES
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


class Message(NamedTuple):
    """A message with its absolute offset and timestamp (milliseconds since the epoch, -1 in format 0)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class MessageContent(Protocol):
    """The fields of a record that a message has."""

    @property
    def offset(self) -> int:
        """The absolute offset."""
        ...

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch."""
        ...

    @property
    def key(self) -> bytes | None:
        """The key, None for null."""
        ...

    @property
    def value(self) -> bytes | None:
        """The value, None for null."""
        ...


def is_cut(messages: Buffer, *, wrapped: bool = False) -> bool:
    """Return whether the first message is not there as a whole: a set ends before it.

    Of one that is cut the size is validated, and the format unless it is `wrapped`, if they are there.
    Source: Apache Kafka 3.9, `ByteBufferLogInputStream`.

    Raises:
        CorruptBatch: no message has this size or format.
    """
    there = len(messages)
    if there < LOG_OVERHEAD_BYTES:
        return True
    size = _PLACE.unpack_from(messages)[1] + LOG_OVERHEAD_BYTES
    if size < LEAST_MESSAGE_BYTES[MAGIC_V0]:
        raise CorruptBatch(f"a message cannot have {size} bytes")
    if there <= MAGIC_AT:
        return True
    if not wrapped and messages[MAGIC_AT] > MAGIC_V2:
        raise CorruptBatch(f"a message has format {messages[MAGIC_AT]}, the newest is {MAGIC_V2}")
    return bool(there < size)


def encode_message(out: bytearray, message: MessageContent, magic: int, *, attributes: int = 0) -> None:
    """Append a message of format `magic`; a codec in `attributes` is that of the value, which is copied."""
    if magic == MAGIC_V0:
        head = _ATTRIBUTES_V0.pack(MAGIC_V0, attributes)
    else:
        head = _ATTRIBUTES_V1.pack(MAGIC_V1, attributes, message.timestamp)
    body = head + _sized(message.key) + _sized(message.value)
    out += _ENTRY.pack(message.offset, CRC_BYTES + len(body), zlib.crc32(body))
    out += body


def _sized(content: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if content is None else _LENGTH.pack(len(content)) + content


def verify_message_crc(message: Buffer, header: BatchHeader) -> bool:
    """Return whether the CRC-32 of a message (exactly its bytes) is the one in it."""
    return zlib.crc32(memoryview(message)[MAGIC_AT:]) == header.crc


def iter_messages(data: Buffer, header: BatchHeader, most_bytes: int = MAX_SET_BYTES) -> Iterator[Message]:
    """Iterate over the messages in a stored one: itself, or those that it wraps, decompressed.

    No more than some of them are in memory. Checksums are not compared.

    Raises:
        CorruptBatch: they are malformed, or decompress to more than 256 MiB.
        UnsupportedCompression: the codec is unknown.
        MessageTooLarge: the next one has more than `most_bytes`; it is not decompressed as a whole.
    """
    view = memoryview(data)[: header.size]
    if not header.codec:
        if header.size > most_bytes:
            raise _too_large(most_bytes)
        key, value = _key_and_value(view, header.magic)
        yield Message(header.base_offset, header.max_timestamp, key, value)
        return
    shift = 0
    if header.magic == MAGIC_V1:
        # A pass of its own, without the bytes of the messages: the wrapper has the offset of the last one,
        # and the first one cannot be returned before that is known.
        last = max((entry.offset for entry in _wrapped(view, header, 0)), default=0)
        shift = header.base_offset - last
    for entry in _wrapped(view, header, most_bytes):
        if entry.content is None:
            raise _too_large(most_bytes)
        magic = entry.content[MAGIC_AT]
        timestamp = header.max_timestamp
        if not header.is_append_time:
            timestamp = _timestamp(entry.content, magic)
        key, value = _key_and_value(entry.content, magic)
        yield Message(entry.offset + shift, timestamp, key, value)


class _Entry(NamedTuple):
    """A message in a wrapper: the offset as it is written, and its bytes unless they are too many."""

    offset: int
    content: memoryview | None


def _wrapped(view: memoryview, header: BatchHeader, most_bytes: int) -> Iterator[_Entry]:
    """Iterate over the messages in a wrapper, without the bytes of those above `most_bytes`."""
    packed = wrapped_value(view, header.magic)
    stream = PieceReader(unpack(header.codec, packed, MAX_SET_BYTES, magic=header.magic))
    while stream.hold(1):
        place = bytes(stream.take(LOG_OVERHEAD_BYTES))
        offset, length = _PLACE.unpack(place)
        size = length + LOG_OVERHEAD_BYTES
        if size < LEAST_MESSAGE_BYTES[0]:
            raise CorruptBatch(f"a message in a compressed one cannot have {length} bytes")
        if size > most_bytes:
            stream.skip(length)
            yield _Entry(offset, None)
            continue
        content = memoryview(place + stream.take(length))
        if content[MAGIC_AT] > MAGIC_V1 or content[ATTRIBUTES_AT] & CODEC_MASK:
            raise CorruptBatch("a compressed message holds one of another format, or a compressed one")
        yield _Entry(offset, content)


def wrapped_value(view: memoryview, magic: int) -> memoryview:
    """Return the value of a message, without copying it.

    Raises:
        CorruptBatch: the lengths of key and value do not fit the message, or the value is null.
    """
    _, value = _fields(view, magic)
    if value is None:
        raise CorruptBatch("a compressed message has no value")
    return value


def _key_and_value(view: memoryview, magic: int) -> tuple[bytes | None, bytes | None]:
    key, value = _fields(view, magic)
    return None if key is None else bytes(key), None if value is None else bytes(value)


def _fields(view: memoryview, magic: int) -> tuple[memoryview | None, memoryview | None]:
    key, position = _field(view, HEAD_BYTES[magic])
    value, position = _field(view, position)
    if position != len(view):
        raise CorruptBatch(f"{len(view) - position} bytes follow the value of a message")
    return key, value


def _field(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    start = position + _LENGTH.size
    if start > len(view):
        raise CorruptBatch("a message ends before its key and value")
    (length,) = _LENGTH.unpack_from(view, position)
    if length < 0:
        return None, start
    if start + length > len(view):
        raise CorruptBatch(f"a field of {length} bytes does not fit its message")
    return view[start : start + length], start + length


def _timestamp(content: memoryview, magic: int) -> int:
    if magic == MAGIC_V0:
        return NO_TIMESTAMP
    if len(content) < LEAST_MESSAGE_BYTES[MAGIC_V1]:
        raise CorruptBatch(f"a message of format 1 cannot have {len(content)} bytes")
    timestamp: int = _TIMESTAMP.unpack_from(content, HEAD_BYTES[MAGIC_V0])[0]
    return timestamp


def _too_large(most_bytes: int) -> MessageTooLarge:
    return MessageTooLarge(f"a record has more than {most_bytes} bytes")
