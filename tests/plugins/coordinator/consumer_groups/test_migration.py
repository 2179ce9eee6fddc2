"""A group changes its protocol: what its members have stays theirs, and who cannot change is told why."""

from __future__ import annotations

import attrs
import pytest

from tests.plugins.coordinator.consumer_groups.driver import GROUP, SETTINGS, ConsumerGroupDriver, FakeTopics
from tidelog.kernel.errors import GroupIdNotFound
from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.members import ClassicGroupMember
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup, ConsumerGroupState
from tidelog.plugins.coordinator.consumer_groups.machine.departures import depart
from tidelog.plugins.coordinator.consumer_groups.migration import upgrade
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    read_assignment,
    write_assignment,
)

# Version 1, topic `t`, no user data, no owned partitions.
SUBSCRIPTION = bytes.fromhex("0001 00000001 0001 74 ffffffff 00000000")


def assignment(**topics: list[int]) -> bytes:
    """What a leader sends."""
    given = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
    return write_assignment(ConsumerProtocolAssignment(assigned_partitions=given), 1)


def classic(*assignments: bytes, protocol_type: str = "consumer") -> ClassicGroup:
    """A stable classic group whose members were sent these assignments."""
    group = ClassicGroup(GROUP, SETTINGS.classic)
    for number, sent in enumerate(assignments):
        member = ClassicGroupMember(
            f"old-{number}", None, "c", "/h", 10_000, 60_000, {"range": SUBSCRIPTION}, sent
        )
        group.add(member, protocol_type)
    group.restore(7, protocol_type, "range")
    return group


def upgraded(group: ClassicGroup, driver: ConsumerGroupDriver) -> ConsumerGroup:
    """The consumer group, taken over into the driver."""
    driver.carry_out(run_to_end(upgrade(group, driver.context())))
    return driver.group


def test_upgrade_keeps_the_assignments_and_the_generation_of_classic_members() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=4))
    group = upgraded(classic(assignment(t=[0, 1]), assignment(t=[2, 3])), driver)
    assert group.epoch == group.assignment_epoch == 7
    assert group.state is ConsumerGroupState.STABLE
    assert [driver.named(group.targets[name]) for name in group.members] == [{"t": {0, 1}}, {"t": {2, 3}}]
    assert group.members["old-0"].current.epoch == 7
    assert attrs.evolve(driver.replayed(), topics_version=None) == attrs.evolve(group, topics_version=None)


def test_upgrade_gives_a_new_member_nothing_until_classic_members_revoke() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    upgraded(classic(assignment(t=[0, 1])), driver)
    assert driver.join("new", "t").assignment == {}
    assert sum(len(numbers) for numbers in driver.group.targets["new"].values()) == 1


def test_upgrade_omits_assigned_partitions_that_are_missing_or_duplicate() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    group = upgraded(classic(assignment(t=[0, 1, 9], gone=[0]), assignment(t=[1]), b""), driver)
    assert [driver.named(group.targets[name]) for name in group.members] == [{"t": {0, 1}}, {}, {}]


@pytest.mark.parametrize(
    ("change", "settings", "reason"),
    [
        ({}, {"upgrades": False}, "policy"),
        ({}, {"max_size": 0}, "max.size"),
        ({"protocol_type": "connect"}, {}, "protocol type"),
    ],
)
def test_upgrade_refuses_a_group_by_policy_size_or_protocol_type(
    change: dict[str, str], settings: dict[str, int], reason: str
) -> None:
    driver = ConsumerGroupDriver(settings=attrs.evolve(SETTINGS, **settings))  # type: ignore[arg-type]
    with pytest.raises(GroupIdNotFound, match=reason):
        run_to_end(upgrade(classic(b"", **change), driver.context()))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (
            write_assignment(ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"x"), 1),
            "data of its own",
        ),
        (b"\0\1\xff", "malformed"),
    ],
)
def test_upgrade_refuses_assignments_that_are_malformed_or_have_user_data(sent: bytes, reason: str) -> None:
    with pytest.raises(GroupIdNotFound, match=reason):
        run_to_end(upgrade(classic(sent), ConsumerGroupDriver().context()))


def test_downgrade_follows_when_the_last_member_of_the_consumer_protocol_leaves() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    upgraded(classic(assignment(t=[0, 1])), driver)
    driver.join("new", "t")
    draft = run_to_end(depart(driver.group, ["new"], driver.context()))
    back = draft.becomes_classic
    assert back is not None
    assert (back.generation, back.protocol_type) == (8, "consumer")
    (member,) = back.members.values()
    before = classic(b"").members["old-0"]
    assert attrs.asdict(attrs.evolve(member, assignment=b"")) == attrs.asdict(before)
    (given,) = read_assignment(member.assignment).assigned_partitions
    assert (given.topic, len(given.partitions)) == ("t", 1)
    driver.carry_out(draft)
    assert driver.group.removed
    assert driver.replayed().removed
    assert not driver.replayed().members


@pytest.mark.parametrize(
    ("settings", "leaving"),
    [
        pytest.param({"downgrades": False}, ["new"], id="policy"),
        pytest.param({"classic": attrs.evolve(SETTINGS.classic, max_size=0)}, ["new"], id="too many"),
        pytest.param({}, ["old-0"], id="a consumer stays"),
        pytest.param({}, ["old-0", "new"], id="nobody stays"),
    ],
)
def test_may_downgrade_is_false_by_policy_size_or_remaining_members(
    settings: dict[str, object], leaving: list[str]
) -> None:
    driver = ConsumerGroupDriver(settings=attrs.evolve(SETTINGS, **settings))  # type: ignore[arg-type]
    upgraded(classic(b""), driver)
    driver.join("new", "t")
    draft = run_to_end(depart(driver.group, leaving, driver.context()))
    assert draft.becomes_classic is None
    assert not draft.group.removed
