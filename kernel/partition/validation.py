"""What a client's batch must fulfil before it may enter a log.

The records of uncompressed batches are not looked at: header, lengths and CRC say all that the produce path
needs (seed 000, 5.3.1; seed 002, "The append path"). Those of compressed ones are, and those of compacted
topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
)
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    parse_header,
    verify_crc,
)
from tidelog.kernel.records.checking import check_in_steps
from tidelog.kernel.records.record import MAX_RECORDS_BYTES
from tidelog.kernel.records.unpacking import UnpackedTooLarge, unpack

NEWEST_CODEC = 4
MIN_RECORD_BYTES = 7
"""An uncompressed record's length, attributes, two deltas, two lengths and number of headers, a byte each."""
QUICK_RECORDS = 160
"""So many records are gone through in a tenth of a millisecond, about what going to a thread takes."""
QUICK_BYTES = 64 * 1024
"""What a batch may unpack to on the event loop."""


class ChecksTakeLong(Exception):
    """The records are too many to go through in one turn of the event loop: check them first, then append."""

    def __init__(self, header: BatchHeader) -> None:
        """`header` of the batch, in which nothing was wrong."""
        super().__init__()
        self.header = header


def validate_batch(batch: Buffer, config: TopicConfig, *, sequenced: bool = True) -> BatchHeader:
    """Check the single batch that a client sent for a partition; `sequenced` if a producer has to count.

    Raises:
        MessageTooLarge: larger than `max.message.bytes`.
        CorruptBatch: the length cannot be, the CRC does not match, or the magic is none of 0, 1 and 2.
        UnsupportedMessageFormat: the magic is 0 or 1.
        InvalidRecord: the batch is cut short or not alone, counts, offsets or flags contradict each other, or
            a client sent a control batch.
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
    if header.size != size:
        _refuse_length(batch, header)
    if not verify_crc(batch, header):
        raise _wrong_crc(header)
    _validate_counts(header)
    if sequenced and header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecord(f"producer {header.producer_id} sent base sequence {header.base_sequence}")
    return header


def _refuse_length(batch: Buffer, header: BatchHeader) -> None:
    size = len(batch)
    if header.size > size:
        raise InvalidRecord(f"the batch's length field says {header.size} bytes, {size} arrived")
    if header.size < HEADER_BYTES:
        raise CorruptBatch(
            f"the batch's length field says {header.size} bytes, its header has {HEADER_BYTES}"
        )
    if not verify_crc(batch[: header.size], header):
        raise _wrong_crc(header)
    raise InvalidRecord(
        f"{size - header.size} bytes follow the record batch; a produce request carries one batch a partition"
    )


def _wrong_crc(header: BatchHeader) -> CorruptBatch:
    return CorruptBatch(f"the batch's CRC-32C is not {header.crc:#010x} as its header says")


def _validate_counts(header: BatchHeader) -> None:
    count = header.record_count
    if count <= 0:
        raise InvalidRecord(f"a batch of {count} records cannot be appended")
    if header.last_offset_delta != count - 1:
        raise InvalidRecord(f"{count} records cannot have last offset delta {header.last_offset_delta}")
    if header.base_offset != 0:
        raise InvalidRecord(f"a client's batch starts at offset 0 and not at {header.base_offset}")
    _validate_room(header, count)
    if header.is_control:
        raise InvalidRecord("clients may not write control batches")


def _validate_room(header: BatchHeader, count: int) -> None:
    """A few bytes must not claim billions of offsets."""
    codec = header.attributes & CODEC_MASK
    if codec == 0 and count * MIN_RECORD_BYTES > header.size - HEADER_BYTES:
        raise InvalidRecord(f"{count} records cannot be in {header.size - HEADER_BYTES} bytes")
    if codec > NEWEST_CODEC:
        raise UnsupportedCompression(f"there is no compression codec {codec}")


def validate_records(batch: Buffer, header: BatchHeader, config: TopicConfig, *, quick: bool = False) -> None:
    """Unpack and go through the records of a batch that `validate_batch` accepts, at once.

    Raises:
        ChecksTakeLong: `quick`, and the batch has too many records or unpacks to too much.
        BrokerError: see `validate_in_steps`.
    """
    if quick and header.record_count > QUICK_RECORDS:
        raise ChecksTakeLong(header)
    try:
        for _ in validate_in_steps(batch, header, config, quick=quick):
            pass
    except MessageTooLarge:
        if quick:
            raise ChecksTakeLong(header) from None
        raise


def validate_in_steps(
    batch: Buffer, header: BatchHeader, config: TopicConfig, *, quick: bool = False
) -> Iterator[None]:
    """Unpack and go through the records of a batch, for a fraction of a millisecond at each step.

    Raises:
        MessageTooLarge: it unpacks to more than 256 MiB, or if it has to be `quick` than 64 KiB.
        InvalidRecord: it does not hold the records that its header tells of, or one of them has no key in a
            compacted topic.
    """
    packed = memoryview(batch)[HEADER_BYTES:]
    codec = header.attributes & CODEC_MASK
    max_bytes = QUICK_BYTES if quick else MAX_RECORDS_BYTES
    pieces = unpack(codec, packed, max_bytes) if codec else [bytes(packed)]
    try:
        yield from check_in_steps(pieces, header.record_count, keys_required=config.is_compacted)
    except UnpackedTooLarge as error:
        raise MessageTooLarge(f"{error}; send smaller batches") from None
    except CorruptBatch as error:
        # The CRC is right, so nothing was damaged on the way: to send it again will not help.
        raise InvalidRecord(str(error)) from error


def validate_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Check a CreateTime batch against `message.timestamp.before.max.ms` and `.after.max.ms`.

    Raises:
        InvalidTimestamp: the batch is too far in the past or in the future.
    """
    newest = header.max_timestamp
    if newest - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {newest} is {newest - now_ms} ms ahead of the broker's clock; "
            f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms}"
        )
    oldest = header.base_timestamp
    if oldest != NO_TIMESTAMP and now_ms - oldest > config.message_timestamp_before_max_ms:
        raise InvalidTimestamp(
            f"timestamp {oldest} is {now_ms - oldest} ms behind the broker's clock; "
            f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms}"
        )
