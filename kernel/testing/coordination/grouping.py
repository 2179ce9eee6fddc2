"""Conformance: groups of the classic protocol (KIP-62, KIP-345, KIP-394)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import ClassVar

import pytest
import trio
from trio.testing import MockClock

from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    MemberIdRequired,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import (
    GroupProtocol,
    JoinedMember,
    LeavingMember,
    ListedGroup,
)
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.kernel.testing.coordination.classic_members import RANGE, SESSION_MS, ClassicMembers
from tidelog.kernel.testing.coordination.expiring import RETENTION_MS
from tidelog.kernel.testing.coordination.harness import GROUP, TOPIC, CoordinatorHarness
from tidelog.kernel.testing.coordination.waiting import answers


@pytest.mark.trio
class Grouping:
    """Members of classic groups share their work out themselves.

    Every test asks for `mock_clock` itself: only so does trio go by it.
    """

    durable: ClassVar[bool]

    @pytest.fixture
    async def members(
        self, harness: CoordinatorHarness, mock_clock: MockClock
    ) -> AsyncGenerator[ClassicMembers]:
        """Yield a group without members."""
        async with trio.open_nursery() as nursery:
            yield ClassicMembers(harness, mock_clock, nursery)
            nursery.cancel_scope.cancel()

    async def test_join_group_of_a_new_member_uses_the_returned_member_id(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        request = await members.join(knows_member_id_required=True)
        with pytest.raises(MemberIdRequired) as required:
            _ = request.answer
        member_id = required.value.member_id
        (joined,) = await answers(members.time, await members.join(member_id, knows_member_id_required=True))
        assert joined.member_id == joined.leader == member_id
        assert (joined.generation, joined.protocol_type, joined.protocol_name) == (1, "consumer", "range")
        assert list(joined.members) == [JoinedMember(member_id, None, RANGE[0].metadata)]

    async def test_join_group_chooses_a_leader_and_a_common_protocol(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        likes = [
            [GroupProtocol("sticky", b"0"), GroupProtocol("range", b"1")],
            [GroupProtocol("range", b"2"), GroupProtocol("roundrobin", b"3")],
        ]
        first, second = await members.generation(2, protocols=likes)
        assert first.generation == second.generation
        assert first.protocol_name == second.protocol_name == "range"
        assert first.leader == second.leader
        leader, follower = (first, second) if first.leader == first.member_id else (second, first)
        assert {(member.member_id, member.metadata) for member in leader.members} == {
            (first.member_id, b"1"),
            (second.member_id, b"2"),
        }
        assert not follower.members

    async def test_sync_group_returns_the_assignment_of_the_leader(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        joined = await members.generation(3)
        leader = next(each for each in joined if each.leader == each.member_id)
        early, late = (each for each in joined if each is not leader)
        waiting = await members.sync(early)
        assert not waiting.answered
        leading = await members.sync(leader, {early.member_id: b"early", late.member_id: b"late"})
        synced = await answers(members.time, waiting, leading, await members.sync(late))
        assert [each.assignment for each in synced] == [b"early", b"", b"late"]

    async def test_sync_group_and_heartbeat_check_the_generation(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        (joined,) = await members.stable(1)
        members.heartbeat(joined)
        groups = members.groups
        with pytest.raises(UnknownMemberId):
            groups.heartbeat(GROUP, "unknown", joined.generation)
        with pytest.raises(UnknownMemberId):
            groups.heartbeat("missing", joined.member_id, joined.generation)
        for generation in (joined.generation - 1, joined.generation + 1):
            with pytest.raises(IllegalGeneration):
                groups.heartbeat(GROUP, joined.member_id, generation)

    async def test_join_group_of_a_new_member_triggers_a_rebalance(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        (old,) = await members.stable(1)
        new_member = await members.join()
        assert not new_member.answered
        with pytest.raises(RebalanceInProgress):
            members.heartbeat(old)
        joined = await answers(members.time, new_member, await members.join(old.member_id))
        assert {each.generation for each in joined} == {old.generation + 1}
        with pytest.raises(IllegalGeneration):
            members.heartbeat(old)
        shares = [synced.assignment for synced in await members.assign(joined)]
        assert shares == [b"share-0", b"share-1"]

    async def test_join_group_of_a_static_member_keeps_its_assignment(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        _, away = await members.stable(2, named=True)
        name = "instance-1"
        (back,) = await answers(members.time, await members.join(instance=name))
        assert back.generation == away.generation
        assert back.member_id != away.member_id
        (synced,) = await answers(members.time, await members.sync(back, group_instance_id=name))
        assert synced.assignment == b"share-1"
        with pytest.raises(FencedInstanceId):
            members.heartbeat(away, name)

    async def test_leave_group_removes_the_member_immediately(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        stays, leaves = await members.stable(2)
        leaving = [LeavingMember("unknown"), LeavingMember(leaves.member_id)]
        outcomes = await members.groups.leave(GROUP, leaving)
        assert [outcome.member for outcome in outcomes] == leaving
        assert [type(outcome.error) for outcome in outcomes] == [UnknownMemberId, type(None)]
        with pytest.raises(UnknownMemberId):
            members.heartbeat(leaves)
        with pytest.raises(RebalanceInProgress):
            members.heartbeat(stays)

    async def test_heartbeat_missing_for_the_session_timeout_removes_the_member(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        alive, silent = await members.stable(2)
        await members.time.passes(SESSION_MS // 2)
        members.heartbeat(alive)
        await members.time.passes(SESSION_MS // 2 - 1)
        members.heartbeat(alive)
        await members.time.passes(2)
        with pytest.raises(UnknownMemberId):
            members.heartbeat(silent)
        with pytest.raises(RebalanceInProgress):
            members.heartbeat(alive)

    async def test_describe_groups_and_list_groups(
        self, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        (joined,) = await members.stable(1, named=True)
        group = members.groups.describe(GROUP)
        assert (group.state, group.protocol_type, group.protocol_name) == ("Stable", "consumer", "range")
        (member,) = group.members
        assert (member.member_id, member.group_instance_id) == (joined.member_id, "instance-0")
        assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
        assert (member.metadata, member.assignment) == (RANGE[0].metadata, b"share-0")
        listed = [ListedGroup(GROUP, "consumer", "Stable", "classic")]
        assert list(members.groups.list()) == listed
        with pytest.raises(GroupIdNotFound):
            members.groups.describe("missing")

    async def test_delete_groups_only_without_members(
        self, harness: CoordinatorHarness, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        harness.commit(1)
        (joined,) = await members.stable(1)
        errors = await members.groups.delete([GROUP, "missing"])
        assert [type(error) for error in errors] == [NonEmptyGroup, GroupIdNotFound]
        await members.groups.leave(GROUP, [LeavingMember(joined.member_id)])
        assert members.groups.describe(GROUP).state == "Empty"
        assert list(await members.groups.delete([GROUP])) == [None]
        assert harness.offsets() == {}
        await harness.restart()
        assert not list(members.groups.list())

    async def test_offset_commit_checks_the_generation(
        self, harness: CoordinatorHarness, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        (joined,) = await members.stable(1)
        refused: list[tuple[type[BrokerError], int, str]] = [
            (UnknownMemberId, joined.generation, "unknown"),
            (UnknownMemberId, -1, ""),
            (IllegalGeneration, joined.generation - 1, joined.member_id),
            (IllegalGeneration, joined.generation + 1, joined.member_id),
        ]
        offsets = [OffsetToCommit(TOPIC, 0, 1)]
        for error, generation, member_id in refused:
            with pytest.raises(error):
                harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, generation, member_id))
        assert harness.offsets() == {}
        harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, joined.generation, joined.member_id))
        assert harness.offsets() == {(TOPIC, 0): 1}

    async def test_expire_offsets_of_a_group_after_its_last_member_has_left(
        self, harness: CoordinatorHarness, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        (joined,) = await members.stable(1)
        offsets = [OffsetToCommit(TOPIC, 0, 1)]
        harness.coordinator.offsets.commit(OffsetCommit(GROUP, offsets, joined.generation, joined.member_id))
        harness.clock.advance(2 * RETENTION_MS)
        await harness.expire()
        assert harness.offsets() == {(TOPIC, 0): 1}
        await members.groups.leave(GROUP, [LeavingMember(joined.member_id)])
        harness.clock.advance(RETENTION_MS - 1)
        await harness.expire()
        assert harness.offsets() == {(TOPIC, 0): 1}
        harness.clock.advance(1)
        await harness.expire()
        assert harness.offsets() == {}

    async def test_heartbeat_after_a_restart(
        self, harness: CoordinatorHarness, members: ClassicMembers, mock_clock: MockClock
    ) -> None:
        joined = await members.stable(2)
        before = members.groups.describe(GROUP)
        await harness.restart()
        if not self.durable:
            assert not list(members.groups.list())
            with pytest.raises(UnknownMemberId):
                members.heartbeat(joined[0])
            return
        assert members.groups.describe(GROUP) == before
        for each in joined:
            members.heartbeat(each)
        synced = await answers(members.time, *[await members.sync(each) for each in joined])
        assert [each.assignment for each in synced] == [b"share-0", b"share-1"]
