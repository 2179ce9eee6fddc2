"""Conformance: what is remembered over a restart, and what not."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tidelog.kernel.errors import UnstableOffsetCommit
from tidelog.kernel.seams.coordination.offsets import CommittedOffset, OffsetCommit, OffsetToCommit
from tidelog.kernel.testing.coordination.expiring import MINUTE_MS, RETENTION_MS
from tidelog.kernel.testing.coordination.pending import Producer
from tidelog.kernel.testing.coordination.scene import GROUP, TOPIC, CoordinatorScene


@pytest.mark.trio
class Remembering:
    """A coordinator that is `durable` restores everything at a restart, any other starts empty."""

    durable: ClassVar[bool]

    async def test_offset_commit_survives_a_restart(self, scene: CoordinatorScene) -> None:
        groups = [f"group-{number}" for number in range(30)]
        for round_of in (1, 2):
            for number, group_id in enumerate(groups):
                scene.commit(*range(round_of * number, round_of * number + 3), group_id=group_id)
        for group_id in groups[:10]:
            scene.coordinator.offsets.delete(group_id, [(TOPIC, 0)])
        before = {group_id: scene.offsets(group_id) for group_id in groups}
        for _ in range(2):
            await scene.restart()
            after = {group_id: scene.offsets(group_id) for group_id in groups}
            assert after == (before if self.durable else {group_id: {} for group_id in groups})

    async def test_offset_commit_survives_a_restart_with_all_fields(self, scene: CoordinatorScene) -> None:
        topic_id = scene.broker.topics.get(TOPIC).topic_id.bytes
        offsets = [
            OffsetToCommit(TOPIC, 0, 5, 3, "half way", topic_id),
            OffsetToCommit(TOPIC, 1, 6, commit_timestamp_ms=12345),
        ]
        scene.coordinator.offsets.commit(OffsetCommit(GROUP, offsets))
        scene.commit(7, group_id="short", metadata="until then", retention_ms=MINUTE_MS)
        now_ms = scene.clock.now_ms
        await scene.restart()
        known = [
            CommittedOffset(5, 3, "half way", now_ms, -1, topic_id),
            CommittedOffset(6, commit_timestamp_ms=12345),
        ]
        assert scene.fetch(0, 1) == (known if self.durable else [None, None])
        expiring = CommittedOffset(7, -1, "until then", now_ms, now_ms + MINUTE_MS)
        assert scene.fetch(0, group_id="short") == [expiring if self.durable else None]

    async def test_expire_offsets_survives_a_restart(self, scene: CoordinatorScene) -> None:
        scene.commit(1)
        scene.clock.advance(RETENTION_MS)
        await scene.expire()
        await scene.restart()
        assert scene.offsets() == {}

    async def test_txn_offset_commit_of_an_open_transaction_survives_a_restart(
        self, scene: CoordinatorScene
    ) -> None:
        scene.commit(1, 2)
        producer = Producer(scene, "payments")
        await producer.begin(10, 20)
        scene.commit(3)
        await scene.restart()
        if not self.durable:
            assert scene.offsets() == {}
            return
        assert scene.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 2}
        assert isinstance(scene.fetch(1, stable=True)[0], UnstableOffsetCommit)
        await producer.end(commit=True)
        assert scene.offsets() == {(TOPIC, 0): 3, (TOPIC, 1): 20}

    async def test_txn_offset_commit_of_complete_transactions_survives_a_restart(
        self, scene: CoordinatorScene
    ) -> None:
        committed, aborted = Producer(scene, "committed"), Producer(scene, "aborted")
        await committed.begin(10)
        await aborted.begin(20, 30)
        await committed.end(commit=True)
        await aborted.end(commit=False)
        await scene.restart()
        assert scene.offsets() == ({(TOPIC, 0): 10} if self.durable else {})
        assert [type(found) for found in scene.fetch(1, stable=True)] == [type(None)]
