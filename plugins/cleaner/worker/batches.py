"""What stays of a batch: all of it, some records, its header alone.

Offsets, sequences and the last offset of a batch never change. What stays of a compressed message of format 0
or 1 is a compressed message of that format, whose offset is that of the last one that stays. Sources: seed
001, "Tombstones and delete.retention.ms"; KIP-534; Apache Kafka's `MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    pack_batch,
    parse_header,
    parse_message,
)
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.message_set import (
    MAGIC_V1,
    Message,
    encode_message,
    verify_message_crc,
)
from tidelog.kernel.records.placed import pack_batches
from tidelog.kernel.records.record import ATTRIBUTES_BYTES, MIN_TIMESTAMP, iter_records
from tidelog.kernel.records.varint import read_varint, read_varlong, write_varlong

_KEPT_WHEN_EMPTY = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class KeptBatch(NamedTuple):
    """A batch that is written, with the largest timestamp and the last offset in its header."""

    content: Buffer
    max_timestamp: int
    last_offset: int


def without_records(header: BatchHeader) -> KeptBatch:
    """Return a batch without its records: it keeps the producer's last sequence and the last offset.

    There is none of the formats 0 and 1, so that of a message is one of format 2.
    """
    empty = header._replace(
        attributes=header.attributes & _KEPT_WHEN_EMPTY, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return KeptBatch(pack_batch(empty, b""), header.max_timestamp, header.last_offset)


def message_of(kept: KeptBatch, stored: bytes, count: int) -> KeptBatch:
    """Return what stays of a message of format 0 or 1: all of it, or a compressed one of the same format.

    `stored` is the message with `count` records, `kept` a batch with those that stay.

    Raises:
        CorruptBatch: the message changes and has a wrong checksum.
    """
    header = parse_header(kept.content)
    if header.record_count == count:
        return kept._replace(content=stored)
    was = parse_message(stored)
    if not verify_message_crc(stored, was):
        raise CorruptBatch(f"the message at offset {was.base_offset} has a wrong checksum")
    records = list(iter_records(kept.content, header))
    last, magic = records[-1].offset, was.magic
    counts_from = records[0].offset if magic == MAGIC_V1 else 0
    time_type = was.attributes & TIMESTAMP_TYPE_BIT
    inner, message = bytearray(), bytearray()
    for each in records:
        entry = Message(each.offset - counts_from, each.timestamp, each.key, each.value)
        encode_message(inner, entry, magic, attributes=time_type)
    packed = compress(was.codec, inner, magic=magic)
    wrapper = Message(last, kept.max_timestamp, None, packed)
    encode_message(message, wrapper, magic, attributes=time_type | was.codec)
    return KeptBatch(message, kept.max_timestamp, last)


def behind(kept: KeptBatch | None, empty: KeptBatch) -> KeptBatch:
    """Return what stays of a message, and a batch without records behind it, as one that is written."""
    if kept is None:
        return empty
    content = bytes(kept.content) + bytes(empty.content)
    return KeptBatch(content, max(kept.max_timestamp, empty.max_timestamp), empty.last_offset)


def _largest(block: RecordBlock) -> Column:
    """Return the largest timestamp of each batch, `NO_TIMESTAMP` of one without records."""
    largest: Column = np.full(len(block.batches), NO_TIMESTAMP, np.int64)
    filled = np.flatnonzero(np.diff(block.first))
    if filled.size:
        largest[filled] = np.maximum.reduceat(block.timestamp, block.first[filled])
    return largest


class RemainingRecords:
    """The records of a block that stay; `counts` and `tombstones` are how many of each of its batches.

    What is cut out of all batches is computed at once: there are many, with few records each.
    """

    def __init__(self, block: RecordBlock, keep: Mask) -> None:
        chosen = np.flatnonzero(keep)
        self._block = kept = block if len(chosen) == len(block) else block.select(keep)
        self._first: list[int] = kept.first.tolist()
        self.counts: Column = np.diff(kept.first)
        self.tombstones: Column = np.bincount(kept.batch[kept.is_tombstone], minlength=len(kept.batches))
        # Records that follow each other are copied in one run; none has those of two batches.
        run_begins = np.ones(len(chosen), np.bool_)
        run_begins[1:] = (np.diff(chosen) != 1) | (np.diff(kept.batch) != 0)
        runs = np.flatnonzero(run_begins)
        self._run_starts: list[int] = kept.start[runs].tolist()
        self._run_ends: list[int] = kept.end[np.append(runs[1:], len(chosen))[: len(runs)] - 1].tolist()
        self._first_run: list[int] = np.searchsorted(runs, kept.first).tolist()

    def batches(self, content: bytes, stamped: Mask, horizon_ms: int) -> dict[int, KeptBatch]:
        """Return the batches of which records stay, by their index in the block, with these records alone.

        `content` has all batches of the block. Those that are `stamped` get the delete horizon `horizon_ms`.

        Raises:
            CorruptBatch: a batch that changes has a wrong checksum; it would get a right one.
        """
        batches = self._block.batches
        changed: Mask = (self.counts > 0) & ((self.counts < batches.record_count) | stamped)
        kept = self._as_they_were(content, (self.counts > 0) & ~changed)
        kept.update(self._changed(content, np.flatnonzero(changed), stamped, horizon_ms))
        return kept

    def _as_they_were(self, content: bytes, whole: Mask) -> dict[int, KeptBatch]:
        placed = self._block.batches.select(whole)
        columns = (
            np.flatnonzero(whole),
            placed.position,
            placed.size,
            placed.column("max_timestamp"),
            placed.last_offset,
        )
        view = memoryview(content)
        return {
            index: KeptBatch(view[position : position + size], *rest)
            for index, position, size, *rest in zip(*(each.tolist() for each in columns), strict=True)
        }

    def _changed(
        self, content: bytes, indexes: Column, stamped: Mask, horizon_ms: int
    ) -> Iterator[tuple[int, KeptBatch]]:
        placed = self._block.batches.select(indexes)
        placed.check_crcs(content)
        attributes = placed.attributes
        is_append_time = (attributes & TIMESTAMP_TYPE_BIT) != 0
        largest = _largest(self._block)[indexes]
        max_timestamp = np.where(is_append_time, placed.column("max_timestamp"), largest)
        gets_horizon = stamped[indexes]
        headers = placed.headers(
            record_count=self.counts[indexes],
            max_timestamp=max_timestamp,
            attributes=attributes | gets_horizon * DELETE_HORIZON_BIT,
            base_timestamp=np.where(gets_horizon, horizon_ms, placed.column("base_timestamp")),
        )
        columns = (indexes, placed.codec, gets_horizon)

        def records() -> Iterator[Buffer]:
            for index, codec, with_horizon in zip(*(each.tolist() for each in columns), strict=True):
                of_batch = self._with_horizon(index, horizon_ms) if with_horizon else self._as_they_are(index)
                yield compress(codec, of_batch) if codec else of_batch

        packed = pack_batches(headers, records())
        kept = map(KeptBatch, packed, max_timestamp.tolist(), placed.last_offset.tolist())
        return zip(indexes.tolist(), kept, strict=True)

    def _as_they_are(self, index: int) -> bytes:
        data = self._block.data
        first, after = self._first_run[index : index + 2]
        if after == first + 1:
            return data[self._run_starts[first] : self._run_ends[first]]
        runs = zip(self._run_starts[first:after], self._run_ends[first:after], strict=True)
        return b"".join([data[start:end] for start, end in runs])

    def _with_horizon(self, index: int, horizon_ms: int) -> bytes:
        """Return the bytes of the records with timestamps that are relative to the delete horizon."""
        records = bytearray()
        block, data = self._block, self._block.data
        for each in range(*self._first[index : index + 2]):
            _, body_at = read_varint(data, int(block.start[each]))
            _, rest_at = read_varlong(data, body_at + ATTRIBUTES_BYTES)
            body = bytearray(data[body_at : body_at + ATTRIBUTES_BYTES])
            # Readers add in 64 bits, as Java does.
            delta = int(block.timestamp[each]) - horizon_ms
            write_varlong(body, (delta - MIN_TIMESTAMP) % 2**64 + MIN_TIMESTAMP)
            body += data[rest_at : int(block.end[each])]
            write_varlong(records, len(body))
            records += body
        return bytes(records)
