"""What a log holds, whatever its age: record batches, and messages of the formats 0 and 1 between them.

A stored message counts as a batch of its own, see `parse_message`; Apache Kafka appends no others since 3.0,
but serves those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LEAST_MESSAGE_BYTES,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    pack_batch,
    parse_header,
    parse_message,
    verify_crc,
)
from tidelog.kernel.records.compression import compress, memory_for
from tidelog.kernel.records.message_set import (
    Message,
    MessageContent,
    iter_messages,
    verify_message_crc,
    wrapped_value,
)
from tidelog.kernel.records.record import (
    MAX_RECORDS_BYTES,
    MIN_TIMESTAMP,
    Record,
    encode_record,
    iter_contents,
    iter_timestamps,
)

LEAST_BYTES = (*LEAST_MESSAGE_BYTES, HEADER_BYTES)
"""Bytes of the smallest message or batch, by format."""
MAX_OFFSET_DELTA = 2**31 - 1


def parse_stored(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch or message at `position`; raises CorruptBatch if there is none."""
    header = whole_header(data, position, len(data))
    if header is None:
        raise CorruptBatch(f"{len(data) - position} bytes cannot hold a record batch or a message")
    return header


def whole_header(data: Buffer, position: int, end: int) -> BatchHeader | None:
    """Return the header of the batch or message at `position`, None if it is not whole before `end`.

    Raises:
        CorruptBatch: there is no such format, or the size is less than that of the smallest.
    """
    if position + LEAST_MESSAGE_BYTES[0] > end:
        return None
    magic = data[position + MAGIC_AT]
    if magic <= MAGIC_V2 and position + LEAST_BYTES[magic] > end:
        return None
    # A magic above 2 goes there, too, and is refused.
    header = parse_header(data, position) if magic >= MAGIC_V2 else parse_message(data, position)
    if header.size < LEAST_BYTES[magic]:
        raise CorruptBatch(f"the batch at offset {header.base_offset} cannot have {header.size} bytes")
    return header


def iter_stored(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over whole batches and messages with their headers; the last one may be incomplete.

    Raises:
        CorruptBatch: what is there is no batch. Checksums are not compared.
    """
    position, end = 0, len(data)
    while (header := whole_header(data, position, end)) is not None and header.size <= end - position:
        yield header, data[position : position + header.size]
        position += header.size


def iter_verified(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate as `iter_stored` does, and compare the checksums.

    Raises:
        CorruptBatch: a batch's length or CRC is wrong, or the bytes are no batches at all.
    """
    for header, batch in iter_stored(data):
        if not verify_stored_crc(batch, header):
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
        yield header, batch


def as_batch(header: BatchHeader, stored: memoryview) -> tuple[BatchHeader, memoryview]:
    """Return a batch as it is, and a message as a batch with the same codec; raises as `batch_of_message`."""
    if header.magic >= MAGIC_V2:
        return header, stored
    batch = batch_of_message(stored, header, codec=header.codec)
    return parse_header(batch), memoryview(batch)


def earliest_offset(header: BatchHeader, next_offset: int) -> int:
    """Return the first offset that a batch may hold which follows `next_offset` in a log.

    Of a compressed message only the last one is known. A segment that begins with it begins here.
    """
    if header.magic >= MAGIC_V2:
        return header.base_offset
    return max(next_offset, header.base_offset - MAX_OFFSET_DELTA)


def verify_stored_crc(batch: Buffer, header: BatchHeader) -> bool:
    """Return whether the CRC of a batch or of a message (exactly its bytes) is the one in its header."""
    return (verify_message_crc if header.magic < MAGIC_V2 else verify_crc)(batch, header)


def iter_stored_contents(batch: Buffer, header: BatchHeader, most_bytes: int) -> Iterator[MessageContent]:
    """Iterate over the records of a batch, or of a message; as `iter_contents` and `iter_messages` do."""
    if header.magic < MAGIC_V2:
        return iter_messages(batch, header, most_bytes)
    return iter_contents(batch, header, most_bytes)


def iter_stored_timestamps(batch: Buffer, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Iterate over (offset, timestamp) of all records; raises as `iter_stored_contents`."""
    if header.magic >= MAGIC_V2:
        return iter_timestamps(batch, header)
    if not header.codec:
        return iter(((header.base_offset, header.max_timestamp),))
    messages = iter_messages(batch, header, MAX_RECORDS_BYTES)
    return ((message.offset, message.timestamp) for message in messages)


def batch_of_message(
    message: Buffer, header: BatchHeader, *, codec: int = 0, horizon_ms: int | None = None
) -> bytearray:
    """Return a message, or those that it wraps, as one record batch, compressed by `codec`.

    `horizon_ms` is the delete horizon of the batch, if it is to have one.

    Raises:
        CorruptBatch: the message is malformed, wraps no other, or offsets in it do not grow.
        UnsupportedCompression: the codec is unknown.
    """
    try:
        messages = _in_order(iter_messages(message, header))
    except CorruptBatch as error:
        raise CorruptBatch(f"the message at offset {header.base_offset}: {error}") from error
    first, last = messages[0].offset, messages[-1].offset
    base_timestamp = horizon_ms or 0
    records = bytearray()
    for each in messages:
        # Readers add in 64 bits, as Java does.
        delta = (each.timestamp - base_timestamp - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP
        encode_record(records, Record(each.offset, delta, each.key, each.value), first, 0)
    of_batch = header._replace(
        attributes=header.attributes & ~CODEC_MASK | codec | (horizon_ms is not None) * DELETE_HORIZON_BIT,
        base_offset=first,
        last_offset_delta=last - first,
        base_timestamp=base_timestamp,
        record_count=len(messages),
    )
    return pack_batch(of_batch, compress(codec, records) if codec else records)


def _in_order(messages: Iterable[Message]) -> Sequence[Message]:
    listed = list(messages)
    if not listed:
        raise CorruptBatch("it is compressed and holds no other")
    grow = all(one.offset < other.offset for one, other in pairwise(listed))
    if not grow or listed[-1].offset - listed[0].offset > MAX_OFFSET_DELTA:
        raise CorruptBatch("the offsets in it do not grow")
    return listed


def unpacking_memory(batch: Buffer, header: BatchHeader) -> int:
    """Return how many bytes of memory decompressing the records takes at most, see `memory_for`.

    Raises:
        CorruptBatch: a compressed message is malformed.
    """
    view = memoryview(batch)[: header.size]
    if header.magic >= MAGIC_V2:
        return memory_for(header.codec, view[HEADER_BYTES:])
    return memory_for(header.codec, wrapped_value(view, header.magic) if header.codec else view)
