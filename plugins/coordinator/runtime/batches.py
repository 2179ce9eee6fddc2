"""Batches of state records: encoded for an append, and decoded fast while a log is loaded.

What is loaded was written by a broker and checked when the log was opened, and there may be millions of
records, so decoding is minimal: timestamps, offsets and headers are skipped. It runs in a thread, which
releases the interpreter's lock every fraction of a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
)
from tidelog.kernel.records.compression import compress, decompress
from tidelog.kernel.records.control import EndMarker, decode_marker
from tidelog.kernel.records.message_set import iter_messages
from tidelog.kernel.records.record import MAX_RECORDS_BYTES, iter_records
from tidelog.kernel.records.stored import whole_header
from tidelog.kernel.records.varint import read_varlong, write_varlong

NO_PRODUCER: Final = (NO_PRODUCER_ID, -1)
_ATTRIBUTES_AND_TIMESTAMP: Final = b"\0\0"
_NULL: Final = 1
"""A length of -1, zigzag."""
_NO_HEADERS: Final = 0
_RECORDS_PER_SLICE: Final = 200


class StateRecord(NamedTuple):
    """A key in Kafka's schema and its newest value; None for a value removes the key."""

    key: bytes
    value: bytes | None


class LoadedBatch(NamedTuple):
    """A batch that is loaded. A control batch has a `marker` and no records.

    `producer_id` is -1 outside transactions. Records without a key are left out: they mean nothing. `offsets`
    are those of the records, empty if they follow each other from `base_offset` on.
    """

    base_offset: int
    records: Sequence[tuple[bytes, bytes | None]]
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    marker: EndMarker | None = None
    offsets: Sequence[int] = ()

    def offset_of(self, index: int) -> int:
        """Return the offset of the record at that index of `records`."""
        return self.offsets[index] if self.offsets else self.base_offset + index


def encode_batch(
    records: Sequence[StateRecord], now_ms: int, *, producer: tuple[int, int] | None = None, codec: int = 0
) -> bytearray:
    """Return one batch with these records, written at `now_ms`; a `producer` makes it transactional."""
    body = bytearray()
    for index, (key, value) in enumerate(records):
        record = bytearray(_ATTRIBUTES_AND_TIMESTAMP)
        write_varlong(record, index)
        write_varlong(record, len(key))
        record += key
        if value is None:
            record.append(_NULL)
        else:
            write_varlong(record, len(value))
            record += value
        record.append(_NO_HEADERS)
        write_varlong(body, len(record))
        body += record
    producer_id, producer_epoch = producer or NO_PRODUCER
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if producer else 0),
        last_offset_delta=len(records) - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=len(records),
    )
    return pack_batch(header, compress(codec, body) if codec else body)


def decode_batches(data: memoryview, from_offset: int) -> tuple[list[LoadedBatch], int]:
    """Return all whole batches in `data` that reach `from_offset`, and the offset behind the last one.

    Raises:
        CorruptBatch: lengths contradict each other.
        UnsupportedCompression: the codec of a batch is unknown.
    """
    batches: list[LoadedBatch] = []
    position, next_offset, since_yield = 0, from_offset, 0
    while (header := whole_header(data, position, len(data))) is not None:
        if len(data) - position < header.size:
            break
        if header.next_offset > from_offset:
            decode = _decode_batch if header.magic == MAGIC_V2 else _decode_message
            batches.append(decode(data[position : position + header.size], header))
            next_offset = header.next_offset
            since_yield += len(batches[-1].records)
            if since_yield >= _RECORDS_PER_SLICE:
                since_yield = 0
                time.sleep(0)
        position += header.size
    return batches, next_offset


def _decode_message(message: memoryview, header: BatchHeader) -> LoadedBatch:
    """Decode a message of format 0 or 1, or those that it wraps, which a broker before Kafka 0.11 wrote."""
    found = [each for each in iter_messages(message, header) if each.key is not None]
    return LoadedBatch(
        header.base_offset,
        [(each.key or b"", each.value) for each in found],
        offsets=[each.offset for each in found],
    )


def _decode_batch(batch: memoryview, header: BatchHeader) -> LoadedBatch:
    if header.is_control:
        marker = decode_marker(batch, header)
        return LoadedBatch(
            header.base_offset,
            (),
            header.producer_id,
            header.producer_epoch,
            header.is_transactional,
            marker,
        )
    packed = batch[HEADER_BYTES:]
    data = decompress(header.codec, packed, MAX_RECORDS_BYTES) if header.codec else bytes(packed)
    try:
        records = _decode_records(data, header.record_count)
    except IndexError:
        raise CorruptBatch(f"a record of the batch at offset {header.base_offset} is cut off") from None
    offsets: tuple[int, ...] = ()
    if len(records) <= header.last_offset_delta:
        # Compaction removed some of them, or some have no key.
        offsets = tuple(record.offset for record in iter_records(batch, header) if record.key is not None)
    return LoadedBatch(
        header.base_offset,
        records,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        offsets=offsets,
    )


def _decode_records(data: bytes, count: int) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values; a varint of one byte, which nearly all are, is read without a call."""
    records: list[tuple[bytes, bytes | None]] = []
    position = 0
    for index in range(count):
        if index % _RECORDS_PER_SLICE == _RECORDS_PER_SLICE - 1:
            time.sleep(0)
        length = data[position]
        if length < 0x80:
            length >>= 1
            position += 1
        else:
            length, position = read_varlong(data, position)
        end = position + length
        at = position + 1
        for _ in range(2):
            while data[at] > 0x7F:
                at += 1
            at += 1
        size = data[at]
        if size < 0x80:
            size, at = size >> 1 if size != _NULL else -1, at + 1
        else:
            size, at = read_varlong(data, at)
        if size >= 0:
            key, at = data[at : at + size], at + size
            size = data[at]
            if size < 0x80:
                size, at = size >> 1 if size != _NULL else -1, at + 1
            else:
                size, at = read_varlong(data, at)
            records.append((key, data[at : at + size] if size >= 0 else None))
        if at + max(size, 0) >= end or end > len(data):
            raise CorruptBatch(f"a record of {length} bytes cannot hold its key and its value")
        position = end
    return records
