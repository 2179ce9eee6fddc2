"""`TransactionCompletion`: decisions are carried out, after a crash or a refusal too."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.transactions.coordinator import (
    PLACES,
    TIMEOUT_MS,
    TOPIC,
    Crash,
    CrashingCoordinator,
)
from tidelog.kernel.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    StorageError,
)
from tidelog.kernel.seams.coordination.transactions import (
    ProducerIdentity,
    TransactionState,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.transactions.states import AT_REST, PREPARE_COMMIT

HERE, THERE, _ = PLACES


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("step", range(8))
async def test_complete_after_a_crash_at_every_write_of_end(commit: bool, step: int) -> None:
    coordinator = CrashingCoordinator()
    producer = await coordinator.begin()
    coordinator.writes.crash_at = coordinator.writes.steps + step
    with pytest.raises((Crash, BaseExceptionGroup)):
        await coordinator.transactions.end("orders", producer, commit=commit, version=2)
    await coordinator.recover()
    decided = step > 0
    state = coordinator.transactions.describe("orders").state
    assert state is TransactionState.ONGOING if not decided else state in AT_REST
    assert coordinator.committed() == ([[b"1"], [b"2"], []] if decided and commit else [[], [], []])
    # The producer asks again, as it does when it got no answer.
    await coordinator.transactions.end("orders", producer, commit=commit, version=2)
    assert coordinator.committed() == ([[b"1"], [b"2"], []] if commit else [[], [], []])
    with pytest.raises(InvalidTransactionState):
        await coordinator.transactions.end("orders", producer, commit=not commit, version=2)


@pytest.mark.parametrize("step", range(10))
async def test_complete_after_a_crash_at_every_write_of_a_fence(step: int) -> None:
    coordinator = CrashingCoordinator()
    first = await coordinator.begin()
    coordinator.writes.crash_at = coordinator.writes.steps + step
    with pytest.raises((Crash, BaseExceptionGroup)):
        await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    await coordinator.recover()
    second = await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    assert second.producer_id == first.producer_id
    assert second.epoch > first.epoch
    with pytest.raises(ProducerFenced):
        await coordinator.transactions.end("orders", first, commit=True, version=0)
    with pytest.raises(InvalidTransactionState):
        coordinator.append(HERE, first, 1, b"3")
    assert coordinator.committed() == [[], [], []]


async def test_complete_writes_the_marker_that_a_partition_refused(coordinator: CrashingCoordinator) -> None:
    producer = await coordinator.begin()
    coordinator.partitions[THERE.partition].take_offline(StorageError("the disk is gone"))
    await coordinator.transactions.end("orders", producer, commit=True, version=2)
    assert coordinator.transactions.describe("orders").state is PREPARE_COMMIT
    end_offset = coordinator.partitions[HERE.partition].log_end_offset
    with pytest.raises(ConcurrentTransactions):
        await coordinator.transactions.add_partitions("orders", ProducerIdentity(*producer), (HERE,))
    await coordinator.transactions.complete()
    assert coordinator.partitions[HERE.partition].log_end_offset == end_offset, "its marker is not repeated"
    availability = coordinator.partitions[THERE.partition].availability
    availability.reason = availability.append_refusal = None
    await coordinator.transactions.complete()
    assert coordinator.transactions.describe("orders").state is TransactionState.COMPLETE_COMMIT
    assert coordinator.committed() == [[b"1"], [b"2"], []]


async def test_end_txn_needs_no_marker_in_a_partition_that_was_deleted(
    coordinator: CrashingCoordinator,
) -> None:
    producer = await coordinator.transactions.init_producer_id("orders", TIMEOUT_MS)
    gone = TopicPartition("gone", 0), TopicPartition(TOPIC, 99)
    await coordinator.transactions.add_partitions("orders", producer, gone)
    await coordinator.transactions.end("orders", producer, commit=True)
    assert coordinator.transactions.describe("orders").state is TransactionState.COMPLETE_COMMIT
