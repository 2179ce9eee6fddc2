"""What a classic group is after the log refused what an event has to write, for every such event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import pytest

from tests.plugins.coordinator.classic_groups.driver import (
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicGroupDriver,
    settings,
    stable,
)
from tidelog.kernel.errors import NotCoordinator
from tidelog.kernel.seams.coordination.groups import LeavingMember
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.records import NO_TIMESTAMP, GenerationChange
from tidelog.plugins.coordinator.classic_groups.states import GroupState


def contents(group: ClassicGroup) -> dict[str, Any]:
    """All that a group is, but for times."""
    members = group.members
    return {
        "state": group.state,
        "generation": group.generation,
        "protocol": (group.protocol_type, group.protocol_name),
        "leader": members.leader,
        "instances": dict(members.by_instance),
        "pending": [*members.pending],
        "pending_sync": set(group.pending_sync),
        "members": [attrs.astuple(attrs.evolve(each, deadline_ms=0)) for each in members.values()],
    }


class Event(NamedTuple):
    """An event that leads to a write: what comes before it, and what it is."""

    before: Callable[[ClassicGroupDriver], object]
    event: Callable[[ClassicGroupDriver], object]


def leave(driver: ClassicGroupDriver, *member_ids: str) -> None:
    """Let members leave."""
    driver.leave(*map(LeavingMember, member_ids))


def expect_another(driver: ClassicGroupDriver) -> None:
    """The only member leaves while one is expected that was given its id."""
    stable(driver)
    driver.join(id_required=True)
    leave(driver, "c-1")
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def lose_a_seat(driver: ClassicGroupDriver) -> None:
    """Of two members one leaves, and the other is one too many."""
    stable(driver, 2)
    leave(driver, "c-1")
    driver.group.settings = settings(max_size=0)


def join_and_wait(driver: ClassicGroupDriver) -> None:
    """A generation begins that has no assignment yet."""
    driver.join()
    driver.pass_time(2 * INITIAL_DELAY_MS)


def begin_a_rebalance(driver: ClassicGroupDriver) -> None:
    """Of two members one leaves, and the other has a millisecond to rejoin."""
    driver.join(rebalance_ms=1)
    driver.join()
    driver.pass_time(2 * INITIAL_DELAY_MS)
    leave(driver, "c-2")


EMPTIED: dict[str, Event] = {
    "the last members leave": Event(lambda it: stable(it, 2), lambda it: leave(it, "c-1", "c-2")),
    "the session of the last member ends": Event(stable, lambda it: it.pass_time(SESSION_MS)),
    "no member rejoins in time": Event(
        begin_a_rebalance,
        lambda it: it.pass_time(REBALANCE_MS),
    ),
    "no member sends SyncGroup": Event(join_and_wait, lambda it: it.pass_time(REBALANCE_MS)),
    "a member that is expected does not come": Event(expect_another, lambda it: it.pass_time(SESSION_MS)),
    "a member that is expected leaves": Event(expect_another, lambda it: leave(it, "c-2")),
    "the last member is rejected": Event(lose_a_seat, lambda it: it.join("c-2")),
}


@pytest.mark.parametrize("case", EMPTIED)
def test_a_group_that_loses_its_last_member_is_empty_whether_or_not_the_log_refuses_that(case: str) -> None:
    """There is no member to keep: each has left, been silent for its session timeout, or been rejected."""
    drivers = ClassicGroupDriver(), ClassicGroupDriver()
    for driver in drivers:
        EMPTIED[case].before(driver)
    written, refused = drivers
    refused.refuse_writes = True
    for driver in drivers:
        EMPTIED[case].event(driver)
    assert len(refused.written) == len(written.written) - 1
    assert written.group.state is GroupState.EMPTY
    assert contents(refused.group) == contents(written.group)


def test_a_static_member_that_rejoins_leaves_the_group_as_it_was_if_the_log_refuses() -> None:
    driver = ClassicGroupDriver()
    stable(driver, 2, instances=["a", "b"])
    before, driver.refuse_writes = contents(driver.group), True
    for instance in ("a", "b"):
        answer = driver.join(instance=instance, protocols=[("range", b"new")], session_ms=1, rebalance_ms=1)
        assert isinstance(answer.error, NotCoordinator)
        assert contents(driver.group) == before


def test_an_assignment_that_the_log_refuses_is_no_member_s_and_begins_a_rebalance() -> None:
    """As in Kafka: members that wait for it get the error, and join the next generation."""
    driver = ClassicGroupDriver()
    leader, follower = driver.join(), driver.join()
    driver.pass_time(2 * INITIAL_DELAY_MS)
    before = contents(driver.group)
    waiting = driver.sync(follower.value)
    driver.refuse_writes = True
    failed = driver.sync(leader.value, {follower.value.member_id: b"2"})
    assert isinstance(waiting.error, NotCoordinator)
    assert isinstance(failed.error, NotCoordinator)
    assert contents(driver.group) == before | {
        "state": GroupState.PREPARING_REBALANCE,
        "pending_sync": set(),
    }


@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_static_member_that_rejoins_is_in_the_log_what_it_is_in_the_group(instance: str) -> None:
    driver = ClassicGroupDriver()
    stable(driver, 2, instances=["a", "b"])
    driver.join(instance=instance, protocols=[("range", b"new")], session_ms=1, rebalance_ms=1)
    assert GenerationChange.of(driver.group, NO_TIMESTAMP).metadata == driver.written[-1]
    assert len(driver.written) == 2
