"""Classic groups that are created, restored, and that consumer groups become."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.plugins.coordinator.classic_groups.driver import REBALANCE_MS, SESSION_MS
from tests.plugins.coordinator.groups.group_coordinator import (
    GroupCoordinator,
    new_coordinator,
    partition_for,
    running_coordinator,
)
from tidelog.kernel.errors import RebalanceInProgress, UnknownMemberId
from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange


@pytest.fixture
async def coordinator() -> AsyncGenerator[GroupCoordinator]:
    async with running_coordinator() as coordinator:
        yield coordinator


async def test_remove_has_members_that_wait_join_again(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    joined = await coordinator.stable()
    group = coordinator.group()
    refused: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_another_member, coordinator, refused)
        await wait_all_tasks_blocked()
        coordinator.registry.remove(group, RebalanceInProgress("the group changes its protocol"))
    assert refused == [True]
    assert list(coordinator.groups.list()) == []
    coordinator.registry.remove(group, RebalanceInProgress("again"))
    with pytest.raises(UnknownMemberId):
        coordinator.groups.heartbeat("g", joined.member_id, 1)


async def wait_for_another_member(coordinator: GroupCoordinator, refused: list[bool]) -> None:
    with pytest.raises(RebalanceInProgress):
        await coordinator.join()
    refused.append(True)


async def test_adopt_has_members_rejoin(autojump_clock: MockClock, coordinator: GroupCoordinator) -> None:
    group = ClassicGroup("g", coordinator.classic.context.settings)
    for number in range(2):
        protocols = {"range": b"r", "sticky": b"s"}
        member = ClassicGroupMember(
            f"m{number}", None, "c", "/127.0.0.1", SESSION_MS, REBALANCE_MS, protocols, b"share"
        )
        group.add(member, "consumer")
    group.restore(7, "consumer", group.members.select_protocol())
    (record,) = run_to_end(coordinator.classic.records(group))
    coordinator.classic.adopt(group)
    assert coordinator.groups.describe("g").state == "PreparingRebalance"
    with pytest.raises(RebalanceInProgress):
        coordinator.groups.heartbeat("g", "m0", 7)
    again = await coordinator.join(member_id="m0")
    assert (again.generation, [member.member_id for member in again.members]) == (8, ["m0"])

    later = new_coordinator()
    run_to_end(later.classic.replay(partition_for("g"), *record))
    described = later.groups.describe("g")
    assert (described.state, described.protocol_name) == ("Stable", "range")
    assert [member.assignment for member in described.members] == [b"share", b"share"]


async def test_replay_of_a_tombstone_removes_a_classic_group(
    autojump_clock: MockClock, coordinator: GroupCoordinator
) -> None:
    await coordinator.stable()
    run_to_end(coordinator.classic.replay(partition_for("g"), *GenerationChange("g", None).to_record()))
    assert coordinator.registry.find("g") is None
    run_to_end(coordinator.classic.replay(partition_for("g"), *GenerationChange("g", None).to_record()))
