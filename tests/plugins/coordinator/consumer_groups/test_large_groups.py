"""Large groups hold no one up: their assignment is computed, written and handed over in short steps."""

from __future__ import annotations

import gc
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.bad_input.groups_requests import subscription
from tests.deadlines import DEADLINE_S
from tests.longest_step import longest_step
from tests.plugins.coordinator.consumer_groups.driver import FakeTopics
from tests.plugins.coordinator.consumer_groups.test_service import (
    ConsumerGroupCoordinator,
    Nursery,
    new_consumer_coordinator,
)
from tests.plugins.coordinator.groups.group_coordinator import partition_for
from tidelog.kernel.errors import CoordinatorLoadInProgress, RebalanceInProgress, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import LeavingMember
from tidelog.plugins.coordinator.assignors import UniformAssignor
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import RegisteredClassicGroup
from tidelog.plugins.coordinator.consumer_groups.assigning import LARGE
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import MemberProfile
from tidelog.plugins.coordinator.consumer_groups.registered_consumer_group import RegisteredConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.settings import SettingsOfGroups
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    write_assignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.seams.coordination.assignors import GroupSpec, PartitionsByTopic
    from tidelog.kernel.seams.coordination.consumer_groups import HeartbeatAnswer

HELD_MS = 50.0
TRIES = 3
SILENT_MEMBERS = 10_000


class Unhurried:
    """An assignor of a plugin, which knows no steps."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Assign as `uniform`."""
        return UniformAssignor().assign(group)


@attrs.define
class Member:
    """A member that owns what it was told to own."""

    member_id: str
    topics: frozenset[str]
    epoch: int = 0
    owned: PartitionsByTopic = attrs.field(factory=dict[bytes, frozenset[int]])

    def learn(self, answer: HeartbeatAnswer) -> None:
        """Revoke and take what the answer says."""
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment

    async def beat(self, coordinator: ConsumerGroupCoordinator) -> None:
        """Join, or report what it owns."""
        if not self.epoch:
            self.learn(await coordinator.join(self.member_id, topic_names=self.topics))
        else:
            self.learn(await coordinator.heartbeat(self.member_id, self.epoch, owned=self.owned))


def coordinator_of(nursery: trio.Nursery, topics: int, partitions: int) -> ConsumerGroupCoordinator:
    """A coordinator with so many topics."""
    names = {f"t{number:05}": partitions for number in range(topics)}
    return new_consumer_coordinator(FakeTopics(**names), Nursery(nursery))


def change_settings(coordinator: ConsumerGroupCoordinator, **changes: object) -> None:
    """Configure the broker otherwise."""
    of_broker = attrs.evolve(coordinator.shared.settings.of_broker, **changes)  # type: ignore[arg-type]
    settings = SettingsOfGroups(of_broker, coordinator.shared.settings.configs)
    coordinator.shared = attrs.evolve(coordinator.shared, settings=settings)
    coordinator.service = type(coordinator.service)(coordinator.shared)


async def settle(coordinator: ConsumerGroupCoordinator, members: list[Member]) -> None:
    """Have the members send heartbeats until the group is stable."""
    with trio.fail_after(DEADLINE_S):
        while True:
            for member in members:
                await member.beat(coordinator)
                await trio.lowlevel.checkpoint()
            group = coordinator.base.registry.get("g")
            if isinstance(group, RegisteredConsumerGroup) and group.state.state == "Stable":
                return


def check_assigned(coordinator: ConsumerGroupCoordinator, members: list[Member]) -> None:
    """Every partition has one owner, which subscribes to its topic; all have as many but for one."""
    owned = [(topic, number) for each in members for topic, found in each.owned.items() for number in found]
    names = set[str]().union(*(each.topics for each in members))
    entries = [coordinator.topics.by_name(name) for name in names]
    assert len(owned) == len(set(owned)) == sum(entry.partitions for entry in entries if entry)
    sizes = [sum(map(len, each.owned.values())) for each in members]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("topics", "partitions", "members"),
    [(2_000, 10, 2), (2_000, 25, 10), (500, 100, 50)],
    ids=["as many topics", "as many partitions", "members"],
)
async def test_a_group_with_other_subscriptions_is_assigned_in_short_steps(
    topics: int, partitions: int, members: int
) -> None:
    """Two members whose subscriptions differ by 2 % took seconds in one step."""
    held = float("inf")
    for _ in range(TRIES):
        async with trio.open_nursery() as nursery:
            coordinator = coordinator_of(nursery, topics, partitions)
            names = [f"t{number:05}" for number in range(topics)]
            joining = [
                Member(f"m{place}", frozenset(name for at, name in enumerate(names) if at % 100 != place))
                for place in range(members)
            ]
            gc.disable()  # what it takes depends on all that other tests have left
            with longest_step() as longest:
                await settle(coordinator, joining)
                joining += [Member("late", frozenset(names))]
                await joining[-1].beat(coordinator)
                await settle(coordinator, joining)
            gc.enable()
        check_assigned(coordinator, joining)
        held = min(held, longest.ms)
        if held < HELD_MS:
            break
    assert held < HELD_MS


async def test_a_member_of_a_large_group_gets_its_assignment_with_a_later_heartbeat() -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        answer = await coordinator.join("m", topic_names=frozenset(("t00000",)))
        assert (answer.member_epoch, answer.assignment) == (1, {})
        assert coordinator.described().state == "Assigning"
    answer = await coordinator.heartbeat("m", 1, owned={})
    assert answer.member_epoch == 2
    assert answer.assignment is not None
    (assigned,) = answer.assignment.values()
    assert len(assigned) == LARGE + 1


@pytest.mark.parametrize("instance_id", [None, "instance"])
async def test_a_heartbeat_waits_for_the_assignment_if_offloading_is_disabled(
    instance_id: str | None,
) -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        change_settings(coordinator, assignor_offload=False)
        answer = await coordinator.join("m", topic_names=frozenset(("t00000",)), instance_id=instance_id)
    assert answer.member_epoch == 2
    assert answer.assignment is not None
    assert [len(numbers) for numbers in answer.assignment.values()] == [LARGE + 1]


async def test_an_assignor_without_steps_assigns_a_large_group_in_a_thread() -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        change_settings(coordinator, assignors={"uniform": Unhurried()})
        member = Member("m", frozenset(("t00000",)))
        await member.beat(coordinator)
        await settle(coordinator, [member])
        check_assigned(coordinator, [member])


async def test_members_that_come_and_go_while_a_large_group_is_assigned() -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        members = [Member(f"m{number}", frozenset(("t00000",))) for number in range(3)]
        await members[0].beat(coordinator)
        await members[1].beat(coordinator)
        await coordinator.heartbeat("m0", -1)
        await members[2].beat(coordinator)
        await settle(coordinator, members[1:])
        check_assigned(coordinator, members[1:])


class Held(Unhurried):
    """An assignor that waits in its thread until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Assign as `uniform` once it is released."""
        self.released.wait(DEADLINE_S)
        return super().assign(group)


async def test_an_assignment_counts_for_the_epoch_in_which_it_was_begun() -> None:
    """A member that joins while it is computed has no part in it: it is due again."""
    held = Held()
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        change_settings(coordinator, assignors={"uniform": held})
        names = frozenset(("t00000",))
        await coordinator.join("m", topic_names=names)
        group = coordinator.base.registry.get("g")
        assert isinstance(group, RegisteredConsumerGroup)
        done = group.assign_if_due()
        assert done is not None
        await wait_all_tasks_blocked()
        begun_in = group.state.epoch
        await coordinator.join("late", topic_names=names)
        held.released.set()
        with trio.fail_after(DEADLINE_S):
            await done.wait()
        assert group.state.assignment_epoch == begun_in < group.state.epoch
        assert group.state.targets.keys() == {"m"}


async def test_a_static_member_that_is_replaced_while_a_group_is_assigned_has_the_new_target() -> None:
    """The target of the member that it replaced is its own: the next assignment may not be due for long."""
    held = Held()
    held.released.set()
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        change_settings(coordinator, assignors={"uniform": held})
        names = frozenset(("t00000",))
        await coordinator.join("old", topic_names=names, instance_id="i")
        group = coordinator.base.registry.get("g")
        assert isinstance(group, RegisteredConsumerGroup)
        await wait_all_tasks_blocked()
        with trio.fail_after(DEADLINE_S):
            while group.is_being_assigned:
                await trio.lowlevel.checkpoint()
        held.released.clear()
        await coordinator.join("other", topic_names=names)
        done = group.assign_if_due()
        assert done is not None
        await wait_all_tasks_blocked()
        await coordinator.heartbeat("old", -2, instance_id="i")
        for member_id in ("newer", "newest"):
            await coordinator.join(member_id, topic_names=names, instance_id="i")
            if member_id == "newer":
                await coordinator.heartbeat(member_id, -2, instance_id="i")
        held.released.set()
        with trio.fail_after(DEADLINE_S):
            await done.wait()
        assert group.state.assignment_epoch == group.state.epoch
        assert group.state.targets.keys() == {"newest", "other"}
        ((first,), (second,)) = (target.values() for target in group.state.targets.values())
        assert (len(first & second), len(first | second)) == (0, LARGE + 1)


async def test_a_classic_join_whose_client_leaves_during_the_flush_begins_the_assignment() -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        member = Member("m", frozenset(("t00000",)))
        await settle(coordinator, [member])
        group = coordinator.base.registry.get("g")
        assert isinstance(group, RegisteredConsumerGroup)
        coordinator.base.log.flush_due = True
        with trio.CancelScope() as client:
            nursery.start_soon(cancel_when_all_wait, client)
            await coordinator.classic_join(subscription("t00000"))
        assert client.cancelled_caught
        coordinator.base.log.flushed.set()
        await wait_all_tasks_blocked()
    assert group.state.targets.keys() == {"m", "old"}


async def cancel_when_all_wait(scope: trio.CancelScope) -> None:
    """Cancel once no task can continue."""
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_a_large_group_of_classic_members_is_assigned_after_one_has_left() -> None:
    """They have no heartbeats of the consumer protocol, which would begin it."""
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        change_settings(coordinator, downgrades=False)
        await settle(coordinator, [Member("m", frozenset(("t00000",)))])
        generation = (await coordinator.classic_join(subscription("t00000"))).generation
        await wait_all_tasks_blocked()
        await coordinator.heartbeat("m", -1)
        group = coordinator.base.registry.get("g")
        assert isinstance(group, RegisteredConsumerGroup)
        assert group.state.assignment_epoch < group.state.epoch
        with suppress(RebalanceInProgress):
            coordinator.base.groups.heartbeat("g", "old", generation)
    assert group.state.assignment_epoch == group.state.epoch
    assert group.state.targets.keys() == {"old"}


async def test_an_assignment_of_a_group_that_is_gone_is_dropped() -> None:
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE + 1)
        await coordinator.join("m", topic_names=frozenset(("t00000",)))
        group = coordinator.base.registry.get("g")
        coordinator.base.registry.remove(group, UnknownMemberId("gone"))
    assert coordinator.base.registry.find("g") is None


def classic_group_of(coordinator: ConsumerGroupCoordinator, members: int) -> RegisteredClassicGroup:
    """A classic group of so many consumers, each with a partition of its own."""
    context = coordinator.base.classic.context
    group = ClassicGroup("g", context.settings)
    for number in range(members):
        given = [TopicPartitions(topic="t00000", partitions=[number])]
        share = write_assignment(ConsumerProtocolAssignment(assigned_partitions=given), 0)
        protocols = {"range": subscription("t00000")}
        group.add(ClassicGroupMember(f"c{number}", None, "", "", 9999, 9999, protocols, share), "consumer")
    group.restore(7, "consumer", "range")
    registered = RegisteredClassicGroup(group, partition_for("g"), context)
    coordinator.base.registry.put(registered)
    return registered


async def test_a_large_classic_group_becomes_a_consumer_group_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3,000 members, as many as fit into a batch, took half a second in one step."""
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    passes = 0

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE)
        classic_group_of(coordinator, LARGE)
        nursery.start_soon(count_passes)
        await coordinator.join("new", topic_names=frozenset(("t00000",)))
        assert passes > 3 * LARGE
        assert len(coordinator.members) == LARGE + 1
        nursery.cancel_scope.cancel()


async def join_noting_refusal(
    coordinator: ConsumerGroupCoordinator, member_id: str, refused: list[str]
) -> None:
    """Join by the consumer protocol, and note a member that has to try again."""
    try:
        await coordinator.join(member_id, topic_names=frozenset(("t00000",)))
    except CoordinatorLoadInProgress:
        refused.append(member_id)


async def test_a_classic_group_that_changes_while_it_is_upgraded_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    refused: list[str] = []
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE)
        group = classic_group_of(coordinator, LARGE)
        async with trio.open_nursery() as joining:
            joining.start_soon(join_noting_refusal, coordinator, "new", refused)
            for _ in range(LARGE):
                await trio.lowlevel.checkpoint()
            await coordinator.base.groups.leave("g", [LeavingMember("c0")])
    assert len(refused) == 1
    assert coordinator.base.registry.get("g") is group
    assert "c0" not in group.group.members
    assert coordinator.base.log.batches == []


async def test_of_two_that_upgrade_a_classic_group_at_once_one_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    refused: list[str] = []
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, LARGE)
        classic_group_of(coordinator, LARGE)
        async with trio.open_nursery() as joining:
            for member_id in ("one", "other"):
                joining.start_soon(join_noting_refusal, coordinator, member_id, refused)
        nursery.cancel_scope.cancel()
    group = coordinator.base.registry.get("g")
    assert isinstance(group, RegisteredConsumerGroup)
    assert len(refused) == 1
    assert group.state.members.keys() - {f"c{number}" for number in range(LARGE)} == {"one", "other"} - {
        *refused
    }


async def test_members_of_a_large_group_that_fell_silent_are_removed_together(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one they took minutes, and dozens were removed in a step."""
    # By its own processor time, or else less is done in a step while the machine is busy with other work.
    monkeypatch.setattr("tidelog.kernel.pace.perf_counter", time.thread_time)
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.004)
    async with trio.open_nursery() as nursery:
        coordinator = coordinator_of(nursery, 1, 1)
        metadata = MemberProfile(topic_names=frozenset(("t00000",)))
        state = ConsumerGroup("g", epoch=1, assignment_epoch=1)
        for number in range(SILENT_MEMBERS):
            state.set_metadata(f"m{number}", metadata)
        group = RegisteredConsumerGroup(state, partition_for("g"), coordinator.shared)
        coordinator.base.registry.put(group)
        group.resume()
        nursery.start_soon(coordinator.base.runtime.deadlines.run)
        await trio.sleep(coordinator.shared.settings.of("g").session_timeout_ms / 1000 + 1)
        nursery.cancel_scope.cancel()
    assert group.state.members == {}
    assert len(coordinator.base.log.batches) < SILENT_MEMBERS / 20
