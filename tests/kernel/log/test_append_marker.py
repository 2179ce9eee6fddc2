"""Ending transactions: who may, what committed readers see of it and when, what a failing disk does."""

from __future__ import annotations

from functools import partial

import pytest

from tests.kernel.log.parts import batch_of, content, new_store, offsets_in, open_partition, sent
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    StorageError,
    TransactionCoordinatorFenced,
)
from tidelog.kernel.log import AppendOrigin, AppendResult, AppendWaiter, Isolation, UnifiedLog
from tidelog.kernel.log.snapshots import snapshot_offsets
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.seams.storage import AbortedTransaction
from tidelog.kernel.testing import FakeClock, make_batch

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def in_transaction(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytearray:
    """A batch that belongs to a transaction."""
    return make_batch(
        [b"value"] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def write(
    partition: UnifiedLog, producer_id: int, sequence: int, count: int = 1, epoch: int = 0
) -> AppendResult:
    return partition.append_nowait(in_transaction(producer_id, epoch, sequence, count), in_transaction=True)


def ends(partition: UnifiedLog) -> tuple[int, int, int]:
    return partition.last_stable_offset, partition.high_watermark, partition.log_end_offset


def aborted(partition: UnifiedLog) -> list[AbortedTransaction]:
    return list(partition.store.aborted_transactions(0, partition.log_end_offset))


def test_append_refuses_a_transactional_batch_that_is_not_verified() -> None:
    partition = open_partition()
    with pytest.raises(
        InvalidTransactionState, match="flights-3 was not added to a transaction of producer 1"
    ):
        partition.append_nowait(in_transaction(1, 0, 0))
    assert ends(partition) == (0, 0, 0)


def test_append_refuses_a_non_transactional_batch_while_a_transaction_is_open() -> None:
    partition = open_partition()
    write(partition, 1, 0)
    with pytest.raises(InvalidTransactionState, match="outside"):
        partition.append_nowait(sent(1, 0, 1))
    partition.append_marker(1, 0, 0, commit=True)
    assert partition.append_nowait(sent(1, 0, 1)).base_offset == 2


def test_append_refuses_a_control_batch_of_a_client() -> None:
    batch, _ = marker_batch(1, 0, EndMarker(True, 0), 0)
    with pytest.raises(InvalidRecord):
        open_partition().append_nowait(batch, in_transaction=True)


def test_committed_readers_wait_for_the_first_transaction_that_is_open() -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(2))
    write(partition, 1, 0, 3)
    write(partition, 2, 0)
    partition.append_nowait(batch_of(1))
    assert ends(partition) == (2, 7, 7)
    assert partition.append_marker(2, 0, 0, commit=False).base_offset == 7
    assert ends(partition) == (2, 8, 8)
    assert aborted(partition) == [AbortedTransaction(2, 5, 7, 2)]
    partition.append_marker(1, 0, 0, commit=True)
    assert ends(partition) == (9, 9, 9)
    assert offsets_in(partition.read(0, 10_000, COMMITTED)) == [0, 2, 5, 6, 7, 8]


def test_append_answers_a_retry_of_a_transactional_batch_with_its_offsets() -> None:
    partition = open_partition()
    first = write(partition, 1, 0, 2)
    assert write(partition, 1, 0, 2) == first
    partition.append_marker(1, 0, 0, commit=True)
    assert write(partition, 1, 0, 2) == first
    assert ends(partition) == (3, 3, 3)


def test_append_marker_stamps_a_control_batch() -> None:
    clock = FakeClock()
    partition = open_partition(clock=clock)
    write(partition, 1, 0)
    clock.advance(50)
    result = partition.append_marker(1, 3, 8, commit=False)
    assert result == AppendResult(1, 1, -1)
    header = parse_header(content(partition.read(1, 1000, UNCOMMITTED)))
    assert (header.base_offset, header.producer_epoch, header.max_timestamp) == (1, 3, clock.now_ms)
    entry = partition.producers.entries[1]
    assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp) == (3, 8, clock.now_ms)
    assert not entry.batches


def test_append_marker_has_log_append_time_where_the_topic_has() -> None:
    clock = FakeClock()
    partition = open_partition(config=TopicConfig({"message.timestamp.type": "LogAppendTime"}), clock=clock)
    assert partition.append_marker(1, 0, 0, commit=True).log_append_time_ms == clock.now_ms
    assert parse_header(content(partition.read(0, 1000, UNCOMMITTED))).is_append_time


def test_append_marker_fences_older_epochs() -> None:
    partition = open_partition()
    write(partition, 1, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        partition.append_marker(1, 4, 0, commit=True)
    partition.append_marker(1, 5, 3, commit=True)
    with pytest.raises(TransactionCoordinatorFenced, match="epoch 3"):
        partition.append_marker(1, 5, 2, commit=True)
    partition.append_marker(1, 6, 4, commit=False)
    with pytest.raises(InvalidProducerEpoch):
        write(partition, 1, 1, epoch=5)
    assert write(partition, 1, 0, epoch=6).base_offset == 3


def test_append_marker_of_transaction_version_2_refuses_the_epoch_that_is_open() -> None:
    partition = open_partition()
    write(partition, 1, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        partition.append_marker(1, 5, 0, commit=True, transaction_version=2)
    partition.append_marker(1, 6, 0, commit=True, transaction_version=2)
    assert partition.append_marker(1, 6, 0, commit=True, transaction_version=2).base_offset == 2
    assert ends(partition) == (3, 3, 3)


def test_append_marker_again_changes_nothing_but_the_log() -> None:
    partition = open_partition()
    write(partition, 1, 0)
    for _ in range(3):
        partition.append_marker(1, 0, 0, commit=False)
    assert ends(partition) == (4, 4, 4)
    assert aborted(partition) == [AbortedTransaction(1, 0, 1, 2)]


def test_append_marker_of_an_unknown_producer() -> None:
    partition = open_partition()
    partition.append_marker(9, 2, 1, commit=False)
    assert ends(partition) == (1, 1, 1)
    assert aborted(partition) == []
    with pytest.raises(InvalidProducerEpoch):
        write(partition, 9, 0, epoch=1)


async def test_what_is_not_durable_yet_is_neither_shown_nor_decided() -> None:
    partition = open_partition(config=TopicConfig({"flush.messages": 1}))
    partition.commit.durable_offset = 0
    data = write(partition, 1, 0, 2)
    assert (data.flush_due, ends(partition)) == (True, (0, 0, 2))
    await partition.wait_flushed(data.last_offset)
    assert ends(partition) == (0, 2, 2)
    marker = partition.append_marker(1, 0, 0, commit=True)
    assert (marker.flush_due, ends(partition)) == (True, (0, 2, 3))
    await partition.wait_flushed(marker.last_offset)
    assert ends(partition) == (3, 3, 3)


async def test_an_ended_transaction_holds_readers_back_until_its_marker_is_durable() -> None:
    partition = open_partition(config=TopicConfig({"flush.messages": 4}))
    write(partition, 1, 0)
    write(partition, 2, 0)
    partition.append_marker(1, 0, 0, commit=True)
    assert ends(partition) == (1, 3, 3)
    assert partition.append_marker(2, 0, 0, commit=True).flush_due
    assert ends(partition) == (1, 3, 4)
    await partition.flush()
    assert ends(partition) == (4, 4, 4)


def test_committed_readers_are_woken_when_the_last_stable_offset_moves() -> None:
    partition = open_partition()
    woken: list[str] = []
    size = len(in_transaction(1, 0, 0))
    partition.add_waiter(AppendWaiter(1, partial(woken.append, "all")))
    partition.add_waiter(AppendWaiter(2 * size, partial(woken.append, "committed")), COMMITTED)
    write(partition, 1, 0)
    assert woken == ["all"]
    write(partition, 2, 0)
    assert set(woken) == {"all"}
    partition.append_marker(1, 0, 0, commit=True)
    assert "committed" in woken
    partition.abandon_waiters()


def test_without_transactions_committed_readers_are_woken_by_appends() -> None:
    partition = open_partition()
    woken: list[str] = []
    waiter = AppendWaiter(1, partial(woken.append, "committed"))
    partition.add_waiter(waiter, COMMITTED)
    partition.append_nowait(batch_of(1))
    assert woken == ["committed"]
    partition.remove_waiter(waiter)
    partition.append_nowait(batch_of(1))
    assert woken == ["committed"]


def test_open_transactions_come_back_from_a_snapshot_and_from_the_log() -> None:
    store = new_store()
    before = open_partition(store)
    write(before, 1, 0)
    before.append_nowait(batch_of(1))
    before.close()
    after = open_partition(store)
    assert ends(after) == (0, 2, 2)
    write(after, 2, 0)
    after.append_marker(1, 0, 0, commit=True)
    assert ends(after) == (2, 4, 4)
    again = open_partition(store, clean_start=False)
    assert ends(again) == (2, 4, 4)
    again.append_marker(2, 0, 0, commit=False)
    assert aborted(again) == [AbortedTransaction(2, 2, 4, 5)]


def test_a_marker_that_the_index_could_not_take_is_found_at_the_next_start() -> None:
    store = new_store()
    partition = open_partition(store)
    write(partition, 1, 0)
    add = store.add_aborted

    def refuse(entry: AbortedTransaction) -> None:
        raise OSError(28, "No space left on device")

    store.add_aborted = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageError, match="No space left"):
        partition.append_marker(1, 0, 0, commit=False)
    assert ends(partition)[0] == 0
    with pytest.raises(StorageError):
        partition.append_nowait(batch_of(1))
    partition.close()
    store.add_aborted = add  # type: ignore[method-assign]
    after = open_partition(store)
    assert ends(after) == (2, 2, 2)
    assert aborted(after) == [AbortedTransaction(1, 0, 1, 2)]


def test_expire_keeps_producers_with_an_open_transaction() -> None:
    partition = open_partition()
    write(partition, 1, 0)
    partition.append_nowait(sent(2, 0, 0))
    assert partition.producers.expire(2**60) == 1
    assert list(partition.producers.entries) == [1]
    partition.append_marker(1, 0, 0, commit=True)
    assert partition.producers.expire(2**60) == 1


def test_remove_stray_snapshots_keeps_those_of_segments_and_the_newest() -> None:
    config = TopicConfig({"segment.bytes": 300})
    store = new_store(config)
    for _ in range(4):
        partition = open_partition(store, config)
        for _ in range(3):
            sequence = partition.producers.entries[1].last_sequence + 1 if partition.producers.entries else 0
            partition.append_nowait(sent(1, 0, sequence))
        partition.close()
    bases = {segment.base_offset for segment in store.segments()}
    assert not set(snapshot_offsets(store.side_files())) <= bases | {12}
    open_partition(store, config)
    assert set(snapshot_offsets(store.side_files())) == (bases - {0}) | {12}


def test_append_nowait_of_a_coordinator_needs_no_sequences() -> None:
    partition = open_partition(new_store())
    write(partition, 7, 0, count=3)
    batch = in_transaction(7, 1, -1)
    partition.append_nowait(batch, in_transaction=True, origin=AppendOrigin.COORDINATOR)
    partition.append_nowait(in_transaction(7, 1, -1), in_transaction=True, origin=AppendOrigin.COORDINATOR)
    assert partition.log_end_offset == 5
    with pytest.raises(InvalidProducerEpoch):
        partition.append_nowait(
            in_transaction(7, 0, -1), in_transaction=True, origin=AppendOrigin.COORDINATOR
        )
    with pytest.raises(InvalidRecord):
        partition.append_nowait(in_transaction(7, 1, -1), in_transaction=True)
