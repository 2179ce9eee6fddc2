"""A classic group on its way to the consumer protocol, and back."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.plugins.coordinator.classic_groups.machine import REBALANCE_MS, SESSION_MS
from tests.plugins.coordinator.classic_groups.world import World, new_world, partition_for, running_world
from tidelog.kernel.errors import RebalanceInProgress, UnknownMemberId
from tidelog.kernel.seams.coordination.offsets import OffsetCommit
from tidelog.plugins.coordinator.classic_groups.migration import MigratingGroups
from tidelog.plugins.coordinator.consumer_groups.migration import ClassicGroup, ClassicMember


@pytest.fixture
async def world() -> AsyncGenerator[World]:
    async with running_world() as world:
        yield world


async def test_a_snapshot_has_what_the_group_is(autojump_clock: MockClock, world: World) -> None:
    joined = await world.stable()
    member = ClassicMember(
        joined.member_id, None, "c", "/127.0.0.1", SESSION_MS, REBALANCE_MS, (("range", b"r"),), b"share"
    )
    groups = MigratingGroups(world.driver)
    assert groups.snapshot("g") == ClassicGroup("g", 1, "consumer", "range", (member,))
    assert groups.snapshot("none") is None
    assert groups.tombstones("none") == ()
    assert [value for _, value in groups.tombstones("g")] == [None]


async def test_a_simple_group_stays_one(autojump_clock: MockClock, world: World) -> None:
    world.guard.check_commit(OffsetCommit("g", []))
    assert MigratingGroups(world.driver).snapshot("g") is None


async def test_members_that_wait_are_told_to_join_again(autojump_clock: MockClock, world: World) -> None:
    joined = await world.stable()
    told: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_another_member, world, told)
        await wait_all_tasks_blocked()
        MigratingGroups(world.driver).displace("g")
    assert told == [True]
    assert world.groups.list() == []
    MigratingGroups(world.driver).displace("g")
    with pytest.raises(UnknownMemberId):
        world.groups.heartbeat("g", joined.member_id, 1)


async def wait_for_another_member(world: World, told: list[bool]) -> None:
    with pytest.raises(RebalanceInProgress):
        await world.join()
    told.append(True)


async def test_members_come_back_to_a_rebalance(autojump_clock: MockClock, world: World) -> None:
    protocols = (("range", b"r"), ("sticky", b"s"))
    members = tuple(
        ClassicMember(f"m{number}", None, "c", "/127.0.0.1", SESSION_MS, REBALANCE_MS, protocols, b"share")
        for number in range(2)
    )
    groups = MigratingGroups(world.driver)
    classic = ClassicGroup("g", 7, "consumer", None, members)
    (record,) = groups.records(classic)
    groups.adopt(classic)
    assert world.groups.describe("g").state == "PreparingRebalance"
    with pytest.raises(RebalanceInProgress):
        world.groups.heartbeat("g", "m0", 7)
    again = await world.join(member_id="m0")
    assert (again.generation, [member.member_id for member in again.members]) == (8, ["m0"])

    later = new_world()
    later.driver.replay(partition_for("g"), *record)
    described = later.groups.describe("g")
    assert (described.state, described.protocol_name) == ("Stable", "range")
    assert [member.assignment for member in described.members] == [b"share", b"share"]
