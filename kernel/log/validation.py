"""Validation of batches before they are appended: those of a client, and those of a leader.

Of a client's batch the header and each of its records are checked.

Sources: Kafka documentation, "Record Batch"; Apache Kafka's `LogValidator`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import attrs

from tidelog.kernel.compiled import is_compiled
from tidelog.kernel.config import TopicConfig, keys
from tidelog.kernel.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordError,
    UnsupportedCompression,
)
from tidelog.kernel.records import scanner
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
    parse_header,
    verify_crc,
)
from tidelog.kernel.records.checking import (
    MAX_RECORD_ERRORS,
    MAX_TIMESTAMP,
    RecordRules,
    check_in_steps,
)
from tidelog.kernel.records.compression import (
    UnpackedTooLarge,
    codec_named,
    in_pieces,
    is_registered,
    unpack,
    unpack_at_once,
)
from tidelog.kernel.records.control import EndMarker, decode_marker
from tidelog.kernel.records.recompression import recompress_in_steps
from tidelog.kernel.records.record import MAX_RECORDS_BYTES
from tidelog.kernel.records.scanner import MOST_BYTES, check_at_once
from tidelog.kernel.records.stored import earliest_offset, iter_stored, verify_stored_crc

LOG_APPEND_TIME = "LogAppendTime"
AT_ONCE_RECORDS = 16 * 1024 if is_compiled(scanner.__name__) else 1024
AT_ONCE_BYTES = 1024 * 1024 + 64 * 1024
"""Records, and their bytes, that are decompressed and checked in one piece, for a millisecond or two: all of
those of a batch that is as large, before it is compressed, as `max.message.bytes` allows it to be."""
MIN_RECORD_BYTES = 7
"""An uncompressed record's length, attributes, two deltas, two lengths and number of headers, a byte each."""


class TargetCompression(NamedTuple):
    """The codec that `compression.type` names, and its level; `codec_id` is -1 if no plugin offers it."""

    name: str
    codec_id: int
    level: int | None

    @classmethod
    def of(cls, config: TopicConfig) -> TargetCompression | None:
        """Return the compression of a topic with this configuration, None if producers choose it."""
        name = config[keys.COMPRESSION_TYPE]
        if name == keys.COMPRESSION_OF_PRODUCER:
            return None
        if name == keys.UNCOMPRESSED:
            return cls(name, 0, None)
        codec = codec_named(name)
        if codec is None:
            return cls(name, -1, None)
        return cls(name, codec.id, None if codec.level_key is None else config[codec.level_key])

    def check_is_offered(self) -> None:
        """Check that a plugin offers the codec.

        Raises:
            UnsupportedCompression: none does.
        """
        if self.codec_id < 0:
            raise UnsupportedCompression(
                f"compression.type={self.name}, but no plugin offers this codec; install it, or set another"
            )


@attrs.frozen
class PartitionConfig:
    """Values that appends, flushes and checks of records use, looked up once at each change.

    `is_compacted`: `cleanup.policy` has `compact`, so every record needs a key. `compression` is None if
    producers choose it.
    """

    max_message_bytes: int = keys.MAX_MESSAGE_BYTES.default
    message_timestamp_type: str = keys.MESSAGE_TIMESTAMP_TYPE.default
    message_timestamp_before_max_ms: int = keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default
    message_timestamp_after_max_ms: int = keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default
    flush_messages: int = keys.FLUSH_MESSAGES.default
    is_compacted: bool = False
    compression: TargetCompression | None = None
    max_decompressed_message_bytes: int = keys.MAX_DECOMPRESSED_MESSAGE_BYTES.default

    @classmethod
    def of(cls, config: TopicConfig) -> PartitionConfig:
        """Return the values for a topic with this configuration."""
        return cls(
            config[keys.MAX_MESSAGE_BYTES],
            config[keys.MESSAGE_TIMESTAMP_TYPE],
            config[keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            config[keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
            config[keys.FLUSH_MESSAGES],
            "compact" in config[keys.CLEANUP_POLICY],
            TargetCompression.of(config),
            config[keys.MAX_DECOMPRESSED_MESSAGE_BYTES],
        )

    def recompresses(self, header: BatchHeader) -> bool:
        """Return whether a batch with this header is stored with another codec."""
        target = self.compression
        return target is not None and target.codec_id != header.attributes & CODEC_MASK


def validate_batch(batch: Buffer, config: PartitionConfig, *, sequenced: bool = True) -> BatchHeader:
    """Check the single batch that a client sent for a partition; `sequenced` if a producer has to count.

    Raises:
        MessageTooLarge: larger than `max.message.bytes`.
        CorruptBatch: the length cannot be, the CRC does not match, or the magic is none of 0, 1 and 2.
        UnsupportedMessageFormat: the magic is 0 or 1.
        InvalidRecord: the batch is incomplete or not alone, counts, offsets or flags contradict each other,
            or a client sent a control batch.
        InvalidTimestamp: the batch is marked LogAppendTime, in a topic of that timestamp type.
        UnsupportedCompression: there is no such codec.
    """
    size = len(batch)
    if size > config.max_message_bytes:
        raise MessageTooLarge(
            f"a batch of {size} bytes exceeds max.message.bytes={config.max_message_bytes}; "
            "send smaller batches or raise the topic's max.message.bytes"
        )
    try:
        header = parse_header(batch)
    except CorruptBatch as error:
        if size < HEADER_BYTES:
            raise InvalidRecord(str(error)) from None
        raise
    # The length before the CRC, which covers what the length says.
    if header.batch_length != size - LOG_OVERHEAD_BYTES:
        _refuse_length(batch, header)
    if not verify_crc(batch, header):
        raise _wrong_crc(header)
    # After the CRC: before it, a contradiction may only be damage on the way, which a retry repairs.
    _validate_counts(header, size - HEADER_BYTES)
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0 and sequenced:
        raise InvalidRecord(f"producer {header.producer_id} sent base sequence {header.base_sequence}")
    if header.attributes & TIMESTAMP_TYPE_BIT and config.message_timestamp_type == LOG_APPEND_TIME:
        raise _append_time_of_client(header)
    return header


class LeadersBatch(NamedTuple):
    """A whole batch as the leader has it, and the marker in it, if it is one."""

    header: BatchHeader
    data: memoryview
    marker: EndMarker | None


def validate_leaders_batches(batches: memoryview, next_offset: int) -> list[LeadersBatch]:
    """Check batches that were fetched from a leader for a log that ends at `next_offset`.

    The last one may be incomplete, as a fetch leaves it: it is left out, and fetched again.

    Raises:
        CorruptBatch: a CRC or a length is wrong.
        InvalidRecord: offsets do not grow, or are in the log already.
    """
    checked: list[LeadersBatch] = []
    for stored, data in iter_stored(batches):
        header = stored
        if header.last_offset_delta < 0:
            raise CorruptBatch(f"the leader's batch at offset {header.base_offset} ends before it begins")
        if not verify_stored_crc(data, header):
            raise CorruptBatch(f"the CRC of the leader's batch at offset {header.base_offset} is wrong")
        if header.base_offset < next_offset:
            raise InvalidRecord(f"the leader's batch at offset {header.base_offset} is not at {next_offset}")
        is_marker = header.is_control and header.producer_id > NO_PRODUCER_ID
        first = earliest_offset(header, next_offset)
        if first < header.base_offset:
            header = header._replace(base_offset=first, last_offset_delta=header.last_offset - first)
        checked.append(LeadersBatch(header, data, decode_marker(data, header) if is_marker else None))
        next_offset = header.next_offset
    return checked


def _append_time_of_client(header: BatchHeader) -> InvalidTimestamp:
    # Apache Kafka accepts it in a topic of CreateTime, and clears the flag.
    message = "the topic's timestamps are LogAppendTime, which a client cannot claim to know"
    indexes = range(min(header.record_count, MAX_RECORD_ERRORS))
    return InvalidTimestamp(message, [RecordError(index, message) for index in indexes])


def _refuse_length(batch: Buffer, header: BatchHeader) -> None:
    size = len(batch)
    if header.size > size:
        raise InvalidRecord(f"the batch's length field says {header.size} bytes, {size} arrived")
    if header.size < HEADER_BYTES:
        raise CorruptBatch(
            f"the batch's length field says {header.size} bytes, its header has {HEADER_BYTES}"
        )
    if not verify_crc(batch[: header.size], header):
        # Checked here too: a length that was damaged on the way looks the same as a batch too many.
        raise _wrong_crc(header)
    raise InvalidRecord(
        f"{size - header.size} bytes follow the record batch; a produce request carries one batch a partition"
    )


def _wrong_crc(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"the batch's CRC-32C is not {header.crc:#010x} as its header says")


def _validate_counts(header: BatchHeader, records_bytes: int) -> None:
    count, codec = header.record_count, header.attributes & CODEC_MASK
    if count <= 0:
        raise InvalidRecord(f"a batch of {count} records cannot be appended")
    # Only compaction leaves gaps, so a client's batch has none: each record gets the offset of its position.
    if header.last_offset_delta != count - 1:
        raise InvalidRecord(f"{count} records cannot have last offset delta {header.last_offset_delta}")
    if header.base_offset != 0:
        raise InvalidRecord(f"a client's batch starts at offset 0 and not at {header.base_offset}")
    # A few bytes must not claim billions of offsets.
    if codec == 0 and count * MIN_RECORD_BYTES > records_bytes:
        raise InvalidRecord(f"{count} records cannot be in {records_bytes} bytes")
    if codec and not is_registered(codec):
        raise UnsupportedCompression(f"there is no compression codec {codec}")
    if header.attributes & CONTROL_BIT:
        raise InvalidRecord("clients may not write control batches")


def validate_in_steps(
    batch: Buffer, header: BatchHeader, config: PartitionConfig, now_ms: int
) -> Generator[None, None, int]:
    """Unpack and check the records of a valid batch, for less than a millisecond at each step.

    `now_ms` is the time that timestamps are compared with. Returns the largest timestamp of the records.

    Raises:
        MessageTooLarge: it unpacks to more than 256 MiB.
        InvalidRecord: it is not exactly the records that its header counts, or some of them have no key in a
            compacted topic.
        InvalidTimestamp: some of the records are too far in the past or in the future.
    """
    packed = memoryview(batch)[HEADER_BYTES:]
    codec = header.attributes & CODEC_MASK
    pieces = unpack(codec, packed, MAX_RECORDS_BYTES) if codec else in_pieces(packed)
    rules = record_rules(header.base_timestamp, codec, config, now_ms)
    try:
        return (yield from check_in_steps(pieces, header.record_count, rules))
    except UnpackedTooLarge as error:
        raise MessageTooLarge(f"{error}; send smaller batches") from None
    except CorruptBatch as error:
        # The CRC is right, so nothing was damaged on the way: to send it again will not help.
        raise InvalidRecord(str(error)) from error


def validate_at_once(batch: Buffer, header: BatchHeader, config: PartitionConfig, now_ms: int) -> int | None:
    """Return the largest timestamp of the records of a valid batch; None if they are to be checked in steps.

    That is so if anything is wrong with them, and if they are many or large.
    """
    codec = header.attributes & CODEC_MASK
    if header.record_count > AT_ONCE_RECORDS or len(batch) > AT_ONCE_BYTES:
        return None
    packed = memoryview(batch)[HEADER_BYTES:]
    records = unpack_at_once(codec, packed, AT_ONCE_BYTES) if codec else packed
    if records is None:
        return None
    return check_at_once(
        records, header.record_count, *record_rules(header.base_timestamp, codec, config, now_ms)
    )


def recompressed_in_steps(
    batch: Buffer, header: BatchHeader, config: PartitionConfig
) -> Generator[None, None, bytearray]:
    """Return the batch, whose records were validated, with the codec of `compression.type`.

    Raises:
        MessageTooLarge: then it is larger than `max.message.bytes`.
        UnsupportedCompression: no plugin offers the codec.
    """
    target = config.compression
    assert target is not None  # noqa: S101 - `PartitionConfig.recompresses`
    target.check_is_offered()
    return recompress_in_steps(batch, header, target.codec_id, target.level, config.max_message_bytes)


def record_rules(base_timestamp: int, codec: int, config: PartitionConfig, now_ms: int) -> RecordRules:
    """Return what the records of a batch, or messages, have to fulfil at `now_ms`; `codec` 0 is none."""
    # As in Kafka, a record that came uncompressed is only limited by its batch.
    most_bytes = config.max_decompressed_message_bytes if codec else MOST_BYTES
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return RecordRules(base_timestamp, keys_required=config.is_compacted, most_bytes=most_bytes)
    return RecordRules(
        base_timestamp,
        now_ms - config.message_timestamp_before_max_ms,
        min(now_ms + config.message_timestamp_after_max_ms, MAX_TIMESTAMP),
        config.is_compacted,
        most_bytes,
    )
