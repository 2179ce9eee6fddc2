"""Conformance: offsets in transactions (KIP-98, KIP-447)."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import UnstableOffsetCommit
from tidelog.kernel.seams.coordination.offsets import CommittedOffset, OffsetCommit, OffsetToCommit
from tidelog.kernel.seams.coordination.transactions import ProducerIdentity
from tidelog.kernel.testing.coordination.harness import GROUP, TOPIC, CoordinatorHarness


class CommittingProducer:
    """A transactional producer that commits offsets of `GROUP`."""

    def __init__(self, harness: CoordinatorHarness, name: str) -> None:
        self._harness = harness
        self._name = name
        self._identity = ProducerIdentity(-1, -1)

    async def begin(self, *offsets: int) -> None:
        """Commit these for partitions 0, 1 and so on, in a new transaction."""
        transactions = self._harness.coordinator.transactions
        self._identity = await transactions.init_producer_id(self._name, 60_000)
        await transactions.add_offsets(self._name, self._identity, GROUP)
        self.commit(*offsets)

    def commit(self, *offsets: int) -> None:
        """Commit more in the open transaction."""
        to_commit = [OffsetToCommit(TOPIC, partition, offset) for partition, offset in enumerate(offsets)]
        request = OffsetCommit(GROUP, to_commit, is_transactional=True)
        outcome = self._harness.coordinator.offsets.commit_pending(request, *self._identity)
        assert not any(outcome.errors)

    async def end(self, *, commit: bool) -> None:
        """End the transaction."""
        await self._harness.coordinator.transactions.end(self._name, self._identity, commit=commit)


@pytest.mark.trio
class Pending:
    """What a transaction commits counts once it is committed."""

    @pytest.mark.parametrize("commit", [True, False])
    async def test_txn_offset_commit_becomes_visible_with_its_transaction(
        self, harness: CoordinatorHarness, commit: bool
    ) -> None:
        harness.commit(1, 2)
        producer = CommittingProducer(harness, "payments")
        await producer.begin(10)
        assert harness.offsets() == {(TOPIC, 0): 1, (TOPIC, 1): 2}
        unstable, stable = harness.fetch(0, 1, stable=True)
        assert isinstance(unstable, UnstableOffsetCommit)
        assert isinstance(stable, CommittedOffset)
        producer.commit(11)
        await producer.end(commit=commit)
        assert harness.offsets() == {(TOPIC, 0): 11 if commit else 1, (TOPIC, 1): 2}
        assert [type(found) for found in harness.fetch(0, 1, stable=True)] == [CommittedOffset] * 2

    async def test_txn_offset_commit_is_replaced_by_a_later_offset_commit(
        self, harness: CoordinatorHarness
    ) -> None:
        producer = CommittingProducer(harness, "payments")
        await producer.begin(10, 20)
        harness.commit(1)
        await producer.end(commit=True)
        assert harness.offsets() == {(TOPIC, 0): 1, (TOPIC, 1): 20}

    async def test_txn_offset_commit_of_two_transactions_keeps_the_later_one(
        self, harness: CoordinatorHarness
    ) -> None:
        early, late = CommittingProducer(harness, "early"), CommittingProducer(harness, "late")
        await early.begin(10)
        await late.begin(20)
        await late.end(commit=True)
        assert isinstance(harness.fetch(0, stable=True)[0], UnstableOffsetCommit)
        await early.end(commit=True)
        assert harness.offsets() == {(TOPIC, 0): 20}

    async def test_txn_offset_commit_after_offset_delete(self, harness: CoordinatorHarness) -> None:
        harness.commit(1)
        producer = CommittingProducer(harness, "payments")
        await producer.begin(10)
        harness.coordinator.offsets.delete(GROUP, [(TOPIC, 0)])
        await producer.end(commit=True)
        assert harness.offsets() == {}
