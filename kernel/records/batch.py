"""The record batch v2 header: read it, check its CRC, stamp what the broker may change.

    byte  0 baseOffset            int64    stamped by the broker, outside the CRC
          8 batchLength           int32    bytes after this field
         12 partitionLeaderEpoch  int32    stamped by the broker, outside the CRC
         16 magic                 int8     2
         17 crc                   uint32   CRC-32C of everything from byte 21 on
         21 attributes            int16    bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                           6 baseTimestamp is a delete horizon
         23 lastOffsetDelta       int32
         27 baseTimestamp         int64    milliseconds since the epoch
         35 maxTimestamp          int64    milliseconds since the epoch
         43 producerId            int64    -1 without idempotence
         51 producerEpoch         int16
         53 baseSequence          int32
         57 recordCount           int32
         61 records

Source: Kafka documentation, "Record Batch".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tidelog.kernel.checksum import crc32c
from tidelog.kernel.errors import CorruptBatch, UnsupportedMessageFormat

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
MAGIC_V2 = 2
MAGIC_AT = 16
CRC_COVERS_FROM = 21

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

Buffer: TypeAlias = bytes | bytearray | memoryview

LEAST_MESSAGE_BYTES = (26, 34)
"""Bytes of a message of the formats 0 and 1 without key and value, with its offset and size."""
NO_LEADER_EPOCH = -1
NO_PRODUCER_EPOCH = -1

_MESSAGE_HEAD = struct.Struct(">qiIbbq")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIRST_AFTER_CRC = 5
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """The 13 fields of a header, in wire order, named as in Kafka's own format."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record, kept even when compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset that follows this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression codec id of the records, 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's clock and holds for every record."""
        return bool(self.attributes & TIMESTAMP_TYPE_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch carries a marker and not records of an application."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop the batch's tombstones or marker, None until that is known.

        It is stored in place of the base timestamp. Source: KIP-534.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, wrapped as Kafka wraps it, -1 without idempotence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header that starts at `position`; at least 61 bytes have to follow it.

    Raises:
        CorruptBatch: fewer than 61 bytes are left, or the magic byte is none of 0, 1 and 2.
        UnsupportedMessageFormat: the magic byte is 0 or 1, an older message set.
    """
    # The magic first: it is at the same place in all formats, and a message of the old ones may be shorter
    # than a header.
    if len(data) - position <= MAGIC_AT:
        raise CorruptBatch(
            f"{len(data) - position} bytes cannot hold a record batch (at least {HEADER_BYTES})"
        )
    magic = data[position + MAGIC_AT]
    if magic != MAGIC_V2:
        if magic > MAGIC_V2:
            raise CorruptBatch(f"there is no message format {magic}, the newest is {MAGIC_V2}")
        raise UnsupportedMessageFormat(f"message format {magic} is not the record batch format {MAGIC_V2}")
    if len(data) - position < HEADER_BYTES:
        raise CorruptBatch(
            f"{len(data) - position} bytes cannot hold a record batch (at least {HEADER_BYTES})"
        )
    # Without a Python function in between, as `_make` is one.
    return tuple.__new__(  # pyright: ignore[reportUnknownMemberType]
        BatchHeader, _HEADER.unpack_from(data, position)
    )


def is_message_set(data: Buffer) -> bool:
    """Return whether the bytes begin with a message of format 0 or 1, and not with a record batch."""
    return len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC_V2


def parse_message(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the head of a message of format 0 or 1 at `position`, as the header of a batch of its own.

    Its base offset is its last one: that of the first message in a compressed one is only known when it is
    decompressed. Its count is 1. The CRC is a CRC-32; `message_set` has the layout.

    Raises:
        CorruptBatch: fewer bytes are left than its head has.
    """
    left = len(data) - position
    if left < LEAST_MESSAGE_BYTES[0] or left < LEAST_MESSAGE_BYTES[data[position + MAGIC_AT] & 1]:
        raise CorruptBatch(f"{left} bytes cannot hold a message (at least {LEAST_MESSAGE_BYTES[0]})")
    offset, length, crc, magic, attributes, timestamp = _MESSAGE_HEAD.unpack_from(data, position)
    if not magic:
        # Format 0 has no timestamp: what was read there belongs to key and value.
        attributes, timestamp = attributes & CODEC_MASK, NO_TIMESTAMP
    return BatchHeader(
        base_offset=offset,
        batch_length=length,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & (CODEC_MASK | TIMESTAMP_TYPE_BIT),
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )


def verify_crc(batch: Buffer, header: BatchHeader) -> bool:
    """Return whether the CRC of the batch (exactly its bytes) is the one in its header."""
    return crc32c(memoryview(batch)[CRC_COVERS_FROM:]) == header.crc


def iter_batches(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each whole batch in `data` with its header; an incomplete last batch is ignored.

    Raises:
        CorruptBatch: a batch's length or CRC is wrong.
        UnsupportedMessageFormat: the bytes are message sets of format v0 or v1, or no batches at all.
    """
    for header, batch in split_batches(data):
        if not verify_crc(batch, header):
            raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
        yield header, batch


def split_batches(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield what `iter_batches` yields and raise what it raises, except that no CRC is verified."""
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        # A length below that of the header would move `position` by too little, or back.
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptBatch(f"a batch of {header.size} bytes is announced at offset {header.base_offset}")
        batch = data[position : position + header.size]
        if len(batch) < header.size:
            return
        yield header, batch
        position += header.size


def stamp_offset(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the header in place; the CRC does not cover them."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_append_time(batch: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
    """Mark the batch LogAppendTime with `now_ms` as the time of all its records; recompute the CRC."""
    _ATTRIBUTES.pack_into(batch, 21, header.attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))


def stamp_create_time(batch: bytearray | memoryview, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Mark the batch CreateTime with the largest timestamp of its records; recompute the CRC.

    Returns its new header.
    """
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(batch, 21, attributes)
    _MAX_TIMESTAMP.pack_into(batch, 35, max_timestamp)
    crc = crc32c(memoryview(batch)[CRC_COVERS_FROM:])
    _CRC.pack_into(batch, 17, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def pack_batch(header: BatchHeader, records: Buffer) -> bytearray:
    """Return a batch of these header fields and (compressed) records, with its length and CRC."""
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    batch = bytearray(HEADER_BYTES + len(records))
    # Without `_replace`, which takes longer than all of the rest.
    _HEADER.pack_into(
        batch, 0, header.base_offset, length, header.leader_epoch, MAGIC_V2, 0, *header[_FIRST_AFTER_CRC:]
    )
    batch[HEADER_BYTES:] = records
    _CRC.pack_into(batch, 17, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))
    return batch
