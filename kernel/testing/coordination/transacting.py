"""Conformance: data in transactions (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tidelog.kernel.errors import (
    InvalidProducerIdMapping,
    ProducerFenced,
    TransactionalIdNotFound,
)
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
    TransactionFilter,
    TransactionState,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.coordination.harness import TOPIC, CoordinatorHarness

NAME = "payments"
TIMEOUT_MS = 60_000
PLACES = tuple(TopicPartition(TOPIC, partition) for partition in range(2))
VERSIONS = pytest.mark.parametrize("version", [FIRST_TRANSACTION_VERSION, EPOCH_PER_TRANSACTION])


async def begin(harness: CoordinatorHarness, version: int = EPOCH_PER_TRANSACTION) -> ProducerIdentity:
    """Begin a transaction with a record in each of two partitions; return its producer."""
    transactions = harness.coordinator.transactions
    producer = await transactions.init_producer_id(NAME, TIMEOUT_MS)
    await transactions.add_partitions(NAME, producer, PLACES, version=version)
    for place in PLACES:
        batch = make_batch(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            timestamps=harness.clock.now_ms,
            transactional=True,
        )
        verified = transactions.includes_partition(*producer, place)
        harness.broker.topics.get(TOPIC).partitions[place.partition].log.append_nowait(
            batch, in_transaction=verified
        )
    return producer


def held_back(harness: CoordinatorHarness) -> list[int]:
    """How many records, markers counted, readers of committed data do not get of each partition."""
    partitions = harness.broker.topics.get(TOPIC).partitions
    return [partition.log.log_end_offset - partition.log.last_stable_offset for partition in partitions]


@pytest.mark.trio
class Transacting:
    """A transaction has one outcome in all of its partitions."""

    durable: ClassVar[bool]

    @VERSIONS
    @pytest.mark.parametrize("commit", [True, False])
    async def test_end_txn_commits_and_aborts(
        self, harness: CoordinatorHarness, commit: bool, version: int
    ) -> None:
        producer = await begin(harness, version)
        assert held_back(harness) == [1, 1, 0]
        transactions = harness.coordinator.transactions
        following = await transactions.end(NAME, producer, commit=commit, version=version)
        assert following == (producer.producer_id, producer.epoch + (version >= EPOCH_PER_TRANSACTION))
        assert held_back(harness) == [0, 0, 0]
        state = transactions.describe(NAME).state
        assert state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)

    async def test_init_producer_id_fences_the_previous_instance(self, harness: CoordinatorHarness) -> None:
        first = await begin(harness)
        transactions = harness.coordinator.transactions
        second = await transactions.init_producer_id(NAME, TIMEOUT_MS)
        assert second.producer_id == first.producer_id
        assert second.epoch > first.epoch
        assert held_back(harness) == [0, 0, 0]
        assert not transactions.includes_partition(*first, PLACES[0])
        for version in (FIRST_TRANSACTION_VERSION, EPOCH_PER_TRANSACTION):
            with pytest.raises(ProducerFenced):
                await transactions.end(NAME, first, commit=True, version=version)

    async def test_transaction_timeout_aborts_and_fences(self, harness: CoordinatorHarness) -> None:
        producer = await begin(harness)
        harness.clock.advance(TIMEOUT_MS)
        await harness.expire()
        assert held_back(harness) == [1, 1, 0]
        harness.clock.advance(1)
        await harness.expire()
        assert held_back(harness) == [0, 0, 0]
        with pytest.raises(ProducerFenced):
            await harness.coordinator.transactions.add_partitions(NAME, producer, PLACES)

    async def test_end_txn_after_a_restart(self, harness: CoordinatorHarness) -> None:
        producer = await begin(harness)
        await harness.restart()
        transactions = harness.coordinator.transactions
        if not self.durable:
            with pytest.raises(TransactionalIdNotFound):
                transactions.describe(NAME)
            with pytest.raises(InvalidProducerIdMapping):
                await transactions.end(NAME, producer, commit=True)
            return
        assert set(transactions.describe(NAME).partitions) == set(PLACES)
        assert held_back(harness) == [1, 1, 0]
        await transactions.end(NAME, producer, commit=True, version=EPOCH_PER_TRANSACTION)
        assert held_back(harness) == [0, 0, 0]

    async def test_list_transactions_and_describe_transactions(self, harness: CoordinatorHarness) -> None:
        producer = await begin(harness)
        transactions = harness.coordinator.transactions
        for wanted in (TransactionFilter(), TransactionFilter(states=[TransactionState.ONGOING])):
            (found,) = await transactions.list(wanted)
            assert (found.transactional_id, found.producer) == (NAME, producer)
        assert not await transactions.list(TransactionFilter(states=[TransactionState.EMPTY]))
