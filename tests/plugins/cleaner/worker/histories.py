"""A log in memory that remembers all that was ever written, and a broker that has it rewritten in-process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.records.batch import (
    MAGIC_V2,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
    parse_message,
    stamp_offset,
)
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.control import EndMarker, decode_marker, marker_batch
from tidelog.kernel.records.message_set import iter_messages
from tidelog.kernel.records.record import Record, encode_record, iter_records
from tidelog.kernel.records.stored import iter_stored
from tidelog.kernel.seams.cleanup import RecordFilter
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import AbortedTransaction, PartitionStore, SegmentDraft
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.cleaner.compaction.keep_newest import KeepNewest
from tidelog.plugins.cleaner.compaction.offset_map import SLOT_BYTES
from tidelog.plugins.cleaner.worker.messages import GroupDraft, GroupWritten, JobDone, RewriteJob
from tidelog.plugins.cleaner.worker.rewriter import Rewriter
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

T = TypeVar("T")
Row = tuple[bytes | None, bytes | None]
"""Key and value."""
Batch = tuple[BatchHeader, bytes]


def sent(message: T) -> T:
    """The message as it comes out of the process at the other end."""
    copy: T = pickle.loads(pickle.dumps(message))
    return copy


class StoreBroker:
    """`Broker` with a store."""

    def __init__(self, store: PartitionStore, last_batches: Mapping[int, LastBatch]) -> None:
        self._store = store
        self._last_batches = last_batches
        self._draft: SegmentDraft | None = None
        self.groups: list[Sequence[int]] = []
        self.spent_bytes = [0, 0]

    def begin(self, base_offsets: Sequence[int]) -> GroupDraft:
        """Begin a draft."""
        self.groups.append(base_offsets)
        self._draft = self._store.draft_segment(base_offsets[0])
        original = self._draft.writer()
        writer = sent(original)
        writer.adopt([os.dup(each) for each in original.descriptors()])
        return GroupDraft(writer, self._last_batches)

    def check(self) -> None:
        """Be there."""

    def replace(self, written: GroupWritten) -> None:
        """Put the draft in the place of its segments."""
        draft = self._draft
        assert draft is not None
        written = sent(written)
        draft.take(written.written)
        for aborted in written.aborted:
            draft.add_aborted(aborted)
        self._store.replace_segments([draft], self.groups[-1])
        self._draft = None

    def spent(self, read_bytes: int, written_bytes: int) -> None:
        """Add it up."""
        self.spent_bytes[0] += read_bytes
        self.spent_bytes[1] += written_bytes


@attrs.define
class Transaction:
    """A transaction: its batches' base offsets, its records, and its marker once it has ended."""

    producer_id: int
    batches: list[int] = attrs.Factory(list)
    records: list[Record] = attrs.Factory(list)
    marker_offset: int = -1
    commit: bool = False


class History:
    """A log, and all that was written to it."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.store = MemoryPartitionStore(TopicConfig({"segment.bytes": 2**30}), lambda: self.now_ms)
        self.committed: list[Record] = []
        self.open: dict[int, Transaction] = {}
        self.ended: list[Transaction] = []
        self.epochs: dict[int, int] = {}
        self.next_sequences: dict[int, int] = {}
        self.last_batches: dict[int, LastBatch] = {}
        self.last_sequences: dict[int, int] = {}
        self.rewritten_until = 0
        self.broker = StoreBroker(self.store, {})

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""
        return min((each.batches[0] for each in self.open.values()), default=self.store.log_end_offset)

    def write(
        self,
        rows: Sequence[Row],
        producer_id: int = NO_PRODUCER_ID,
        *,
        transactional: bool = False,
        codec: int = 0,
        append_time: bool = False,
        timestamp_step: int = 0,
    ) -> int:
        """Append a batch; return its base offset."""
        base = self.store.log_end_offset
        times = [self.now_ms + timestamp_step * index for index in range(len(rows))]
        stored = [Record(base + index, times[index], *row) for index, row in enumerate(rows)]
        body = bytearray()
        for record in stored:
            encode_record(body, record, base, times[0])
        newest = self.now_ms + 5 if append_time else max(times)
        sequence = NO_SEQUENCE if producer_id == NO_PRODUCER_ID else self.next_sequences.get(producer_id, 0)
        attributes = codec | TIMESTAMP_TYPE_BIT * append_time | TRANSACTIONAL_BIT * transactional
        count, epoch = len(rows), self.epochs.get(producer_id, 0)
        header = BatchHeader(
            base, 0, 4, 2, 0, attributes, count - 1, times[0], newest, producer_id, epoch, sequence, count
        )
        batch = pack_batch(header, compress(codec, body) if codec else body)
        self.store.append_batch(batch, base, header.last_offset, newest)
        records = [attrs.evolve(each, timestamp=newest) for each in stored] if append_time else stored
        if transactional:
            transaction = self.open.setdefault(producer_id, Transaction(producer_id))
            transaction.batches.append(base)
            transaction.records += records
        else:
            self._commit(records)
        if producer_id != NO_PRODUCER_ID:
            self.next_sequences[producer_id] = sequence + len(rows)
            self.last_sequences[producer_id] = sequence + len(rows) - 1
            self.last_batches[producer_id] = LastBatch(header.last_offset, header.producer_epoch)
        return base

    def write_message(self, message: bytes, records: Sequence[Record]) -> None:
        """Append a message of format 0 or 1 that is, or wraps, these records."""
        header = parse_message(message)
        self.store.append_batch(message, self.store.log_end_offset, header.base_offset, header.max_timestamp)
        self._commit(records)

    def _commit(self, records: Sequence[Record]) -> None:
        self.committed = sorted([*self.committed, *records], key=lambda each: each.offset)

    def end(self, producer_id: int, *, commit: bool, new_epoch: bool = False) -> int:
        """Append a marker; return its offset."""
        if new_epoch:
            self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
            self.next_sequences[producer_id] = 0
        epoch = self.epochs.get(producer_id, 0)
        batch, header = marker_batch(producer_id, epoch, EndMarker(commit, 0), self.now_ms)
        offset = self.store.log_end_offset
        stamp_offset(batch, offset, 4)
        self.store.append_batch(batch, offset, offset, header.max_timestamp)
        transaction = self.open.pop(producer_id, Transaction(producer_id))
        transaction.marker_offset, transaction.commit = offset, commit
        self.ended.append(transaction)
        if commit:
            self._commit(transaction.records)
        elif transaction.batches:
            self.store.add_aborted(
                AbortedTransaction(producer_id, transaction.batches[0], offset, self.last_stable_offset)
            )
        if new_epoch or producer_id not in self.last_batches:
            self.last_batches[producer_id] = LastBatch(None, epoch)
        return offset

    def skip(self, offsets: int) -> None:
        """Leave a gap before the next batch, as compaction elsewhere does."""
        end = self.store.log_end_offset + offsets
        header = BatchHeader(end, 0, 4, 2, 0, 0, 0, -1, self.now_ms, -1, -1, -1, 0)
        self.store.append_batch(pack_batch(header, b""), end, end, self.now_ms)

    def job(
        self,
        *,
        until: int | None = None,
        delete_retention_ms: int = 1000,
        room: int = 1000,
        segment_bytes: int = 2**30,
        chunk_bytes: int = 2**20,
        record_filter: RecordFilter | None = None,
    ) -> RewriteJob:
        """The job of rewriting all that can be, or up to `until`; `room` is for so many keys."""
        bases = [segment.base_offset for segment in self.store.segments()]
        most = max((base for base in bases if base <= self.last_stable_offset), default=0)
        until = most if until is None else until
        return RewriteJob(
            label="flights-0",
            sources=self.store.segment_sources(until),
            until=until,
            survey_from=self.rewritten_until,
            filter=record_filter or KeepNewest(self.now_ms, room * SLOT_BYTES, 1.0),
            now_ms=self.now_ms,
            delete_retention_ms=delete_retention_ms,
            aborted=tuple(self.store.aborted_transactions(bases[0], until)),
            segment_bytes=segment_bytes,
            index_bytes=2**30,
            chunk_bytes=chunk_bytes,
            bytes_per_second=1e9,
        )

    def rewrite(self, job: RewriteJob | None = None) -> JobDone:
        """Have a job done, and note how far it came."""
        self.broker = StoreBroker(self.store, dict(self.last_batches))
        done = sent(Rewriter(sent(job or self.job()), self.broker).run())
        self.rewritten_until = done.until
        return done

    def batches(self) -> list[Batch]:
        """All batches that are there."""
        return list(batches_of(self.store, 0))

    def left(self) -> list[Row]:
        """Keys and values of what a reader of committed data finds."""
        return [(each.key, each.value) for each in read_committed(self.store, 0, self.last_stable_offset)]


def batches_of(store: PartitionStore, from_offset: int) -> Iterator[Batch]:
    """The batches of a log from the one with an offset on, with messages of the formats 0 and 1."""
    content = b"".join(bytes(each) for each in store.read_batches(from_offset, 2**40, 2**62).regions)  # type: ignore[arg-type]
    for header, batch in iter_stored(memoryview(content)):
        yield header, bytes(batch)


def records_in(batch: bytes, header: BatchHeader) -> list[Record]:
    """The records of a batch, or of a message of format 0 or 1."""
    if header.magic == MAGIC_V2:
        return list(iter_records(batch, header))
    return [Record(*each) for each in iter_messages(batch, header)]


def read_committed(store: PartitionStore, from_offset: int, until: int) -> list[Record]:
    """What a consumer with `isolation.level` = `read_committed` reads, as that of Apache Kafka does."""
    coming = sorted(store.aborted_transactions(from_offset, until), key=lambda each: each.first_offset)
    aborting: set[int] = set()
    found: list[Record] = []
    for header, batch in batches_of(store, from_offset):
        if header.base_offset >= until:
            break
        while coming and coming[0].first_offset <= header.last_offset:
            aborting.add(coming.pop(0).producer_id)
        if header.is_control:
            marker = decode_marker(batch, header)
            if marker is not None and not marker.commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            found += [record for record in records_in(batch, header) if record.offset >= from_offset]
    return found
