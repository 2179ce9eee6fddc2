"""Conformance: offsets are committed and fetched."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
)
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing.coordination.scene import GROUP, PARTITIONS, TOPIC, CoordinatorScene


@pytest.mark.trio
class Committing:
    """Offsets of clients that are no members."""

    async def test_offset_commit_is_returned_by_offset_fetch(self, scene: CoordinatorScene) -> None:
        offsets = [OffsetToCommit(TOPIC, 1, 5, 3, "half way"), OffsetToCommit(TOPIC, 0, 2**62, metadata=None)]
        outcome = scene.coordinator.offsets.commit(OffsetCommit(GROUP, offsets))
        assert list(outcome.errors) == [None, None]
        now_ms = scene.clock.now_ms
        assert scene.fetch(0, 1, 2) == [
            CommittedOffset(2**62, commit_timestamp_ms=now_ms),
            CommittedOffset(5, 3, "half way", now_ms),
            None,
        ]

    async def test_offset_commit_replaces_an_earlier_one(self, scene: CoordinatorScene) -> None:
        for offset in (7, 3, 9, 0):
            scene.commit(offset)
            assert scene.offsets() == {(TOPIC, 0): offset}

    async def test_offset_fetch_of_a_group_without_offsets(self, scene: CoordinatorScene) -> None:
        assert scene.fetch(0, 1) == [None, None]
        assert scene.offsets() == {}

    async def test_offset_fetch_is_by_group(self, scene: CoordinatorScene) -> None:
        names = ["", "a", "group", "grüppe", "🦊", "x" * 1000, *(f"g{number}" for number in range(20))]
        for offset, group_id in enumerate(names):
            scene.commit(offset, group_id=group_id)
        for offset, group_id in enumerate(names):
            assert scene.offsets(group_id) == {(TOPIC, 0): offset}

    async def test_offset_commit_refuses_invalid_offsets_and_commits_the_rest(
        self, scene: CoordinatorScene
    ) -> None:
        offsets = [
            OffsetToCommit("nowhere", 0, 1),
            OffsetToCommit(TOPIC, PARTITIONS, 2),
            OffsetToCommit(TOPIC, -1, 3),
            OffsetToCommit(TOPIC, 0, 4),
            OffsetToCommit(TOPIC, 1, 5, metadata="x" * 4097),
            OffsetToCommit(TOPIC, 2, 6, metadata="é" * 4096),
        ]
        errors = scene.coordinator.offsets.commit(OffsetCommit(GROUP, offsets)).errors
        assert [type(error) for error in errors] == [
            *[UnknownTopicOrPartition] * 3,
            type(None),
            OffsetMetadataTooLarge,
            type(None),
        ]
        assert scene.offsets() == {(TOPIC, 0): 4, (TOPIC, 2): 6}

    async def test_offset_commit_of_a_member_of_an_unknown_group(self, scene: CoordinatorScene) -> None:
        offsets = [OffsetToCommit(TOPIC, 0, 1)]
        with pytest.raises(GroupIdNotFound):
            scene.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, 0, "member"))
        with pytest.raises(IllegalGeneration):
            scene.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, 0, "member", knows_epochs=False))
        assert scene.offsets() == {}
        assert not scene.coordinator.groups.list()

    async def test_offset_commit_with_a_commit_timestamp(self, scene: CoordinatorScene) -> None:
        offset = OffsetToCommit(TOPIC, 0, 1, commit_timestamp_ms=12345)
        scene.coordinator.offsets.commit(OffsetCommit(GROUP, [offset]))
        assert scene.fetch(0) == [CommittedOffset(1, commit_timestamp_ms=12345)]

    async def test_offset_commit_by_topic_id_keeps_the_id(self, scene: CoordinatorScene) -> None:
        topic_id = scene.broker.topics.get(TOPIC).topic_id.bytes
        scene.coordinator.offsets.commit(
            OffsetCommit(GROUP, [OffsetToCommit(TOPIC, 0, 1, topic_id=topic_id)])
        )
        (found,) = scene.fetch(0)
        assert isinstance(found, CommittedOffset)
        assert found.topic_id == topic_id

    async def test_offset_fetch_returns_a_duplicate_partition_twice(self, scene: CoordinatorScene) -> None:
        scene.commit(1, 2)
        fetched = scene.coordinator.offsets.fetch(
            OffsetFetch(GROUP, {TOPIC: [1, 1, 99], "nowhere": [0], "e": []})
        )
        assert {topic: list(found) for topic, found in fetched.items()} == {
            TOPIC: [1, 99],
            "nowhere": [0],
            "e": [],
        }
        assert fetched["nowhere"][0] is fetched[TOPIC][99] is None
