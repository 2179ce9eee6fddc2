"""Idempotent producers: whatever is retried, lost, restarted or expired, each batch lands once and in order.

A simple model stands beside the partition: for each producer its epoch, the sequence that has to come next
and the batches that a retry may repeat.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import BrokerError, InvalidProducerEpoch, OutOfOrderSequence
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.log.snapshots import snapshot_offsets
from tidelog.kernel.seams.coordination.transactions import EPOCH_PER_TRANSACTION
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.testing import FakeClock, make_batch

from .parts import new_store, offsets_in, open_partition, sent

SEQUENCES = 2**31
RETAINED = 5
CONFIG = TopicConfig({"segment.bytes": 700})
counts = st.integers(1, 4)


@attrs.frozen
class Sent:
    """A batch that is in the log."""

    sequence: int
    count: int
    offset: int


@attrs.define
class Producer:
    """What the model knows of a producer."""

    epoch: int
    next_sequence: int
    batches: list[Sent] = attrs.field(factory=list[Sent])

    def repeatable(self) -> list[Sent]:
        """Batches that are answered and not appended again."""
        return self.batches[-RETAINED:]

    def append(self, count: int, offset: int) -> None:
        """The next batch got that offset."""
        self.batches.append(Sent(self.next_sequence, count, offset))
        self.next_sequence = (self.next_sequence + count) % SEQUENCES


class Idempotence(RuleBasedStateMachine):
    """Producers that send, retry, skip, restart and fail, against a model."""

    @initialize()
    def start(self) -> None:
        self.clock = FakeClock()
        self.store = new_store(CONFIG, self.clock)
        self.partition = open_partition(self.store, CONFIG, self.clock)
        self.producers: dict[int, Producer] = {}
        self.log_end = 0
        self.appended: list[int] = []

    def send(self, producer_id: int, epoch: int, sequence: int, count: int) -> tuple[int, int]:
        """Append and give the result's offsets."""
        result = self.partition.append_nowait(sent(producer_id, epoch, sequence % SEQUENCES, count))
        return result.base_offset, result.last_offset

    def expect_appended(self, producer_id: int, producer: Producer, count: int) -> None:
        """The next batch goes to the log's end."""
        found = self.send(producer_id, producer.epoch, producer.next_sequence, count)
        assert found == (self.log_end, self.log_end + count - 1)
        producer.append(count, self.log_end)
        self.appended.append(self.log_end)
        self.log_end += count

    def expect_refused(
        self, error: type[BrokerError], producer_id: int, epoch: int, sequence: int, count: int
    ) -> None:
        """The batch changes nothing."""
        with pytest.raises(error):
            self.send(producer_id, epoch, sequence, count)

    def pick(self, data: st.DataObject) -> tuple[int, Producer]:
        """One of the producers."""
        return data.draw(st.sampled_from(sorted(self.producers.items(), key=lambda item: item[0])))

    @rule(
        producer_id=st.integers(0, 6),
        epoch=st.integers(0, 3),
        sequence=st.sampled_from([0, 0, 17, SEQUENCES - 3, SEQUENCES - 1]),
        count=counts,
    )
    def a_producer_that_is_not_known_starts_anywhere(
        self, producer_id: int, epoch: int, sequence: int, count: int
    ) -> None:
        if producer_id not in self.producers:
            producer = self.producers[producer_id] = Producer(epoch, sequence)
            self.expect_appended(producer_id, producer, count)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), count=counts)
    def the_next_batch(self, data: st.DataObject, count: int) -> None:
        producer_id, producer = self.pick(data)
        self.expect_appended(producer_id, producer, count)

    @precondition(lambda self: self.producers)
    @rule(data=st.data())
    def five_in_flight_are_all_sent_again(self, data: st.DataObject) -> None:
        producer_id, producer = self.pick(data)
        for batch in data.draw(st.permutations(producer.repeatable())):
            found = self.send(producer_id, producer.epoch, batch.sequence, batch.count)
            assert found == (batch.offset, batch.offset + batch.count - 1)

    @precondition(lambda self: any(len(one.batches) > RETAINED for one in self.producers.values()))
    @rule(data=st.data())
    def a_batch_that_is_long_gone_is_sent_again(self, data: st.DataObject) -> None:
        old = {key: one for key, one in self.producers.items() if len(one.batches) > RETAINED}
        producer_id = data.draw(st.sampled_from(sorted(old)))
        producer = old[producer_id]
        batch = data.draw(st.sampled_from(producer.batches[:-RETAINED]))
        self.expect_refused(OutOfOrderSequence, producer_id, producer.epoch, batch.sequence, batch.count)

    @precondition(lambda self: any(one.repeatable() for one in self.producers.values()))
    @rule(data=st.data(), more=st.integers(1, 3))
    def a_batch_is_sent_again_with_other_records(self, data: st.DataObject, more: int) -> None:
        producer_id, producer = self.pick(data)
        for batch in producer.repeatable()[-1:]:
            wrong = batch.count + more
            self.expect_refused(OutOfOrderSequence, producer_id, producer.epoch, batch.sequence, wrong)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), gap=st.integers(1, 1000), count=counts)
    def a_batch_after_one_that_was_lost(self, data: st.DataObject, gap: int, count: int) -> None:
        producer_id, producer = self.pick(data)
        sequence = producer.next_sequence + gap
        self.expect_refused(OutOfOrderSequence, producer_id, producer.epoch, sequence, count)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), by=st.integers(1, 3), count=counts)
    def a_new_epoch(self, data: st.DataObject, by: int, count: int) -> None:
        producer_id, producer = self.pick(data)
        fresh = self.producers[producer_id] = Producer(producer.epoch + by, 0)
        self.expect_appended(producer_id, fresh, count)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), sequence=st.integers(1, SEQUENCES - 1), count=counts)
    def a_new_epoch_that_does_not_begin_at_zero(self, data: st.DataObject, sequence: int, count: int) -> None:
        producer_id, producer = self.pick(data)
        self.expect_refused(OutOfOrderSequence, producer_id, producer.epoch + 1, sequence, count)

    @precondition(lambda self: any(one.epoch for one in self.producers.values()))
    @rule(data=st.data(), count=counts)
    def an_old_epoch(self, data: st.DataObject, count: int) -> None:
        producer_id, producer = self.pick(data)
        if producer.epoch:
            for sequence in (0, producer.next_sequence):
                self.expect_refused(InvalidProducerEpoch, producer_id, producer.epoch - 1, sequence, count)

    @rule(count=counts)
    def someone_without_idempotence(self, count: int) -> None:
        result = self.partition.append_nowait(make_batch([b"value"] * count))
        assert result.base_offset == self.log_end
        self.appended.append(self.log_end)
        self.log_end += count

    @rule(clean=st.booleans())
    def a_restart(self, clean: bool) -> None:
        """What a snapshot keeps of a producer is its newest batch; those above it are in the log."""
        if clean:
            self.partition.close()
        self.partition = open_partition(self.store, CONFIG, self.clock, clean_start=clean)
        snapshot = max(snapshot_offsets(self.store.side_files()), default=0)
        for producer in self.producers.values():
            below = [batch for batch in producer.batches if batch.offset < snapshot]
            producer.batches = below[-1:] + [batch for batch in producer.batches if batch.offset >= snapshot]

    @rule()
    def all_producers_expire(self) -> None:
        """The snapshot of a clean stop keeps them from coming back out of the log."""
        assert self.partition.producers.expire(self.clock.now_ms) == 0
        assert self.partition.producers.expire(self.clock.now_ms + 1) == len(self.producers)
        self.producers.clear()
        self.a_restart(clean=True)

    @invariant()
    def the_log_holds_each_batch_once_and_in_order(self) -> None:
        partition: UnifiedLog | None = getattr(self, "partition", None)
        if partition is None:
            return
        assert offsets_in(partition.read(0, 2**31 - 1, Isolation.READ_UNCOMMITTED)) == self.appended
        assert partition.log_start_offset <= partition.last_stable_offset <= partition.high_watermark
        assert partition.high_watermark <= partition.log_end_offset == self.log_end
        assert set(partition.producers.entries) == set(self.producers)


Idempotence.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestIdempotence = Idempotence.TestCase


def results(partition: UnifiedLog, batches: list[tuple[int, int, int, int]]) -> list[tuple[int, int]]:
    """Base and last offsets of these batches (producer id, epoch, sequence, count)."""
    appended = [partition.append_nowait(sent(*batch)) for batch in batches]
    return [(result.base_offset, result.last_offset) for result in appended]


def test_producer_states_ignore_a_producer_id_below_minus_1() -> None:
    partition = open_partition()
    for _ in range(2):
        partition.append_nowait(sent(-2, -3, -4))
    assert partition.log_end_offset == 2
    assert partition.producers.entries == {}


def test_check_refuses_a_first_producer_epoch_below_minus_1() -> None:
    partition = open_partition()
    with pytest.raises(InvalidProducerEpoch):
        partition.append_nowait(sent(7, -2, 0))
    partition.append_nowait(sent(7, -1, 0))
    assert partition.log_end_offset == 1


def test_check_accepts_sequences_that_wrap_to_zero_and_their_retries() -> None:
    partition = open_partition()
    batches = [(1, 0, SEQUENCES - 4, 3), (1, 0, SEQUENCES - 1, 1), (1, 0, 0, 2), (1, 0, 2, 1)]
    expected = [(0, 2), (3, 3), (4, 5), (6, 6)]
    assert results(partition, batches) == expected
    assert results(partition, batches) == expected


def test_check_accepts_a_batch_across_the_wrap_of_sequences_and_its_retry() -> None:
    partition = open_partition()
    batches = [(1, 0, SEQUENCES - 2, 5), (1, 0, 3, 1)]
    assert results(partition, batches) == [(0, 4), (5, 5)]
    assert results(partition, batches) == [(0, 4), (5, 5)]


@pytest.mark.parametrize("epoch", [0, 1])
def test_check_recognizes_retries_of_the_same_producer_epoch_only(epoch: int) -> None:
    """Sequence 0 of epoch 0 and of epoch 1 are different batches."""
    partition = open_partition()
    partition.append_nowait(sent(1, 0, 0))
    assert partition.append_nowait(sent(1, epoch, 0)).base_offset == epoch


def test_check_takes_no_batch_of_a_new_epoch_for_a_retry_of_the_epoch_before() -> None:
    """The client would believe that a batch is in the log which is not, or is elsewhere."""
    partition = open_partition()
    assert results(partition, [(1, 0, sequence, 1) for sequence in range(3)]) == [(0, 0), (1, 1), (2, 2)]
    assert results(partition, [(1, 1, 0, 1)] * 2) == [(3, 3), (3, 3)]
    with pytest.raises(OutOfOrderSequence):
        partition.append_nowait(sent(1, 1, 2))
    assert results(partition, [(1, 1, 1, 1), (1, 1, 2, 1)] * 2) == [(4, 4), (5, 5)] * 2


def test_check_recognizes_retries_of_the_last_five_batches_only() -> None:
    partition = open_partition()
    for sequence in range(6):
        partition.append_nowait(sent(1, 0, sequence))
    for sequence in range(1, 6):
        assert partition.append_nowait(sent(1, 0, sequence)).base_offset == sequence
    with pytest.raises(OutOfOrderSequence):
        partition.append_nowait(sent(1, 0, 0))


def test_producers_do_not_disturb_each_other() -> None:
    partition = open_partition()
    for sequence in range(8):
        for producer_id in range(10):
            partition.append_nowait(sent(producer_id, 0, sequence))
    for producer_id in range(10):
        assert partition.append_nowait(sent(producer_id, 0, 3)).base_offset == 30 + producer_id


def test_expire_compares_the_newest_batch() -> None:
    partition = open_partition()
    partition.append_nowait(make_batch(producer_id=1, producer_epoch=0, base_sequence=0, timestamps=1000))
    partition.append_nowait(make_batch(producer_id=2, producer_epoch=0, base_sequence=0, timestamps=1000))
    partition.append_nowait(make_batch(producer_id=2, producer_epoch=0, base_sequence=1, timestamps=2000))
    assert partition.producers.expire(1000) == 0
    assert partition.producers.expire(1001) == 1
    assert set(partition.producers.entries) == {2}


def test_expire_keeps_a_producer_with_an_open_transaction() -> None:
    partition = open_partition()
    partition.append_nowait(sent(1, 0, 0))
    partition.producers.entries[1].current_txn_first_offset = 0
    assert partition.producers.expire(2**62) == 0


def test_check_wants_sequence_0_of_an_unknown_producer_whose_transaction_has_its_own_epoch() -> None:
    partition = open_partition()

    def append(sequence: int, version: int) -> AppendResult:
        batch = make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)
        appended = partition.append_as_leader(batch, lambda: version)
        assert isinstance(appended, AppendResult)
        return appended

    with pytest.raises(OutOfOrderSequence, match="begins its transaction here with sequence 5 instead of 0"):
        append(5, EPOCH_PER_TRANSACTION)
    assert append(0, EPOCH_PER_TRANSACTION).base_offset == 0
    assert append(1, EPOCH_PER_TRANSACTION).base_offset == 1


def test_check_takes_any_first_sequence_in_transactions_without_an_epoch_of_their_own() -> None:
    partition = open_partition()
    batch = make_batch(producer_id=1, producer_epoch=0, base_sequence=5, transactional=True)
    assert isinstance(partition.append_as_leader(batch, lambda: EPOCH_PER_TRANSACTION - 1), AppendResult)
