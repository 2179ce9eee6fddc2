"""Conformance: offsets are committed, fetched, and deleted by request and with their topic."""

from __future__ import annotations

import pytest
from trio.testing import wait_all_tasks_blocked

from tidelog.kernel.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    OffsetMetadataTooLarge,
    UnknownTopicOrPartition,
)
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.testing.coordination.harness import GROUP, PARTITIONS, TOPIC, CoordinatorHarness
from tidelog.kernel.testing.loop_turns import holds_the_loop


@pytest.mark.trio
class Committing:
    """Offsets of clients that are no members."""

    async def test_offset_commit_is_returned_by_offset_fetch(self, harness: CoordinatorHarness) -> None:
        offsets = [OffsetToCommit(TOPIC, 1, 5, 3, "half way"), OffsetToCommit(TOPIC, 0, 2**62, metadata=None)]
        outcome = harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets))
        assert list(outcome.errors) == [None, None]
        now_ms = harness.clock.now_ms
        topic_id = harness.broker.topics.get(TOPIC).topic_id.bytes
        assert harness.fetch(0, 1, 2) == [
            CommittedOffset(2**62, commit_timestamp_ms=now_ms, topic_id=topic_id),
            CommittedOffset(5, 3, "half way", now_ms, topic_id=topic_id),
            None,
        ]

    async def test_offset_commit_replaces_an_earlier_one(self, harness: CoordinatorHarness) -> None:
        for offset in (7, 3, 9, 0):
            harness.commit(offset)
            assert harness.offsets() == {(TOPIC, 0): offset}

    async def test_no_commit_blocks_the_event_loop(self, harness: CoordinatorHarness) -> None:
        assert not await holds_the_loop(lambda: harness.commit(7))

    async def test_offset_fetch_of_a_group_without_offsets(self, harness: CoordinatorHarness) -> None:
        assert harness.fetch(0, 1) == [None, None]
        assert harness.offsets() == {}

    async def test_offset_fetch_is_by_group(self, harness: CoordinatorHarness) -> None:
        names = ["", "a", "group", "grüppe", "🦊", "x" * 1000, *(f"g{number}" for number in range(20))]
        for offset, group_id in enumerate(names):
            harness.commit(offset, group_id=group_id)
        for offset, group_id in enumerate(names):
            assert harness.offsets(group_id) == {(TOPIC, 0): offset}

    async def test_offset_commit_refuses_invalid_offsets_and_commits_the_rest(
        self, harness: CoordinatorHarness
    ) -> None:
        offsets = [
            OffsetToCommit("nowhere", 0, 1),
            OffsetToCommit(TOPIC, PARTITIONS, 2),
            OffsetToCommit(TOPIC, -1, 3),
            OffsetToCommit(TOPIC, 0, 4),
            OffsetToCommit(TOPIC, 1, 5, metadata="x" * 4097),
            OffsetToCommit(TOPIC, 2, 6, metadata="é" * 4096),
        ]
        errors = harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets)).errors
        assert [type(error) for error in errors] == [
            *[UnknownTopicOrPartition] * 3,
            type(None),
            OffsetMetadataTooLarge,
            type(None),
        ]
        assert harness.offsets() == {(TOPIC, 0): 4, (TOPIC, 2): 6}

    async def test_offset_commit_of_a_member_of_an_unknown_group(self, harness: CoordinatorHarness) -> None:
        offsets = [OffsetToCommit(TOPIC, 0, 1)]
        with pytest.raises(GroupIdNotFound):
            harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, 0, "member"))
        with pytest.raises(IllegalGeneration):
            harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, 0, "member", knows_epochs=False))
        assert harness.offsets() == {}
        assert not list(harness.coordinator.groups.list())

    async def test_offset_commit_with_a_commit_timestamp(self, harness: CoordinatorHarness) -> None:
        offset = OffsetToCommit(TOPIC, 0, 1, commit_timestamp_ms=12345)
        harness.coordinator.offsets.commit(OffsetCommit(GROUP, [offset]))
        (found,) = harness.fetch(0)
        assert isinstance(found, CommittedOffset)
        assert found.commit_timestamp_ms == 12345

    async def test_offset_commit_keeps_the_topic_id_also_of_a_topic_that_is_named(
        self, harness: CoordinatorHarness
    ) -> None:
        topic_id = harness.broker.topics.get(TOPIC).topic_id.bytes
        for named_by in (topic_id, None):
            harness.coordinator.offsets.commit(
                OffsetCommit(GROUP, [OffsetToCommit(TOPIC, 0, 1, topic_id=named_by)])
            )
            (found,) = harness.fetch(0)
            assert isinstance(found, CommittedOffset)
            assert found.topic_id == topic_id

    async def test_offset_fetch_returns_a_duplicate_partition_twice(
        self, harness: CoordinatorHarness
    ) -> None:
        harness.commit(1, 2)
        fetched = harness.coordinator.offsets.fetch(
            OffsetFetch(GROUP, {TOPIC: [1, 1, 99], "nowhere": [0], "e": []})
        )
        assert {topic: list(found) for topic, found in fetched.items()} == {
            TOPIC: [1, 99],
            "nowhere": [0],
            "e": [],
        }
        assert fetched["nowhere"][0] is fetched[TOPIC][99] is None


@pytest.mark.trio
class Deleting:
    """OffsetDelete, and topics that go."""

    async def test_offset_delete_deletes_only_named_partitions(self, harness: CoordinatorHarness) -> None:
        harness.commit(1, 2, 3)
        outcome = harness.coordinator.offsets.delete(
            GROUP, [(TOPIC, 0), (TOPIC, 2), (TOPIC, 77), ("nowhere", 0)]
        )
        assert [type(error) for error in outcome.errors] == [*[type(None)] * 3, UnknownTopicOrPartition]
        assert harness.offsets() == {(TOPIC, 1): 2}

    async def test_offset_delete_of_an_unknown_group(self, harness: CoordinatorHarness) -> None:
        with pytest.raises(GroupIdNotFound):
            harness.coordinator.offsets.delete("missing", [(TOPIC, 0)])
        with pytest.raises(InvalidGroupId):
            harness.coordinator.offsets.delete("", [(TOPIC, 0)])

    async def test_delete_topics_deletes_committed_offsets(self, harness: CoordinatorHarness) -> None:
        await harness.broker.topics.create(TopicSpec("short-lived", 2))
        for group_id in ("one", "two"):
            harness.commit(1, 2, group_id=group_id, topic="short-lived")
            harness.commit(3, group_id=group_id)
        await harness.broker.topics.delete("short-lived")
        await wait_all_tasks_blocked()
        assert harness.offsets("one") == harness.offsets("two") == {(TOPIC, 0): 3}

    async def test_delete_topics_keeps_offsets_of_a_new_topic_of_the_same_name(
        self, harness: CoordinatorHarness
    ) -> None:
        await harness.broker.topics.create(TopicSpec("phoenix"))
        harness.commit(1, topic="phoenix")
        await harness.broker.topics.delete("phoenix")
        await harness.broker.topics.create(TopicSpec("phoenix"))
        harness.clock.advance(1)
        harness.commit(2, topic="phoenix")
        await wait_all_tasks_blocked()
        assert harness.offsets() == {("phoenix", 0): 2}
