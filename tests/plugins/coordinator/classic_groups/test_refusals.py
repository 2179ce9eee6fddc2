"""Which error a member gets, by state and request: the codes of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import pytest

from tests.plugins.coordinator.classic_groups.driver import (
    INITIAL_DELAY_MS,
    Answer,
    ClassicGroupDriver,
    settings,
    stable,
)
from tests.tables import for_each
from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import Joined, LeavingMember
from tidelog.plugins.coordinator.classic_groups.states import GroupState

STATES = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
LEADER, FOLLOWER = "c-1", "i-2"


def driver_in(state: GroupState) -> ClassicGroupDriver:
    """A group of a leader `c-1` and the static follower `i-2` in that state; an empty one has lost them."""
    driver = ClassicGroupDriver()
    driver.join()
    driver.join(instance="i", client_id="x")
    if state is GroupState.PREPARING_REBALANCE:
        return driver
    driver.pass_time(2 * INITIAL_DELAY_MS)
    group = driver.group
    if state is GroupState.EMPTY:
        driver.leave(LeavingMember(LEADER), LeavingMember(FOLLOWER))
    elif state is GroupState.STABLE:
        for member in (group.members[FOLLOWER], group.members[LEADER]):
            driver.sync(group.joined(member))
    elif state is GroupState.DEAD:
        group.end(NotCoordinator("over"))
    assert group.state is state
    return driver


def joined_as(driver: ClassicGroupDriver, member_id: str) -> Joined:
    """What that member was told, or says it was told."""
    return Joined(member_id, driver.group.generation, None, None, LEADER)


def error_of(answer: Answer[Joined]) -> type[BrokerError] | None:
    return type(answer.outcome) if isinstance(answer.outcome, BrokerError) else None


JOINS: dict[
    str, tuple[Callable[[ClassicGroupDriver], Answer[Joined]], Mapping[GroupState, type[BrokerError] | None]]
] = {
    "no protocols": (lambda m: m.join(protocols=()), dict.fromkeys(STATES, InconsistentGroupProtocol)),
    "no protocol type": (
        lambda m: m.join(protocol_type=""),
        dict.fromkeys(STATES, InconsistentGroupProtocol),
    ),
    "another protocol type": (
        lambda m: m.join(protocol_type="connect"),
        dict.fromkeys(STATES, InconsistentGroupProtocol) | {GroupState.EMPTY: None},
    ),
    "no protocol in common": (
        lambda m: m.join(protocols=[("other", b"")]),
        dict.fromkeys(STATES, InconsistentGroupProtocol) | {GroupState.EMPTY: None},
    ),
    "an unknown member": (lambda m: m.join("stranger"), dict.fromkeys(STATES, UnknownMemberId)),
    "an unknown instance": (
        lambda m: m.join("stranger", instance="other"),
        dict.fromkeys(STATES, UnknownMemberId),
    ),
    "a fenced instance": (
        lambda m: m.join("stranger", instance="i"),
        dict.fromkeys(STATES, FencedInstanceId) | {GroupState.EMPTY: UnknownMemberId},
    ),
    "a new one that has to know its id": (
        lambda m: m.join(id_required=True),
        dict.fromkeys(STATES, MemberIdRequired),
    ),
}


@for_each("state", STATES)
@for_each("case", JOINS)
def test_join_group_errors_in_each_state(case: str, state: GroupState) -> None:
    ask, expected = JOINS[case]
    error = CoordinatorNotAvailable if state is GroupState.DEAD else expected[state]
    assert error_of(ask(driver_in(state))) is error


@attrs.frozen
class Beat:
    """A heartbeat or a sync, and what it gets in each state."""

    member_id: str
    instance: str | None = None
    later: int = 0

    def generation(self, driver: ClassicGroupDriver) -> int:
        return driver.group.generation + self.later


def everywhere(error: type[BrokerError]) -> dict[GroupState, type[BrokerError]]:
    return dict.fromkeys(STATES, error) | {GroupState.DEAD: CoordinatorNotAvailable}


MEMBERS: dict[str, tuple[Beat, Mapping[GroupState, type[BrokerError] | None]]] = {
    "an unknown member": (Beat("stranger"), everywhere(UnknownMemberId)),
    "an unknown instance": (Beat(FOLLOWER, "other"), everywhere(UnknownMemberId)),
    "a fenced instance": (
        Beat("stranger", "i"),
        everywhere(FencedInstanceId) | {GroupState.EMPTY: UnknownMemberId},
    ),
    "an older generation": (
        Beat(LEADER, later=-1),
        everywhere(IllegalGeneration) | {GroupState.EMPTY: UnknownMemberId},
    ),
    "a generation to come": (
        Beat(LEADER, later=1),
        everywhere(IllegalGeneration) | {GroupState.EMPTY: UnknownMemberId},
    ),
    "a member": (
        Beat(FOLLOWER, "i"),
        dict.fromkeys(STATES)
        | {
            GroupState.EMPTY: UnknownMemberId,
            GroupState.PREPARING_REBALANCE: RebalanceInProgress,
            GroupState.DEAD: CoordinatorNotAvailable,
        },
    ),
}


@for_each("state", STATES)
@for_each("case", MEMBERS)
def test_heartbeat_errors_in_each_state(case: str, state: GroupState) -> None:
    beat, expected = MEMBERS[case]
    driver = driver_in(state)
    error = driver.heartbeat(beat.member_id, beat.generation(driver), beat.instance)
    assert (None if error is None else type(error)) is expected[state]


@for_each("state", STATES)
@for_each("case", MEMBERS)
def test_sync_group_errors_in_each_state(case: str, state: GroupState) -> None:
    beat, expected = MEMBERS[case]
    driver = driver_in(state)
    answer = driver.sync(
        joined_as(driver, beat.member_id), generation=beat.generation(driver), instance=beat.instance
    )
    assert (type(answer.error) if isinstance(answer.outcome, BrokerError) else None) is expected[state]
    assert answer.waits == (state is GroupState.COMPLETING_REBALANCE and case == "a member")


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        ("consumer", "range", None),
        (None, None, None),
        ("connect", "range", InconsistentGroupProtocol),
        ("consumer", "sticky", InconsistentGroupProtocol),
    ],
)
def test_sync_group_of_another_protocol_is_refused(
    protocol_type: str | None, protocol_name: str | None, error: type[BrokerError] | None
) -> None:
    driver = driver_in(GroupState.STABLE)
    answer = driver.sync(
        joined_as(driver, FOLLOWER), protocol_type=protocol_type, protocol_name=protocol_name
    )
    assert (type(answer.outcome) if error else None) is error


LEAVES = {
    "a member": (LeavingMember(LEADER), None),
    "a static member": (LeavingMember(FOLLOWER, "i"), None),
    "an instance alone": (LeavingMember("", "i"), None),
    "an unknown member": (LeavingMember("stranger"), UnknownMemberId),
    "an unknown instance": (LeavingMember("", "other"), UnknownMemberId),
    "nobody": (LeavingMember(""), UnknownMemberId),
    "a fenced instance": (LeavingMember("stranger", "i"), FencedInstanceId),
}


@for_each("state", STATES[1:4])
@for_each("case", LEAVES)
def test_leave_group_errors_in_each_state(case: str, state: GroupState) -> None:
    member, error = LEAVES[case]
    driver = driver_in(state)
    (outcome,) = driver.leave(member)
    assert outcome.member == member
    assert (None if outcome.error is None else type(outcome.error)) is error
    assert len(driver.group.members) == (2 if error else 1)


def test_leave_group_of_a_dead_group_is_refused() -> None:
    with pytest.raises(CoordinatorNotAvailable):
        driver_in(GroupState.DEAD).leave(LeavingMember(LEADER))


def test_join_group_refuses_new_members_of_a_full_group() -> None:
    driver = ClassicGroupDriver(settings(max_size=2))
    stable(driver, 2)
    assert type(driver.join().outcome) is GroupMaxSizeReached
    assert type(driver.join(id_required=True).outcome) is GroupMaxSizeReached
    assert driver.group.state is GroupState.STABLE


def test_join_group_has_room_for_the_first_members_during_a_rebalance() -> None:
    driver = ClassicGroupDriver(settings(max_size=2))
    answers = [driver.join() for _ in range(3)]
    assert [error_of(answer) for answer in answers] == [None, None, GroupMaxSizeReached]
    driver.pass_time(2 * INITIAL_DELAY_MS)
    assert len(answers[0].value.members) == 2


def test_join_group_of_a_late_member_is_refused_by_a_full_group() -> None:
    driver = ClassicGroupDriver(settings(max_size=2))
    first, second = stable(driver, 2)
    driver.join(first.member_id)
    newcomer = driver.join()
    assert type(driver.join(second.member_id).outcome) is GroupMaxSizeReached
    assert newcomer.value.generation == 2
    assert set(driver.group.members) == {first.member_id, newcomer.value.member_id}


def test_join_group_that_rejects_the_last_member_writes_an_empty_group() -> None:
    driver = ClassicGroupDriver(settings(max_size=2))
    first, second = stable(driver, 2)
    driver.leave(LeavingMember(first.member_id))
    driver.group.settings = settings(max_size=0)
    assert type(driver.join(second.member_id).outcome) is GroupMaxSizeReached
    assert driver.group.state is GroupState.EMPTY
    assert (driver.written[-1].generation, driver.written[-1].members) == (2, [])


def test_join_group_that_rejects_a_new_member_has_the_others_wait_no_more_for_it() -> None:
    driver = ClassicGroupDriver(settings(max_size=2))
    joined = stable(driver, 2)
    first = driver.join(joined[0].member_id)
    expected = driver.join(id_required=True).error
    assert isinstance(expected, MemberIdRequired)
    second = driver.join(joined[1].member_id)
    assert (first.waits, second.waits) == (True, True)
    assert isinstance(driver.join(expected.member_id).error, GroupMaxSizeReached)
    assert (first.value.generation, second.value.generation) == (2, 2)
