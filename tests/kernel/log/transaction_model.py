"""Transactions of several producers beside the simplest model of them: the list of what was written.

What a partition says is worked out from that list anew each time: which transactions are open, what was
aborted, which records a reader of committed data gets.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence

import attrs
import pytest
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.kernel.log.parts import open_partition
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import InvalidProducerEpoch, InvalidTransactionState, TransactionCoordinatorFenced
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.records.batch import HEADER_BYTES, NO_PRODUCER_ID, BatchHeader, parse_header
from tidelog.kernel.records.control import decode_marker
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.storage import AbortedTransaction, LogSlice, PartitionStore, region_bytes
from tidelog.kernel.testing import make_batch

CONFIG = TopicConfig({"segment.bytes": 900, "index.interval.bytes": 200, "segment.index.bytes": 400})
PRODUCERS = st.integers(1, 4)
STEPS = st.sampled_from(
    ["begin or go on", "begin or go on", "commit", "abort", "abort", "outside", "no producer"]
)


@attrs.frozen
class Written:
    """A batch of the log: data, or a marker when `commit` is not None."""

    producer_id: int
    epoch: int
    base_offset: int
    last_offset: int
    transactional: bool
    commit: bool | None = None
    last_sequence: int = -1
    values: tuple[bytes, ...] = ()


@attrs.define
class Model:
    """All that was written, and what follows from it."""

    log: list[Written] = attrs.field(factory=list[Written])

    def producer(self, producer_id: int) -> tuple[int, int]:
        """Epoch and next sequence number."""
        epoch, sequence = 0, 0
        for batch in self.log:
            if batch.producer_id == producer_id:
                if batch.epoch != epoch:
                    epoch, sequence = batch.epoch, 0
                if batch.commit is None:
                    sequence = batch.last_sequence + 1
        return epoch, sequence

    def open(self, before: int = 2**62) -> dict[int, int]:
        """Producer → first offset of its open transaction, as it was when the log ended at `before`."""
        opened: dict[int, int] = {}
        for batch in self.log:
            if batch.base_offset >= before:
                break
            if batch.commit is not None:
                opened.pop(batch.producer_id, None)
            elif batch.transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        return opened

    def aborted(self) -> list[AbortedTransaction]:
        """Every aborted transaction, in the order of the markers."""
        found: list[AbortedTransaction] = []
        for batch in self.log:
            opened = self.open(batch.base_offset)
            first = opened.pop(batch.producer_id, None)
            if batch.commit is False and first is not None:
                stable = min(opened.values(), default=batch.base_offset + 1)
                found.append(AbortedTransaction(batch.producer_id, first, batch.base_offset, stable))
        return found

    def committed(self, from_offset: int, to_offset: int) -> list[tuple[int, bytes]]:
        """(offset, value) of the records below `to_offset` that are not, and will not be, taken back."""
        found: list[tuple[int, bytes]] = []
        for index, batch in enumerate(self.log):
            if batch.commit is not None or (batch.transactional and not self._was_committed(index)):
                continue
            records = enumerate(batch.values, batch.base_offset)
            found += [(offset, value) for offset, value in records if from_offset <= offset < to_offset]
        return found

    def _was_committed(self, index: int) -> bool:
        producer_id = self.log[index].producer_id
        markers = (
            b.commit for b in self.log[index:] if b.producer_id == producer_id and b.commit is not None
        )
        return next(markers, False)


def batches_of(found: LogSlice) -> Iterable[tuple[BatchHeader, bytes]]:
    """The whole batches of a slice."""
    data, position = b"".join(map(region_bytes, found.regions)), 0
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if header.size > len(data) - position:
            return
        yield header, data[position : position + header.size]
        position += header.size


def read_as_client(found: LogSlice, aborted: Sequence[AbortedTransaction]) -> list[tuple[int, bytes]]:
    """What a client makes of one answer: it leaves out the data of aborted transactions, and markers."""
    waiting = [(entry.first_offset, entry.producer_id) for entry in aborted]
    heapq.heapify(waiting)
    leaving_out: set[int] = set()
    records: list[tuple[int, bytes]] = []
    for header, data in batches_of(found):
        while waiting and waiting[0][0] <= header.last_offset:
            leaving_out.add(heapq.heappop(waiting)[1])
        if header.is_control:
            marker = decode_marker(data, header)
            if marker is not None and not marker.commit:
                leaving_out.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in leaving_out):
            records += [(record.offset, record.value or b"") for record in iter_records(data, header)]
    return records


class TransactionalLog(RuleBasedStateMachine):
    """A partition and its model; a subclass says what it is stored in and how it stops and starts."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.coordinator_epoch = 0
        self.start_was_raised = False
        self.decided = 0
        self.choose = random.Random(3)
        self.partition = self.opened(clean=True)

    def store(self, *, clean: bool) -> PartitionStore:
        """The store, opened again after it was closed or just left."""
        raise NotImplementedError

    def opened(self, *, clean: bool) -> UnifiedLog:
        """The partition above the store."""
        return open_partition(self.store(clean=clean), CONFIG, clean_start=clean)

    @rule(steps=st.lists(st.tuples(STEPS, PRODUCERS, st.integers(1, 3)), min_size=6, max_size=20))
    def work(self, steps: list[tuple[str, int, int]]) -> None:
        """What producers do between two things that befall a partition."""
        for step, producer_id, count in steps:
            if step == "no producer":
                self.append_without_producer(count)
            elif step in ("commit", "abort"):
                self.end(producer_id, step == "commit", count == 3, count == 2)
            else:
                self.append(producer_id, count, step == "begin or go on")

    def append(self, producer_id: int, count: int, transactional: bool) -> None:
        epoch, sequence = self.model.producer(producer_id)
        if self.start_was_raised and self.only_a_marker_is_left_of(producer_id):
            sequence = 0
        values = [b"%d" % self.choose.randrange(10**20) for _ in range(count)]
        batch = make_batch(
            values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        if not transactional and producer_id in self.model.open():
            with pytest.raises(InvalidTransactionState):
                self.partition.append_nowait(batch)
            return
        result = self.partition.append_nowait(batch, in_transaction=transactional)
        self.model.log.append(
            Written(
                producer_id,
                epoch,
                result.base_offset,
                result.last_offset,
                transactional,
                last_sequence=sequence + count - 1,
                values=tuple(values),
            )
        )

    def only_a_marker_is_left_of(self, producer_id: int) -> bool:
        """The log begins behind its data, so a restart found no sequence: as in Kafka it begins anew then."""
        entry = self.partition.producers.entries.get(producer_id)
        return entry is not None and not entry.batches

    def append_without_producer(self, count: int) -> None:
        values = [b"plain"] * count
        first, last, *_ = self.partition.append_nowait(make_batch(values))
        self.model.log.append(Written(NO_PRODUCER_ID, -1, first, last, False, values=tuple(values)))

    def end(self, producer_id: int, commit: bool, later_epoch: bool, later_coordinator: bool) -> None:
        """Also when nothing is open: a coordinator may repeat itself."""
        epoch = self.model.producer(producer_id)[0] + later_epoch
        self.coordinator_epoch += later_coordinator
        first, last, *_ = self.partition.append_marker(
            producer_id, epoch, self.coordinator_epoch, commit=commit
        )
        self.model.log.append(Written(producer_id, epoch, first, last, True, commit))

    @rule(producer_id=PRODUCERS)
    def end_by_somebody_fenced(self, producer_id: int) -> None:
        entry = self.partition.producers.entries.get(producer_id)
        if entry is None:
            return
        with pytest.raises(InvalidProducerEpoch):
            self.partition.append_marker(producer_id, entry.epoch - 1, self.coordinator_epoch, commit=True)
        with pytest.raises(TransactionCoordinatorFenced):
            self.partition.append_marker(producer_id, entry.epoch, entry.coordinator_epoch - 1, commit=True)

    @rule()
    def stop_and_start(self) -> None:
        self.partition.close()
        self.partition = self.opened(clean=True)

    @rule()
    def crash(self) -> None:
        self.partition = self.opened(clean=False)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.partition.log_end_offset - back, self.decided)
        trio.run(self.partition.truncate_to, offset)
        self.model.log = [batch for batch in self.model.log if batch.last_offset < offset]
        if self.model.log:
            assert self.partition.log_end_offset >= self.model.log[-1].last_offset + 1
        assert self.partition.log_end_offset <= offset

    @precondition(lambda self: len(self.model.log) > 30)
    @rule(ahead=st.integers(1, 10))
    def raise_log_start(self, ahead: int) -> None:
        """No decision is truncated any more: its transaction may have begun before the log does now."""
        partition = self.partition
        decisions = [batch.last_offset + 1 for batch in self.model.log if batch.commit is not None]
        self.decided = max([partition.last_stable_offset, *decisions])
        partition.raise_log_start(min(partition.log_start_offset + ahead, partition.last_stable_offset))
        self.start_was_raised = True

    @invariant()
    def the_watermarks_are_in_order(self) -> None:
        partition = self.partition
        assert partition.log_start_offset <= partition.last_stable_offset
        assert partition.last_stable_offset <= partition.high_watermark == partition.log_end_offset
        expected = min(self.model.open().values(), default=partition.log_end_offset)
        assert partition.last_stable_offset == expected

    @invariant()
    def aborted_transactions_are_told_for_every_range(self) -> None:
        if self.start_was_raised:
            return  # what is found again in a shorter log begins later
        end, expected = self.partition.log_end_offset, self.model.aborted()
        for _ in range(10):
            first = self.choose.randrange(end + 1)
            to = self.choose.randrange(first, end + 1) + 1
            found = self.partition.store.aborted_transactions(first, to, wait=True)
            assert list(found) == [e for e in expected if e.last_offset >= first and e.first_offset < to]

    @invariant()
    def a_committed_reader_gets_what_was_committed_and_nothing_else(self) -> None:
        partition = self.partition
        start, stable = partition.log_start_offset, partition.last_stable_offset
        offset = begin = self.choose.randrange(start, stable + 1)
        records: list[tuple[int, bytes]] = []
        while offset < stable:
            found = partition.read(
                offset, self.choose.choice([1, 300, 5000]), Isolation.READ_COMMITTED, wait=True
            )
            if not found.size:
                break
            aborted = partition.aborted_transactions(offset, found, wait=True)
            records += [record for record in read_as_client(found, aborted) if record[0] >= offset]
            offset = [header.next_offset for header, _ in batches_of(found)][-1]
        assert records == self.model.committed(begin, stable)
