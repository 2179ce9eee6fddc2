"""Conformance: offsets are deleted, by request and with their topic."""

from __future__ import annotations

import pytest
from trio.testing import wait_all_tasks_blocked

from tidelog.kernel.errors import GroupIdNotFound, InvalidGroupId, UnknownTopicOrPartition
from tidelog.kernel.testing.coordination.harness import GROUP, TOPIC, CoordinatorHarness
from tidelog.kernel.topics import NewTopic


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
        await harness.broker.topics.create(NewTopic("short-lived", 2))
        for group_id in ("one", "two"):
            harness.commit(1, 2, group_id=group_id, topic="short-lived")
            harness.commit(3, group_id=group_id)
        await harness.broker.topics.delete("short-lived")
        await wait_all_tasks_blocked()
        assert harness.offsets("one") == harness.offsets("two") == {(TOPIC, 0): 3}

    async def test_delete_topics_keeps_offsets_of_a_new_topic_of_the_same_name(
        self, harness: CoordinatorHarness
    ) -> None:
        await harness.broker.topics.create(NewTopic("phoenix"))
        harness.commit(1, topic="phoenix")
        await harness.broker.topics.delete("phoenix")
        await harness.broker.topics.create(NewTopic("phoenix"))
        harness.clock.advance(1)
        harness.commit(2, topic="phoenix")
        await wait_all_tasks_blocked()
        assert harness.offsets() == {("phoenix", 0): 2}
