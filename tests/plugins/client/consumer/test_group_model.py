"""Consumers of one group under any sequence of events, with a fake coordinator and a fake clock.

Whatever happens: no two members that the coordinator knows own a partition; each assignment begins at the
committed offset and has no gap (`Member.poll` checks that); a commit is that of the owner and never goes back
(`fake_groups` and `World` check that). Once nothing happens any more each partition is owned once, and every
record was delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.plugins.client.consumer.fake_groups import FakeClassicGroup
from tests.plugins.client.consumer.group_world import Member, World
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

PARTITIONS = 4
MOST_MEMBERS = 4
COMMIT_ERRORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
ANY = st.integers(0, MOST_MEMBERS - 1)


class Groups(RuleBasedStateMachine):
    """What is the same for each protocol."""

    protocol = "consumer"
    options: ClassVar[dict[str, Any]] = {}

    @initialize()
    def begin(self) -> None:
        self.world = World(self.protocol, PARTITIONS)
        self.is_graceful = True
        self.dropped: list[Member] = []

    @property
    def alive(self) -> list[Member]:
        return [each for each in self.world.members if not each.is_dead]

    def member(self, index: int) -> Member:
        return self.alive[index % len(self.alive)]

    @precondition(lambda self: len(self.alive) < MOST_MEMBERS)
    @rule(is_automatic=st.booleans())
    def join(self, is_automatic: bool) -> None:
        self.world.join(enable_auto_commit=is_automatic, auto_commit_interval_ms=1000, **self.options)

    @rule(partition=st.integers(0, PARTITIONS - 1), number=st.integers(1, 9))
    def append(self, partition: int, number: int) -> None:
        self.world.append(partition, number)

    @precondition(lambda self: self.alive)
    @rule(index=ANY, commits=st.booleans())
    def poll(self, index: int, commits: bool) -> None:
        self.member(index).poll(commits=commits)

    @rule(seconds=st.sampled_from((0.1, 1.0, 4.0)))
    def work(self, seconds: float) -> None:
        """All poll, and a while passes."""
        self.work_for(seconds, 1)

    @precondition(lambda self: self.alive)
    @rule(index=ANY)
    def leave(self, index: int) -> None:
        self.member(index).close()

    @invariant()
    def no_two_own_a_partition(self) -> None:
        if not hasattr(self, "world"):
            return
        owners = Counter(partition for each in self.alive if self.is_known(each) for partition in each.owned)
        assert all(number == 1 for number in owners.values()), owners

    def is_known(self, member: Member) -> bool:
        """Whether the coordinator takes it for a member of the present generation, and it does so itself."""
        membership = member.core.group.membership
        if membership is None:
            return False
        known = self.world.group.members.get(membership.member.member_id)
        if isinstance(self.world.group, FakeClassicGroup):
            is_stable = self.world.group.state == "STABLE"
            return (
                is_stable
                and known is not None
                and membership.member.generation == self.world.group.generation
            )
        return known is not None

    def work_for(self, seconds: float, times: int) -> None:
        for _ in range(times):
            for member in self.alive:
                member.poll(commits=True)
            self.world.pass_time(seconds)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.settle_down()
        finally:
            self.world.close()

    def settle_down(self) -> None:
        self.world.commit_errors.clear()
        if not self.alive:
            self.world.join(**self.options)
        # Sessions of those that were killed end, and those that did not poll join again.
        self.work_until(self.is_divided, 2.0)
        for partition in range(PARTITIONS):
            self.world.append(partition, 3)
        self.work_until(lambda: self.world.committed == dict(enumerate(self.world.logs)), 2.0)
        assert self.is_divided()
        delivered = Counter(place for each in self.world.members for place in each.delivered)
        everything = {
            (partition, offset) for partition, end in enumerate(self.world.logs) for offset in range(end)
        }
        assert set(delivered) == everything
        if self.is_graceful:
            assert set(delivered.values()) == {1}

    def is_divided(self) -> bool:
        owned = sorted(partition for each in self.alive for partition in each.owned)
        return owned == list(range(PARTITIONS)) and all(map(self.is_known, self.alive))

    def work_until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Until a condition has held for longer than heartbeats take to bring news."""
        times = 0
        for _ in range(150):
            times = times + 1 if condition() else 0
            if times > 12 / seconds:
                return
            self.work_for(seconds, 1)
        raise AssertionError("it has not come to that")


class FaultyGroups(Groups):
    """With crashes, pauses, and a coordinator that moves, forgets and refuses."""

    @precondition(lambda self: self.alive)
    @rule(index=ANY)
    def kill(self, index: int) -> None:
        self.is_graceful = False
        self.member(index).kill()

    @rule(seconds=st.sampled_from((3.0, 20.0, 50.0, 400.0)))
    def stand_still(self, seconds: float) -> None:
        """Nobody polls: longer than a session, or than `max_poll_interval_ms`."""
        self.is_graceful = False
        self.world.pass_time(seconds)

    @rule()
    def move_coordinator(self) -> None:
        self.world.move_coordinator()

    @rule()
    def forget_members(self) -> None:
        self.is_graceful = False
        self.world.forget_group(self.world.committed)

    @rule(node=st.sampled_from((1, 2)))
    def cut_connections(self, node: int) -> None:
        self.is_graceful = False
        self.world.cut(node)

    @rule(errors=st.lists(st.sampled_from(COMMIT_ERRORS), max_size=3))
    def refuse_commits(self, errors: list[ErrorCode]) -> None:
        self.is_graceful = False
        self.world.commit_errors.extend(errors)


KINDS: dict[str, dict[str, Any]] = {
    "consumer": {},
    "range": {"partition_assignment_strategy": "range"},
    "sticky": {"partition_assignment_strategy": "sticky"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
}


@pytest.mark.parametrize("base", [Groups, FaultyGroups])
@pytest.mark.parametrize("kind", KINDS)
def test_partitions_have_one_owner_and_records_are_delivered(base: type[Groups], kind: str) -> None:
    protocol = "consumer" if kind == "consumer" else "classic"
    machine: Any = type(kind, (base,), {"protocol": protocol, "options": KINDS[kind]})
    case = machine.TestCase
    case.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
    case().runTest()
