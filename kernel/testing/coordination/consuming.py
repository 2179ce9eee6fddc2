"""Conformance: groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from trio.testing import MockClock

from tidelog.kernel.errors import (
    BrokerError,
    FencedMemberEpoch,
    GroupIdNotFound,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tidelog.kernel.seams.coordination.consumer_groups import DescribedPartitions
from tidelog.kernel.seams.coordination.groups import ListedGroup
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetFetch, OffsetToCommit
from tidelog.kernel.testing.coordination.consumer_members import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    ConsumerMember,
    ConsumerMembers,
)
from tidelog.kernel.testing.coordination.harness import GROUP, PARTITIONS, TOPIC, CoordinatorHarness

EVERYTHING = set(range(PARTITIONS))
LONGEST_SESSION_MS = 3_600_000


@pytest.mark.trio
class Consuming:
    """Members of consumer groups are assigned their partitions.

    Every test asks for `mock_clock` itself: only so does trio go by it.
    """

    durable: ClassVar[bool]

    @pytest.fixture
    def consumers(self, harness: CoordinatorHarness, mock_clock: MockClock) -> ConsumerMembers:
        """Return a group without members."""
        return ConsumerMembers(harness, mock_clock)

    async def test_consumer_group_heartbeat_of_the_only_member_gets_all_partitions(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        only = await consumers.join("only")
        assert only.epoch > 0
        assert only.interval_ms > 0
        await consumers.come_to_rest(only)
        assert only.partitions == EVERYTHING

    async def test_consumer_group_heartbeat_never_gives_a_partition_two_owners(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        members: list[ConsumerMember] = []
        for member_id in ("a", "b", "c"):
            members.append(await consumers.join(member_id))
            await consumers.come_to_rest(*members)
        assert all(len(member.partitions) == 1 for member in members)

    async def test_consumer_group_heartbeat_that_leaves_releases_partitions(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        stays, leaves = await consumers.join("stays"), await consumers.join("leaves")
        await consumers.come_to_rest(stays, leaves)
        answer = await consumers.send(leaves, LEAVE)
        assert answer.member_epoch == LEAVE
        await consumers.come_to_rest(stays)
        assert stays.partitions == EVERYTHING
        with pytest.raises(UnknownMemberId):
            await consumers.heartbeat(leaves)

    async def test_consumer_group_heartbeat_checks_the_member_epoch(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        member, other = await consumers.join("member"), await consumers.join("other")
        first = member.epoch
        await consumers.come_to_rest(member, other)
        for epoch in (member.epoch + 1, first):
            with pytest.raises(FencedMemberEpoch):
                await consumers.send(member, epoch)
        with pytest.raises(UnknownMemberId):
            await consumers.send(ConsumerMember("unknown"), member.epoch)
        await consumers.join_again(member)
        await consumers.come_to_rest(member, other)

    async def test_consumer_group_heartbeat_of_a_static_member_that_rejoins(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        stays, away = await consumers.join("stays"), await consumers.join("away", "instance")
        await consumers.come_to_rest(stays, away)
        with pytest.raises(UnreleasedInstanceId):
            await consumers.join("back", "instance")
        answer = await consumers.send(away, LEAVE_FOR_A_WHILE)
        assert answer.member_epoch == LEAVE_FOR_A_WHILE
        epoch = consumers.described().epoch
        back = await consumers.join("back", "instance")
        assert back.partitions == away.partitions
        assert consumers.described().epoch == epoch

    async def test_consumer_group_heartbeat_missing_for_the_session_timeout_removes_the_member(
        self, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        alive, silent = await consumers.join("alive"), await consumers.join("silent")
        await consumers.come_to_rest(alive, silent)
        for _ in range(LONGEST_SESSION_MS // alive.interval_ms):
            if len(consumers.described().members) == 1:
                break
            await consumers.time.passes(alive.interval_ms)
            await consumers.heartbeat(alive)
        with pytest.raises(UnknownMemberId):
            await consumers.heartbeat(silent)
        await consumers.come_to_rest(alive)
        assert alive.partitions == EVERYTHING

    async def test_consumer_group_describe_and_list_groups(
        self, harness: CoordinatorHarness, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        only = await consumers.join("only", "instance")
        await consumers.come_to_rest(only)
        group = consumers.described()
        assert (group.group_id, group.epoch, group.assignment_epoch) == (GROUP, only.epoch, only.epoch)
        assert group.assignor
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.member_epoch) == ("only", "instance", only.epoch)
        assert (member.client_id, member.client_host, member.is_classic) == ("client", "/127.0.0.1", False)
        assert list(member.topic_names) == [TOPIC]
        topic_id = harness.broker.topics.get(TOPIC).topic_id.bytes
        everything = [DescribedPartitions(topic_id, TOPIC, sorted(EVERYTHING))]
        assert list(member.assignment) == list(member.target) == everything
        listed = ListedGroup(GROUP, "consumer", "Stable", "consumer")
        assert list(harness.coordinator.groups.list()) == [listed]
        with pytest.raises(GroupIdNotFound):
            harness.coordinator.groups.describe(GROUP)

    async def test_delete_groups_of_a_consumer_group_only_without_members(
        self, harness: CoordinatorHarness, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        harness.commit(1)
        only = await consumers.join("only")
        (error,) = await harness.coordinator.groups.delete([GROUP])
        assert isinstance(error, NonEmptyGroup)
        await consumers.send(only, LEAVE)
        assert consumers.described().state == "Empty"
        assert list(await harness.coordinator.groups.delete([GROUP])) == [None]
        assert harness.offsets() == {}
        await harness.restart()
        assert not list(harness.coordinator.groups.list())

    async def test_offset_commit_and_offset_fetch_check_the_member_epoch(
        self, harness: CoordinatorHarness, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        only = await consumers.join("only")
        await consumers.come_to_rest(only)
        offsets = harness.coordinator.offsets
        to_commit = [OffsetToCommit(TOPIC, 0, 1)]
        refused: list[tuple[type[BrokerError], int, str]] = [
            (StaleMemberEpoch, only.epoch + 1, "only"),
            (UnknownMemberId, only.epoch, "unknown"),
        ]
        for error, epoch, member_id in refused:
            with pytest.raises(error):
                offsets.commit(OffsetCommit(GROUP, to_commit, epoch, member_id))
            with pytest.raises(error):
                offsets.fetch(OffsetFetch(GROUP, None, member_id=member_id, member_epoch=epoch))
        with pytest.raises(UnknownMemberId):
            offsets.commit(OffsetCommit(GROUP, to_commit))
        assert harness.offsets() == {}
        offsets.commit(OffsetCommit(GROUP, to_commit, only.epoch, "only"))
        assert harness.offsets() == {(TOPIC, 0): 1}
        assert offsets.fetch(OffsetFetch(GROUP, None, member_id="only", member_epoch=only.epoch))

    async def test_consumer_group_heartbeat_after_a_restart(
        self, harness: CoordinatorHarness, consumers: ConsumerMembers, mock_clock: MockClock
    ) -> None:
        members = [await consumers.join("a"), await consumers.join("b", "instance")]
        await consumers.come_to_rest(*members)
        before = consumers.described()
        await harness.restart()
        if not self.durable:
            assert not list(harness.coordinator.groups.list())
            for member in members:
                with pytest.raises((UnknownMemberId, GroupIdNotFound)):
                    await consumers.heartbeat(member)
            return
        after = consumers.described()
        assert sorted(after.members, key=lambda member: member.member_id) == sorted(
            before.members, key=lambda member: member.member_id
        )
        assert attrs.evolve(after, members=before.members) == before
        had = [(member.epoch, member.partitions) for member in members]
        await consumers.come_to_rest(*members)
        assert [(member.epoch, member.partitions) for member in members] == had
