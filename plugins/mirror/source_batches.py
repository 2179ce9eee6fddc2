"""Batches of a source as a target takes them: whole and unread where possible, else encoded again.

A batch of format 2 is copied as it is, its records neither decompressed nor decoded. Only its header changes
when it is sent: base offset and leader epoch, which the target sets; producer id, epoch and sequence, which
are those of the mirror; the attributes, as the batch becomes part of a transaction of the mirror; and the
CRC, which covers all of these but the first two.

Brokers accept from a producer only batches whose offsets have no gap, with timestamps of type CreateTime. So
these are encoded again, with the same keys, values, headers and timestamps:

- a batch with gaps, which compaction has left;
- the first batch, if the copy begins in its middle;
- a batch with LogAppendTime, whose time becomes that of each record;
- messages of the formats 0 and 1 that are not compressed, which would each be a batch of its own;
- batches of a few small records, which become one with those around them;
- all, if records are assigned to partitions by their keys.

Source: Apache Kafka, `LogValidator`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.checksum import crc32c
from tidelog.kernel.errors import BrokerError, CorruptBatch
from tidelog.kernel.records.batch import (
    CRC_COVERS_FROM,
    DELETE_HORIZON_BIT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    BatchHeader,
    parse_header,
)
from tidelog.kernel.records.compression import NO_COMPRESSION, registered_codecs
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.records.stored import as_batch, iter_stored, verify_stored_crc
from tidelog.plugins.client.batches import NewRecord, ProducerStamp, encode_batch
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.client.fetched import committed_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tidelog.plugins.client.batches import FetchedBatch
    from tidelog.plugins.client.fetched import Fetched

MOST_GATHERED_BYTES: Final = 512 * 1024
"""Keys and values of one batch that is encoded again; a target takes 1 MiB by default."""
_MOST_GATHERED_RECORDS: Final = 10_000
_FEW_RECORDS: Final = 8
_FEW_BYTES: Final = 2048
"""A batch with so little costs more as a request of its own than as a part of another one."""

_ORIGIN: Final = struct.Struct(">qi")
_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")


@attrs.frozen
class OutgoingBatch:
    """A batch to be appended at the target.

    Attributes:
        data: the whole batch, whose header `stamp` completes in place
        attributes: those of its header
        record_count: at least one; at the target the offsets are consecutive
        first_offset: the offset of its first record at the source
        consecutive: so many records from the first on have consecutive offsets at the source, too
    """

    data: bytearray | memoryview
    attributes: int
    record_count: int
    first_offset: int
    consecutive: int

    def stamp(self, producer: ProducerStamp) -> None:
        """Write what a producer sends into the header, and the CRC.

        Any thread may call it. It may be called again with another stamp.
        """
        data = self.data
        data[0:12] = _ORIGIN.pack(0, len(data) - 12)
        _EPOCH.pack_into(data, 12, -1)
        _ATTRIBUTES.pack_into(data, 21, self.attributes | TRANSACTIONAL_BIT * producer.is_transactional)
        _PRODUCER.pack_into(data, 43, producer.producer_id, producer.producer_epoch, producer.base_sequence)
        _CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_COVERS_FROM:]))


@attrs.frozen
class FetchedBatches:
    """What a fetch has returned of one partition, its headers read once.

    Attributes:
        fetched: data that was read committed; its bytes may be changed
        batches: all whole batches and messages
        producer_ids: in the headers; -1 is that of batches without one
        next_offset: behind the last batch
    """

    fetched: Fetched
    batches: Sequence[FetchedBatch]
    producer_ids: frozenset[int]
    next_offset: int

    @classmethod
    def of(cls, fetched: Fetched) -> FetchedBatches:
        """Read the headers; CRCs are verified when the batches are taken.

        Raises:
            CorruptRecords: the data are no batches.
        """
        try:
            batches = list(iter_stored(fetched.data))
        except BrokerError as error:
            raise CorruptRecords(str(fetched.partition), str(error)) from error
        if not batches:
            raise CorruptRecords(str(fetched.partition), f"{len(fetched.data)} bytes hold no whole batch")
        ids = frozenset(header.producer_id for header, _ in batches)
        return cls(fetched, batches, ids, max(fetched.offset, batches[-1][0].next_offset))

    def outgoing(
        self, *, without: Collection[int] = (), most_bytes: int | None = None
    ) -> list[OutgoingBatch]:
        """Return the committed records from `fetched.offset` on as batches for one partition of the target.

        Args:
            without: producer ids whose batches are left out
            most_bytes: larger batches are divided, as far as they have several records

        Raises:
            CorruptRecords: a CRC is wrong, or the data cannot be decoded.
        """
        builder = _Builder(most_bytes)
        try:
            for header, stored in self._committed(without):
                builder.add(header, stored, self.fetched.offset)
            return builder.finish()
        except BrokerError as error:
            raise CorruptRecords(str(self.fetched.partition), str(error)) from error

    def hashed(
        self, partition_of: Callable[[bytes | None], int], *, without: Collection[int] = ()
    ) -> dict[int, list[OutgoingBatch]]:
        """Return the committed records from `fetched.offset` on, by partition of the target for each key.

        Raises as `outgoing`.
        """
        builders: dict[int, _Builder] = {}
        try:
            for header, stored in self._committed(without):
                for record in iter_records(*_batch(header, stored)):
                    if record.offset >= self.fetched.offset:
                        number = partition_of(record.key)
                        builders.setdefault(number, _Builder(None)).gather(header.codec, record)
            return {number: builder.finish() for number, builder in builders.items()}
        except BrokerError as error:
            raise CorruptRecords(str(self.fetched.partition), str(error)) from error

    def _committed(self, without: Collection[int]) -> Iterator[FetchedBatch]:
        for header, stored in committed_batches(self._verified(), self.fetched.aborted):
            if header.last_offset >= self.fetched.offset and header.producer_id not in without:
                yield header, stored

    def _verified(self) -> Iterator[FetchedBatch]:
        for header, stored in self.batches:
            if not verify_stored_crc(stored, header):
                raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")
            yield header, stored


def _batch(header: BatchHeader, stored: memoryview) -> tuple[memoryview, BatchHeader]:
    header, batch = as_batch(header, stored)
    return batch, header


class _Builder:
    """Turns batches of one partition into outgoing ones, in order; single records are gathered."""

    def __init__(self, most_bytes: int | None) -> None:
        self._most_bytes = most_bytes
        self._most_gathered = min(most_bytes or MOST_GATHERED_BYTES, MOST_GATHERED_BYTES)
        self._finished: list[OutgoingBatch] = []
        self._gathered: list[Record] = []
        self._gathered_bytes = 0
        self._codec = 0

    def add(self, header: BatchHeader, stored: memoryview, start: int) -> None:
        if header.magic < MAGIC_V2 and not header.codec:
            self._gather_all(header, stored, start)
            return
        batch = stored
        if header.magic < MAGIC_V2:
            header, batch = as_batch(header, stored)
        is_whole = header.base_offset >= start and header.record_count == header.last_offset_delta + 1
        is_small = header.record_count <= _FEW_RECORDS and header.size <= _FEW_BYTES
        if not is_whole or is_small or header.is_append_time or self._is_too_large(header):
            self._gather_all(header, batch, start)
        elif header.record_count:
            self._flush()
            self._finished.append(
                OutgoingBatch(
                    bytearray(batch) if batch.readonly else batch,
                    header.attributes & ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT),
                    header.record_count,
                    header.base_offset,
                    header.record_count,
                )
            )

    def gather(self, codec: int, record: Record) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        is_full = self._gathered_bytes + size > self._most_gathered
        if codec != self._codec or is_full or len(self._gathered) == _MOST_GATHERED_RECORDS:
            self._flush()
        self._codec = codec
        self._gathered.append(record)
        self._gathered_bytes += size

    def finish(self) -> list[OutgoingBatch]:
        self._flush()
        return self._finished

    def _is_too_large(self, header: BatchHeader) -> bool:
        return self._most_bytes is not None and header.size > self._most_bytes and header.record_count > 1

    def _gather_all(self, header: BatchHeader, stored: memoryview, start: int) -> None:
        for record in iter_records(*_batch(header, stored)):
            if record.offset >= start:
                self.gather(header.codec, record)

    def _flush(self) -> None:
        if not self._gathered:
            return
        records, self._gathered, self._gathered_bytes = self._gathered, [], 0
        data = encode_batch(
            [NewRecord(each.value, each.key, each.headers, each.timestamp) for each in records],
            now_ms=0,
            compression=_codec_name(self._codec),
        ).stamped()
        self._finished.append(
            OutgoingBatch(
                data,
                parse_header(data).attributes,
                len(records),
                records[0].offset,
                _consecutive(each.offset for each in records),
            )
        )


def _consecutive(offsets: Iterable[int]) -> int:
    """Return how many of the offsets follow the first without a gap, the first included."""
    first, length = None, 0
    for offset in offsets:
        if first is None:
            first = offset
        elif offset != first + length:
            break
        length += 1
    return length


def _codec_name(codec: int) -> str:
    return next((each.name for each in registered_codecs() if each.id == codec), NO_COMPRESSION)
