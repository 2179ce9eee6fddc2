"""A large classic group holds no one up: it is written, answered and read back in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from tests.plugins.coordinator.classic_groups.driver import CONSUMER
from tests.plugins.coordinator.groups.group_coordinator import GroupCoordinator, new_coordinator
from tidelog.kernel.errors import RebalanceInProgress
from tidelog.kernel.pace import ITEMS_PER_STEP, run_in_steps
from tidelog.kernel.seams.coordination.groups import Joined, LeavingMember, Synced
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange
from tidelog.plugins.coordinator.classic_groups.settings import GroupSettings
from tidelog.plugins.coordinator.classic_groups.states import GroupState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import pytest

MEMBERS = 2_000
SHARE = b"a share of thirty bytes or so."
SPAWNED_AT_ONCE = 100

T = TypeVar("T")


class Members:
    """The members of one group, each of whose requests is a task of its own."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.coordinator: GroupCoordinator = new_coordinator()
        self.joined: list[Joined] = []
        self.synced: list[Synced] = []
        self.refused = 0
        self._nursery = nursery

    def state(self) -> GroupState:
        """The state of the group."""
        return self.coordinator.classic_group().group.state

    @property
    def leader(self) -> Joined:
        """What the leader was answered."""
        return next(joined for joined in self.joined if joined.members)

    async def join_all(self, member_ids: Iterable[str]) -> None:
        """Let them join; return when all are answered or wait."""
        self.joined = []
        await self._each(self._join, member_ids)

    async def begin(self) -> None:
        """Begin the first generation: its delay is over."""
        group = self.coordinator.classic_group().group
        now_ms = self.coordinator.runtime.deadlines.now_ms()
        while group.state is GroupState.PREPARING_REBALANCE:
            await trio.lowlevel.checkpoint()
            now_ms += group.settings.initial_rebalance_delay_ms
            for reply, outcome in group.handle_deadlines(now_ms).answers:
                reply.set(outcome)
        await wait_all_tasks_blocked()

    async def sync_all(self) -> None:
        """Let all that joined sync, the leader last."""
        self.synced = []
        await self._each(self.sync, sorted(self.joined, key=lambda joined: bool(joined.members)))

    async def sync(self, joined: Joined) -> None:
        """Let one sync; the leader has a share for each."""
        shares = {member.member_id: SHARE for member in joined.members}
        await trio.lowlevel.checkpoint()
        try:
            self.synced.append(await self.coordinator.sync(joined, shares))
        except RebalanceInProgress:
            self.refused += 1

    async def leave_all(self) -> None:
        """Let all that joined leave with one request."""
        leaving = [LeavingMember(joined.member_id) for joined in self.joined]
        await trio.lowlevel.checkpoint()
        await self.coordinator.classic_group().classic_leave(leaving)

    async def _join(self, member_id: str) -> None:
        self.joined.append(await self.coordinator.join(member_id=member_id))

    async def _each(self, act: Callable[[T], Awaitable[None]], each: Iterable[T]) -> None:
        for place, one in enumerate(each):
            self._nursery.start_soon(act, one)
            if place % SPAWNED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()


async def test_a_large_group_joins_syncs_rejoins_and_leaves() -> None:
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * MEMBERS)
        await members.begin()
        await members.sync_all()
        # The leader's JoinGroup begins another generation, which the last one completes.
        leader = members.leader.member_id
        await members.join_all(sorted((joined.member_id for joined in members.joined), key=leader.__ne__))
        await members.sync_all()
        assert members.state() is GroupState.STABLE
        await members.leave_all()
    assert members.state() is GroupState.EMPTY
    assert [synced.assignment for synced in members.synced] == [SHARE] * MEMBERS


async def test_an_assignment_of_many_members_is_written_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * MEMBERS)
        await members.begin()
        nursery.start_soon(members.sync, members.leader)
        passes = 0
        while not members.coordinator.log.batches:
            await trio.lowlevel.checkpoint()
            passes += 1
    # The messages are made in steps, and encoded in others.
    assert passes > MEMBERS / ITEMS_PER_STEP


async def test_a_large_group_is_read_back() -> None:
    group = ClassicGroup("g", GroupSettings(str))
    for number in range(MEMBERS):
        member = ClassicGroupMember(f"m{number}", None, "client", "/127.0.0.1", 1, 1, {"range": SHARE}, SHARE)
        group.add(member, CONSUMER)
    group.restore(1, CONSUMER, "range")
    record = GenerationChange.of(group, 1).to_record()
    coordinator = new_coordinator()
    await run_in_steps(coordinator.classic.replay(0, *record))
    assert coordinator.classic_group().group.snapshot() == group.snapshot()


async def test_an_assignment_of_many_members_is_dropped_if_a_rebalance_begins_while_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * 100)
        await members.begin()
        leader, other = members.leader, next(joined for joined in members.joined if not joined.members)
        nursery.start_soon(members.sync, leader)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert members.state() is GroupState.COMPLETING_REBALANCE
        await members.coordinator.classic_group().classic_leave([LeavingMember(other.member_id)])
    assert (members.refused, members.synced) == (1, [])
    assert members.state() is GroupState.PREPARING_REBALANCE
    assert members.coordinator.log.batches == []


async def test_an_assignment_of_many_members_is_in_the_log_as_that_of_few() -> None:
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * 100)
        await members.begin()
        await members.sync_all()
    ((_, (record,)),) = members.coordinator.log.batches
    group = members.coordinator.classic_group()
    assert group.state_timestamp_ms is not None
    assert record == GenerationChange.of(group.group, group.state_timestamp_ms).to_record()


async def test_a_leader_that_asks_again_while_its_assignment_is_written_is_answered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It had lost its connection: the second request has the assignment, which is written once."""
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * 100)
        await members.begin()
        nursery.start_soon(members.sync, members.leader)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        nursery.start_soon(members.sync, members.leader)
    assert (members.refused, [synced.assignment for synced in members.synced]) == (1, [SHARE])
    assert members.state() is GroupState.STABLE
    assert len(members.coordinator.log.batches) == 1


async def test_an_assignment_of_many_members_is_written_although_its_leader_has_left_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All others had sent SyncGroup, and no deadline would have ended their waiting."""
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    async with trio.open_nursery() as nursery:
        members = Members(nursery)
        await members.join_all([""] * 100)
        await members.begin()
        for joined in members.joined:
            if joined is not members.leader:
                nursery.start_soon(members.sync, joined)
        await wait_all_tasks_blocked()
        with trio.CancelScope() as leaves:
            async with trio.open_nursery() as connection:
                connection.start_soon(members.sync, members.leader)
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
                assert members.state() is GroupState.COMPLETING_REBALANCE
                leaves.cancel()
        await wait_all_tasks_blocked()
        state = members.state()
        nursery.cancel_scope.cancel()
    assert state is GroupState.STABLE
    assert [synced.assignment for synced in members.synced] == [SHARE] * 100
