"""The state machine of a member, event by event."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.assignment import GroupView
from tidelog.plugins.zookeeper.consumers.membership import (
    Action,
    Claim,
    Connected,
    Disconnected,
    Event,
    Failed,
    GroupChanged,
    Leave,
    Membership,
    MembershipPhase,
    MembershipRules,
    PauseFetching,
    ReadGroup,
    Register,
    Release,
    ReportTrouble,
    ResumeFetching,
    StartFetching,
    StopFetching,
    Succeeded,
    TimePassed,
    Unregister,
    step,
)
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription

ORDERS = Subscription({"orders": 1})
RULES = MembershipRules("a", backoff_s=2, pause_after_s=1, max_attempts=2, min_interval_s=0.5)
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOTH = {P0: "a-0", P1: "a-0"}
NONE: frozenset[TopicPartition] = frozenset()


def view(*others: str, partitions: int = 2, owned: dict[TopicPartition, str] | None = None) -> GroupView:
    """The registries with the member `a` and others."""
    return GroupView(dict.fromkeys(("a", *others), ORDERS), {"orders": range(partitions)}, owned or {})


class Member:
    """A member at a time that a test sets."""

    def __init__(self) -> None:
        self.state = Membership(RULES)
        self.now = 0.0

    def on(self, event: Event) -> Sequence[Action]:
        self.state, actions = step(self.state, event, self.now)
        return [*actions]

    def done(self, found: GroupView | None = None, *created: TopicPartition) -> Sequence[Action]:
        """The answer to its last request."""
        return self.on(Succeeded(self.state.number, found, frozenset(created)))

    def failed(self) -> Sequence[Action]:
        return self.on(Failed(self.state.number, "no answer"))


def owning_both() -> Member:
    """A member that is alone."""
    member = Member()
    assert member.on(Connected(7)) == [Register(1)]
    assert member.done() == [ReadGroup(2)]
    assert member.done(view()) == [Release(3, NONE)]
    assert member.done() == [Claim(4, BOTH)]
    assert member.done(None, P0, P1) == [StartFetching(BOTH)]
    assert member.state.is_quiet
    return member


def test_step_releases_and_keeps_when_another_member_joins() -> None:
    member = owning_both()
    member.now = 10
    assert member.on(GroupChanged()) == [ReadGroup(5)]
    released = frozenset({P1})
    assert member.done(view("b", owned=BOTH)) == [StopFetching(released, commit=True), Release(6, released)]
    # Until it is released it is its own.
    assert member.state.may_own == {P0, P1}
    assert member.done() == []
    assert member.state.is_quiet
    assert member.state.fetched == {P0: "a-0"}


def test_step_waits_until_the_owner_has_released_and_fetches_what_it_has() -> None:
    member = owning_both()
    member.now = 10
    member.on(GroupChanged())
    member.done(view(partitions=4, owned=BOTH))
    p2, p3 = TopicPartition("orders", 2), TopicPartition("orders", 3)
    assert member.done() == [Claim(7, {p2: "a-0", p3: "a-0"})]
    assert member.done(None, p3) == [StartFetching({p3: "a-0"})]
    assert (member.state.phase, member.state.deadline) == (MembershipPhase.WAITING, 12)
    assert member.on(TimePassed()) == []
    member.now = 12
    assert member.on(TimePassed()) == [Register(9)]
    assert member.done() == [ReadGroup(10)]
    assert member.done(view(partitions=4, owned={**BOTH, p3: "a-0"})) == [Release(11, NONE)]
    assert member.done() == [Claim(12, {p2: "a-0"})]
    # The second one in vain.
    assert member.done() == [ReportTrouble("owned by other members: orders-2")]


def test_step_registers_again_after_a_failure_anywhere() -> None:
    for count in range(4):
        member = Member()
        member.on(Connected(7))
        for answer in [None, view(), None][:count]:
            member.done(answer)
        assert member.failed() == []
        assert member.state.phase is MembershipPhase.WAITING
        member.now = 2
        assert member.on(TimePassed()) == [Register(member.state.number)]


def test_step_takes_what_it_owns_from_what_it_read() -> None:
    member = Member()
    member.on(Connected(7))
    member.done()
    # A claim whose answer was lost.
    assert member.done(view(owned={P0: "a-0"})) == [Release(3, NONE)]
    assert member.done() == [Claim(4, {P1: "a-0"})]
    assert member.done(None, P1) == [StartFetching(BOTH)]
    # A node that was removed by hand.
    member.now = 10
    member.on(GroupChanged())
    stopped = StopFetching(frozenset({P1}), commit=False)
    assert member.done(view(owned={P0: "a-0"})) == [stopped, Release(6, NONE)]
    assert member.done() == [Claim(7, {P1: "a-0"})]


def test_step_registers_again_when_its_node_was_removed() -> None:
    member = owning_both()
    member.now = 10
    member.on(GroupChanged())
    assert member.done(GroupView({}, {"orders": range(2)}, BOTH)) == []
    member.now = 12
    assert member.on(TimePassed()) == [Register(7)]


def test_step_keeps_what_it_has_while_there_are_no_brokers() -> None:
    member = owning_both()
    member.now = 10
    member.on(GroupChanged())
    found = GroupView({"a": ORDERS, "b": ORDERS}, {"orders": range(2)}, BOTH, has_brokers=False)
    assert member.done(found) == [Release(6, NONE)]
    assert member.done() == []
    assert member.state.fetched == BOTH


def test_step_pauses_without_a_connection_and_resumes_in_the_same_session() -> None:
    member = owning_both()
    assert member.on(Disconnected()) == []
    assert member.state.deadline == 1
    member.now = 1
    assert member.on(TimePassed()) == [PauseFetching()]
    assert member.on(Connected(7)) == [ResumeFetching(), Register(6)]
    assert member.state.fetched == BOTH


def test_step_does_not_pause_for_a_moment_without_a_connection() -> None:
    member = owning_both()
    member.on(Disconnected())
    assert member.on(Connected(7)) == [Register(6)]
    member.now = 1
    assert member.on(TimePassed()) == []


def test_step_commits_nothing_in_a_new_session() -> None:
    member = owning_both()
    member.on(Disconnected())
    member.now = 1
    member.on(TimePassed())
    assert member.on(Connected(8)) == [
        StopFetching(frozenset({P0, P1}), commit=False),
        ResumeFetching(),
        Register(6),
    ]
    assert (member.state.owned, member.state.fetched) == ({}, {})


def test_step_ignores_answers_from_before_the_connection_was_lost() -> None:
    member = Member()
    member.on(Connected(7))
    member.done()
    member.done(view())
    member.done()
    claim = member.state.number
    member.on(Disconnected())
    member.on(Connected(7))
    assert member.on(Succeeded(claim, None, frozenset({P0, P1}))) == []
    assert member.on(Failed(claim, "no answer")) == []
    assert member.state.phase is MembershipPhase.REGISTERING


def test_step_reads_again_when_something_has_changed_meanwhile() -> None:
    member = Member()
    member.on(Connected(7))
    member.done()
    member.done(view())
    member.done()
    assert member.on(GroupChanged()) == []
    assert member.done(None, P0, P1) == [StartFetching(BOTH)]
    assert (member.state.phase, member.state.deadline) == (MembershipPhase.OWNING, 0.5)
    member.now = 0.5
    assert member.on(TimePassed()) == [ReadGroup(5)]


def test_step_follows_changes_at_most_once_in_an_interval() -> None:
    member = owning_both()
    member.now = 0.25
    assert member.on(GroupChanged()) == member.on(GroupChanged()) == []
    assert member.state.deadline == 0.5


def test_step_leaves_after_it_has_released() -> None:
    member = owning_both()
    assert member.on(Leave()) == [
        StopFetching(frozenset({P0, P1}), commit=True),
        Release(5, frozenset({P0, P1})),
    ]
    assert member.on(Leave()) == []
    assert member.done() == [Unregister(6)]
    assert member.done() == []
    assert member.state.phase is MembershipPhase.LEFT
    assert member.on(Connected(9)) == []


def test_step_leaves_also_what_a_claim_may_own() -> None:
    member = Member()
    member.on(Connected(7))
    member.done()
    member.done(view())
    member.done()
    assert member.on(Leave()) == [Release(5, frozenset({P0, P1}))]


def test_step_leaves_at_once_without_a_connection() -> None:
    member = owning_both()
    member.on(Disconnected())
    assert member.on(Leave()) == [StopFetching(frozenset({P0, P1}), commit=False)]
    assert member.state.phase is MembershipPhase.LEFT
    leaving = owning_both()
    leaving.on(Leave())
    assert leaving.on(Disconnected()) == []
    assert leaving.state.phase is MembershipPhase.LEFT
