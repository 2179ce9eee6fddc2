"""Changes of a consumer group are decided in turn, with other requests served between their steps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.deadlines import DEADLINE_S
from tests.plugins.coordinator.consumer_groups.driver import SETTINGS
from tests.plugins.coordinator.consumer_groups.test_large_groups import (
    Member,
    check_assigned,
    coordinator_of,
)
from tests.plugins.coordinator.consumer_groups.test_service import ConsumerGroupCoordinator
from tidelog.kernel import pace
from tidelog.kernel.errors import BrokerError, CoordinatorLoadInProgress, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import LeavingMember
from tidelog.plugins.coordinator.consumer_groups import registered_consumer_group
from tidelog.plugins.coordinator.consumer_groups.timers import Timer

TOPICS = 100
NAMES = frozenset(f"t{number:05}" for number in range(TOPICS))
FEWER = NAMES - {"t00000"}


@pytest.fixture(autouse=True)
def _shortest_steps(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Each piece of work is a step of its own."""
    monkeypatch.setattr(pace, "STEP_SECONDS", 0)


def check_no_partition_has_two_owners(members: list[Member]) -> None:
    """What members own is disjoint, at any time."""
    owned = [(topic, number) for each in members for topic, found in each.owned.items() for number in found]
    assert len(owned) == len(set(owned))


async def begun() -> None:
    """Wait until tasks have begun to decide, and are far from its end."""
    for _ in range(3):
        await trio.lowlevel.checkpoint()


async def keep_beating(coordinator: ConsumerGroupCoordinator, member: Member, members: list[Member]) -> None:
    """Send heartbeats until all members have settled in one epoch."""
    while True:
        await member.beat(coordinator)
        check_no_partition_has_two_owners(members)
        group = coordinator.base.registry.get("g")
        if (
            isinstance(group, registered_consumer_group.RegisteredConsumerGroup)
            and len(group.state.members) == len(members)
            and group.state.state == "Stable"
        ):
            return
        await trio.lowlevel.checkpoint()


async def test_heartbeats_of_one_group_at_the_same_time() -> None:
    """Heartbeats whose steps take turns lead to what they lead to one after the other."""
    members = [
        Member(f"m{place}", frozenset(name for name in NAMES if int(name[1:]) % 10 != place))
        for place in range(4)
    ]
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as tasks, trio.open_nursery() as nursery:
            coordinator = coordinator_of(tasks, TOPICS, 3)
            for member in members:
                nursery.start_soon(keep_beating, coordinator, member, members)
    check_assigned(coordinator, members)


async def test_a_member_whose_heartbeat_waits_for_its_turn_is_not_expired(
    autojump_clock: MockClock,
) -> None:
    """The session is over while the heartbeat of another member is decided; the own came in time."""
    async with trio.open_nursery() as tasks:
        coordinator = coordinator_of(tasks, TOPICS, 3)
        await coordinator.join("a", topic_names=NAMES)
        group = coordinator.base.registry.get("g")
        assert isinstance(group, registered_consumer_group.RegisteredConsumerGroup)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: coordinator.join("b", topic_names=NAMES))
            nursery.start_soon(lambda: coordinator.heartbeat("a", 1, topic_names=FEWER))
            await begun()
            timers = group._timers  # pyright: ignore[reportPrivateUsage]
            timers._expired("a", Timer.SESSION)  # pyright: ignore[reportPrivateUsage]
        await trio.sleep(SETTINGS.session_timeout_ms / 2000)
        assert sorted(group.state.members) == ["a", "b"]


async def test_a_group_that_is_removed_while_a_heartbeat_is_decided() -> None:
    """The member is sent to try again, and joins what is there then."""
    async with trio.open_nursery() as tasks:
        coordinator = coordinator_of(tasks, TOPICS, 3)
        await coordinator.join("a", topic_names=NAMES)
        refused: list[BrokerError] = []

        async def join() -> None:
            try:
                await coordinator.join("b", topic_names=NAMES)
            except BrokerError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join)
            await begun()
            coordinator.base.registry.remove(coordinator.base.registry.get("g"), UnknownMemberId("gone"))
        assert isinstance(refused[0], CoordinatorLoadInProgress)
        assert (await coordinator.join("b", topic_names=NAMES)).member_epoch == 1
    assert coordinator.members == ["b"]


async def test_members_that_leave_together_while_another_joins() -> None:
    async with trio.open_nursery() as tasks:
        coordinator = coordinator_of(tasks, TOPICS, 3)
        for name in "abc":
            await coordinator.join(name, topic_names=NAMES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: coordinator.join("d", topic_names=NAMES))
            nursery.start_soon(coordinator.base.groups.leave, "g", [LeavingMember("a"), LeavingMember("c")])
            nursery.start_soon(lambda: coordinator.heartbeat("b", -1))
    assert coordinator.members == ["d"]
