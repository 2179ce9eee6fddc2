"""Conformance: what is remembered over a restart, and what not."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tidelog.kernel.errors import UnstableOffsetCommit
from tidelog.kernel.seams.coordination.offsets import CommittedOffset, OffsetCommit, OffsetToCommit
from tidelog.kernel.testing.coordination.expiring import MINUTE_MS, RETENTION_MS
from tidelog.kernel.testing.coordination.harness import GROUP, TOPIC, CoordinatorHarness
from tidelog.kernel.testing.coordination.pending import CommittingProducer


@pytest.mark.trio
class Remembering:
    """A coordinator that is `durable` restores everything at a restart, any other starts empty."""

    durable: ClassVar[bool]

    async def test_offset_commit_survives_a_restart(self, harness: CoordinatorHarness) -> None:
        groups = [f"group-{number}" for number in range(30)]
        for round_of in (1, 2):
            for number, group_id in enumerate(groups):
                harness.commit(*range(round_of * number, round_of * number + 3), group_id=group_id)
        for group_id in groups[:10]:
            harness.coordinator.offsets.delete(group_id, [(TOPIC, 0)])
        before = {group_id: harness.offsets(group_id) for group_id in groups}
        for _ in range(2):
            await harness.restart()
            after = {group_id: harness.offsets(group_id) for group_id in groups}
            assert after == (before if self.durable else {group_id: {} for group_id in groups})

    async def test_offset_commit_survives_a_restart_with_all_fields(
        self, harness: CoordinatorHarness
    ) -> None:
        topic_id = harness.broker.topics.get(TOPIC).topic_id.bytes
        offsets = [
            OffsetToCommit(TOPIC, 0, 5, 3, "half way", topic_id),
            OffsetToCommit(TOPIC, 1, 6, commit_timestamp_ms=12345),
        ]
        harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets))
        harness.commit(7, group_id="short", metadata="until then", retention_ms=MINUTE_MS)
        now_ms = harness.clock.now_ms
        await harness.restart()
        known = [
            CommittedOffset(5, 3, "half way", now_ms, -1, topic_id),
            CommittedOffset(6, commit_timestamp_ms=12345, topic_id=topic_id),
        ]
        assert harness.fetch(0, 1) == (known if self.durable else [None, None])
        expiring = CommittedOffset(7, -1, "until then", now_ms, now_ms + MINUTE_MS)
        assert harness.fetch(0, group_id="short") == [expiring if self.durable else None]

    async def test_expire_offsets_survives_a_restart(self, harness: CoordinatorHarness) -> None:
        harness.commit(1)
        harness.clock.advance(RETENTION_MS)
        await harness.expire()
        await harness.restart()
        assert harness.offsets() == {}

    async def test_txn_offset_commit_of_an_open_transaction_survives_a_restart(
        self, harness: CoordinatorHarness
    ) -> None:
        harness.commit(1, 2)
        producer = CommittingProducer(harness, "payments")
        await producer.begin(10, 20)
        harness.commit(3)
        await harness.restart()
        if not self.durable:
            assert harness.offsets() == {}
            return
        assert harness.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 2}
        assert isinstance(harness.fetch(1, stable=True)[0], UnstableOffsetCommit)
        await producer.end(commit=True)
        assert harness.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 20}

    async def test_txn_offset_commit_of_complete_transactions_survives_a_restart(
        self, harness: CoordinatorHarness
    ) -> None:
        committed, aborted = CommittingProducer(harness, "committed"), CommittingProducer(harness, "aborted")
        await committed.begin(10)
        await aborted.begin(20, 30)
        await committed.end(commit=True)
        await aborted.end(commit=False)
        await harness.restart()
        assert harness.offsets() == ({(TOPIC, 0): 10} if self.durable else {})
        assert [type(found) for found in harness.fetch(1, stable=True)] == [type(None)]
