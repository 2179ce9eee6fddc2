"""Up-conversion of the message sets that producers before Kafka 0.11 send to one record batch.

Messages have no offsets of their own yet: whatever a producer wrote there is ignored, as in Apache Kafka,
also inside a compressed message. So is a cut message behind others. All messages become one batch, with the
codec that they had or another one. They are converted piece by piece: neither the decompressed messages nor
the decompressed records are held as a whole.

Source: Apache Kafka 3.9, `LogValidator` and `LegacyRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

from tidelog.kernel.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordError,
    UnsupportedCompression,
)
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LEAST_MESSAGE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
    parse_message,
)
from tidelog.kernel.records.checking import MAX_RECORD_ERRORS, NO_KEY, RecordRules, refusal, timestamp_error
from tidelog.kernel.records.compression import (
    PACKED_PIECE_BYTES,
    UnpackedTooLarge,
    codec_of,
    steps_of,
    unpack,
)
from tidelog.kernel.records.message_set import (
    ATTRIBUTES_AT,
    HEAD_BYTES,
    MAGIC_V0,
    MAGIC_V1,
    is_cut,
    verify_message_crc,
    wrapped_value,
)
from tidelog.kernel.records.record import MAX_RECORDS_BYTES
from tidelog.kernel.records.varint import write_varlong

MESSAGES_PER_STEP = 256
"""Messages that are converted in one step: half a millisecond."""
MAX_WRAPPED_BYTES = 16 * 1024 * 1024
"""Limit of a message in a compressed one, which is held as a whole; `max.message.bytes` if that is more."""
NEWEST_OLD_CODEC = 3
"""zstd came later than these formats."""
_V0 = struct.Struct(">qiIbbi")
_V1 = struct.Struct(">qiIbbqi")
_LENGTH = struct.Struct(">i")
_LENGTH_BYTES: Final = _LENGTH.size
_PLACE = struct.Struct(">qi")
_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\0"
_OTHER_BYTES = 1
"""The attributes of a record."""
_TABLE_SIZE = 8192


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


_VARINTS: Final = [_varint(value) for value in range(_TABLE_SIZE)]
"""The varints of one and two bytes."""


class UpConversion(NamedTuple):
    """What a message set has to be, and what it becomes.

    `max_bytes` is the limit on a message, with what it wraps still compressed, and on the batch.
    `append_time`: the topic has LogAppendTime. `codec_id` and `level` compress the batch; None for the codec
    of the messages.
    """

    rules: RecordRules
    max_bytes: int
    append_time: bool = False
    codec_id: int | None = None
    level: int | None = None


def source_codec(messages: Buffer) -> int:
    """Return the codec of the first message, 0 if there is none."""
    return messages[ATTRIBUTES_AT] & CODEC_MASK if len(messages) > ATTRIBUTES_AT else 0


def up_convert_in_steps(messages: Buffer, conversion: UpConversion) -> Generator[None, None, bytearray]:
    """Return the messages of a set as one batch with base offset 0, converting some of them in each step.

    Raises:
        MessageTooLarge: a message or the batch has more than `max_bytes`, or decompresses to 256 MiB.
        CorruptBatch: a CRC-32 is wrong, or a length cannot be.
        InvalidRecord: messages are malformed, of several formats, or more than one where the first one is
            compressed; no message is whole; or keys are missing that are required.
        InvalidTimestamp: timestamps are beyond the limits, or said to be LogAppendTime.
        UnsupportedCompression: the codec is unknown, or newer than these formats.
    """
    converter = _Converter(messages, conversion)
    codec_id = converter.codec_id if conversion.codec_id is None else conversion.codec_id
    pieces: Iterable[bytes] = converter.pieces()
    packed = bytearray()
    try:
        for piece in codec_of(codec_id).pack(_small(pieces), conversion.level) if codec_id else pieces:
            packed += piece
            if HEADER_BYTES + len(packed) > conversion.max_bytes:
                raise MessageTooLarge(
                    f"the messages exceed max.message.bytes={conversion.max_bytes} as one record batch; send "
                    "fewer at once or raise the topic's max.message.bytes"
                )
            yield
    except UnpackedTooLarge as error:
        raise MessageTooLarge(f"{error}; send smaller messages") from None
    return pack_batch(converter.header(codec_id), packed)


def _small(pieces: Iterable[bytes]) -> Iterator[Buffer]:
    """Iterate over pieces, with long ones in parts, so that no step of a codec takes long."""
    for piece in pieces:
        if len(piece) > PACKED_PIECE_BYTES:
            yield from steps_of(memoryview(piece), PACKED_PIECE_BYTES)
        else:
            yield piece


class _Converter:
    """One pass over the messages of a set."""

    def __init__(self, messages: Buffer, conversion: UpConversion) -> None:
        self._messages = memoryview(messages)
        self._conversion = conversion
        if len(messages) < LEAST_MESSAGE_BYTES[MAGIC_V0]:
            raise InvalidRecord(f"{len(messages)} bytes hold no message")
        self._magic = self._messages[MAGIC_AT]
        if self._magic > MAGIC_V1:
            raise CorruptBatch(
                f"format {self._magic} is none of messages, which have {MAGIC_V0} and {MAGIC_V1}"
            )
        self.codec_id = source_codec(messages)
        self._wrapper: BatchHeader | None = None
        self._count = 0
        self._base_timestamp = self._newest = NO_TIMESTAMP
        self._errors: list[RecordError] = []
        self._error: type[InvalidRecord | InvalidTimestamp] = InvalidRecord
        self._value: Buffer = b""
        # Not at the top: few brokers have clients that old. The standard library's takes three times as long.
        from zlib_ng import zlib_ng

        self._crc32: Callable[[Buffer], int] = cast("Any", zlib_ng).crc32
        if self.codec_id:
            self._check_wrapper()

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the records of the batch, as many as are converted in one step."""
        if self.codec_id:
            unwrapped = unpack(self.codec_id, self._value, MAX_RECORDS_BYTES, magic=self._magic)
            yield from self._convert(unwrapped, self._wrapper_timestamp())
        else:
            yield from self._convert(iter((self._messages,)), None)
        if self._errors:
            raise self._refusal()

    def header(self, codec_id: int) -> BatchHeader:
        """Return the header of the batch, when all messages were converted."""
        return BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC_V2,
            crc=0,
            attributes=codec_id,
            last_offset_delta=self._count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._newest,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=NO_SEQUENCE,
            record_count=self._count,
        )

    def _check_wrapper(self) -> None:
        """Check the one message that holds all others, and find what it holds."""
        header = parse_message(self._messages)
        if header.size < LEAST_MESSAGE_BYTES[self._magic]:
            raise CorruptBatch(f"a message cannot have {header.size} bytes")
        if header.size > len(self._messages):
            raise InvalidRecord(f"the message is cut: it has {header.size} bytes, {len(self._messages)} came")
        if header.size > self._conversion.max_bytes:
            raise self._too_large(header.size)
        wrapper = self._messages[: header.size]
        if not verify_message_crc(wrapper, header):
            raise _wrong_crc(header.crc)
        if not is_cut(self._messages[header.size :]):
            raise InvalidRecord("other messages follow a compressed one; it has to be the only one")
        if self.codec_id > NEWEST_OLD_CODEC:
            raise UnsupportedCompression(
                f"messages of format {self._magic} cannot have compression codec {self.codec_id}"
            )
        try:
            self._value = wrapped_value(wrapper, self._magic)
        except CorruptBatch as error:
            raise InvalidRecord(str(error)) from None
        self._wrapper = header

    def _wrapper_timestamp(self) -> int | None:
        """Return the timestamp of all messages in a wrapper with LogAppendTime, None for their own."""
        attributes = self._messages[ATTRIBUTES_AT]
        if self._magic == MAGIC_V0 or not attributes & TIMESTAMP_TYPE_BIT:
            return None
        return parse_message(self._messages).max_timestamp

    def _convert(self, pieces: Iterator[Buffer], timestamp: int | None) -> Iterator[bytes]:
        """Convert messages that come in pieces, whose bounds need not be theirs."""
        held: list[Buffer] = []
        there = needed = 0
        try:
            for piece in pieces:
                held.append(piece)
                there += len(piece)
                if there >= needed:
                    data = memoryview(b"".join(held) if len(held) > 1 else piece)
                    position, after = -1, 0
                    while after != position:
                        position = after
                        records, after = self._convert_some(data, position, timestamp)
                        yield records
                    rest = bytes(data[position:])
                    held = [rest]
                    there = len(rest)
                    needed = self._needed(rest) if self._wrapper else 0
                yield b""
            self._check_rest(b"".join(held))
        except (InvalidRecord, InvalidTimestamp, UnpackedTooLarge):
            raise
        except CorruptBatch as error:
            # The CRC of the wrapper is right, so nothing was damaged on the way.
            if self._wrapper is None or isinstance(error, _WrongCrc):
                raise
            raise InvalidRecord(str(error)) from error

    def _needed(self, message: bytes) -> int:
        """Return how many bytes an incomplete message in a wrapper has at least.

        Raises:
            MessageTooLarge: more than are held.
        """
        if len(message) < LOG_OVERHEAD_BYTES:
            return 1
        size: int = _PLACE.unpack_from(message, 0)[1] + LOG_OVERHEAD_BYTES
        if size > max(self._conversion.max_bytes, MAX_WRAPPED_BYTES):
            raise self._too_large(size)
        return size

    def _check_rest(self, rest: Buffer) -> None:
        """Ignore a cut message behind the last one.

        Raises:
            CorruptBatch: the rest is not the begin of a message.
            InvalidRecord: no message is whole.
        """
        if not is_cut(rest, wrapped=self._wrapper is not None):
            raise CorruptBatch(f"message {self._count} cannot have {len(rest)} bytes")
        if not self._count:
            raise InvalidRecord("no message is whole")

    def _convert_some(self, data: memoryview, position: int, timestamp: int | None) -> tuple[bytes, int]:
        """Return the records of the next whole messages, and the position behind them."""
        magic, end, first = self._magic, len(data), self._count
        unpack_head, least = (_V0 if magic == MAGIC_V0 else _V1).unpack_from, LEAST_MESSAGE_BYTES[magic]
        limit = MAX_RECORDS_BYTES if self._wrapper else self._conversion.max_bytes
        keys_required = self._conversion.rules.keys_required
        parts: list[bytes] = []
        add, crc32, varints = parts.append, self._crc32, _VARINTS
        last_time = last_attributes = 0
        time_bytes, in_limits = b"", True
        for index in range(first, first + MESSAGES_PER_STEP):
            if end - position < least:
                break
            fields = unpack_head(data, position)
            after = position + LOG_OVERHEAD_BYTES + fields[1]
            if after > end:
                break
            if after - position < least or fields[3] != magic:
                self._refuse_message(fields, index, after - position)
            # Before the rest is looked at: damage on the way may look like any other fault, and a retry
            # repairs it.
            if crc32(data[position + MAGIC_AT : after]) != fields[2]:
                raise _wrong_crc(fields[2])
            if after - position > limit:
                raise self._too_large(after - position)
            if fields[4] & CODEC_MASK:
                self._refuse_codec(index)
            time = NO_TIMESTAMP if magic == MAGIC_V0 else fields[5] if timestamp is None else timestamp
            # Messages of one set mostly have one time: it is encoded and checked once for all of them.
            if time != last_time or fields[4] != last_attributes or not time_bytes:
                if not index:
                    self._base_timestamp = time
                elapsed = time - self._base_timestamp
                if 0 <= elapsed < _TABLE_SIZE:
                    time_bytes = varints[elapsed]
                else:
                    time_bytes = _varint(_wrapped_to_64_bits(elapsed))
                last_time, last_attributes = time, fields[4]
                if time > self._newest:
                    self._newest = time
                in_limits = self._is_in_limits(time, fields[4])
            if not in_limits or (fields[-1] < 0 and keys_required):
                self._note_error(index, time, fields[4], has_key=fields[-1] >= 0)
            delta = varints[index] if index < _TABLE_SIZE else _varint(index)
            content = _content(data, position + HEAD_BYTES[magic], after, fields[-1], index)
            size = len(time_bytes) + len(delta) + len(content) + _OTHER_BYTES
            add(varints[size] if size < _TABLE_SIZE else _varint(size))
            add(b"\0" + time_bytes + delta)
            add(content)
            self._count, position = index + 1, after
        return b"".join(parts), position

    def _refuse_message(self, fields: tuple[int, ...], index: int, size: int) -> None:
        """Raise what is wrong with the size or the format of a message.

        Raises:
            CorruptBatch: it cannot have this size, or be of this format.
            InvalidRecord: it has another format than the first one.
        """
        magic, least = fields[3], LEAST_MESSAGE_BYTES[self._magic]
        if size < least:
            raise CorruptBatch(f"message {index} cannot have {size} bytes, format {self._magic} has {least}")
        if not MAGIC_V0 <= magic <= MAGIC_V2:
            raise CorruptBatch(f"message {index} has format {magic}, the newest is {MAGIC_V2}")
        raise InvalidRecord(f"message {index} has format {magic}, the first one {self._magic}")

    def _refuse_codec(self, index: int) -> None:
        """Refuse a compressed message behind others, or inside of one."""
        if self._wrapper is None:
            raise InvalidRecord(f"message {index} is compressed; such a one has to be the only one")
        raise InvalidRecord(f"message {index} in a compressed message is compressed itself")

    def _is_in_limits(self, time: int, attributes: int) -> bool:
        """Return whether a timestamp is within the limits, and has the right type."""
        conversion = self._conversion
        if conversion.append_time or time == NO_TIMESTAMP:
            return self._magic == MAGIC_V0 or not self._says_append_time(attributes)
        return conversion.rules.oldest_ms <= time <= conversion.rules.newest_ms

    def _says_append_time(self, attributes: int) -> bool:
        of_batch = attributes if self._wrapper is None else self._wrapper.attributes
        return bool(of_batch & TIMESTAMP_TYPE_BIT)

    def _note_error(self, index: int, time: int, attributes: int, *, has_key: bool) -> None:
        """Record the error of a message; all such messages of a set are reported.

        Raises:
            InvalidRecord, InvalidTimestamp: so many are wrong that no more are reported.
        """
        rules = self._conversion.rules
        error: type[InvalidRecord | InvalidTimestamp] = InvalidTimestamp
        if rules.keys_required and not has_key:
            error, message = InvalidRecord, NO_KEY
        elif self._conversion.append_time or time == NO_TIMESTAMP:
            message = "it says LogAppendTime, which a client cannot claim to know"
        else:
            message = timestamp_error(time, rules)
        self._error = self._error if self._errors else error
        self._errors.append(RecordError(index, message))
        if len(self._errors) == MAX_RECORD_ERRORS:
            raise self._refusal()

    def _refusal(self) -> InvalidRecord | InvalidTimestamp:
        return refusal(self._error, self._errors)

    def _too_large(self, size: int) -> MessageTooLarge:
        return MessageTooLarge(
            f"a message of {size} bytes exceeds max.message.bytes={self._conversion.max_bytes}; send smaller "
            "messages or raise the topic's max.message.bytes"
        )


def _content(data: memoryview, position: int, after: int, key_bytes: int, index: int) -> bytes:
    """Return key, value and headers (none) of a record; those of the message are from `position` to `after`.

    Raises:
        InvalidRecord: they end elsewhere.
    """
    key_at = position + _LENGTH_BYTES
    key_end = key_at if key_bytes < 0 else key_at + key_bytes
    value_at = key_end + _LENGTH_BYTES
    if value_at > after:
        raise _misfit(index)
    value_bytes: int = _LENGTH.unpack_from(data, key_end)[0]
    if (value_at if value_bytes < 0 else value_at + value_bytes) != after:
        raise _misfit(index)
    key = _length(key_bytes)
    if key_at == key_end:
        return b"".join((key, _length(value_bytes), data[value_at:after], _NO_HEADERS))
    return b"".join((key, data[key_at:key_end], _length(value_bytes), data[value_at:after], _NO_HEADERS))


def _length(size: int) -> bytes:
    """Return the length of a key or a value, negative for null."""
    if size < 0:
        return _NULL
    return _VARINTS[size] if size < _TABLE_SIZE else _varint(size)


def _wrapped_to_64_bits(number: int) -> int:
    """Return the number as Java's long arithmetic has it."""
    return (number + 2**63) % 2**64 - 2**63


class _WrongCrc(CorruptBatch):
    """The CRC-32 of a message is wrong."""


def _wrong_crc(crc: int) -> _WrongCrc:
    return _WrongCrc(f"the message's CRC-32 is not {crc:#010x} as it says")


def _misfit(index: int) -> InvalidRecord:
    return InvalidRecord(f"key and value of message {index} do not end where the message does")
