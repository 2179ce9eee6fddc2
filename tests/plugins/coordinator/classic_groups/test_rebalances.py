"""How generations come about: who is waited for, for how long, who leads, which protocol is chosen."""

from __future__ import annotations

import pytest

from tests.plugins.coordinator.classic_groups.driver import (
    CONSUMER,
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Answer,
    ClassicGroupDriver,
    settings,
    stable,
)
from tidelog.kernel.errors import (
    FencedInstanceId,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import (
    GroupProtocol,
    Joined,
    JoinedMember,
    JoinRequest,
    LeavingMember,
)
from tidelog.plugins.coordinator.classic_groups.machine import NEW_MEMBER_TIMEOUT_MS, decide_join
from tidelog.plugins.coordinator.classic_groups.states import GroupState


def test_join_group_of_the_first_member_waits_for_the_initial_delay() -> None:
    driver = ClassicGroupDriver()
    first = driver.join()
    driver.pass_time(INITIAL_DELAY_MS - 1)
    assert first.waits
    driver.pass_time(1)
    assert first.value == Joined(
        "c-1", 1, "consumer", "range", "c-1", [JoinedMember("c-1", None, b"r")], skip_assignment=False
    )


def test_join_group_of_more_members_prolongs_the_initial_delay() -> None:
    driver = ClassicGroupDriver()
    first = driver.join(rebalance_ms=2 * INITIAL_DELAY_MS + 1000)
    driver.pass_time(INITIAL_DELAY_MS - 1)
    second = driver.join(rebalance_ms=0)
    driver.pass_time(INITIAL_DELAY_MS)
    assert first.waits
    third = driver.join(rebalance_ms=0)
    driver.pass_time(INITIAL_DELAY_MS)
    assert third.value.generation == 1
    assert second.value.members == ()
    assert [member.member_id for member in first.value.members] == ["c-1", "c-2", "c-3"]


def test_join_group_without_an_initial_delay_is_answered_at_once() -> None:
    driver = ClassicGroupDriver(settings(initial_delay_ms=0))
    first = driver.join()
    driver.pass_time(0)
    assert first.value.generation == 1


def test_join_group_without_a_member_id_returns_member_id_required() -> None:
    driver = ClassicGroupDriver()
    required = driver.join(id_required=True).error
    assert isinstance(required, MemberIdRequired)
    assert driver.group.state is GroupState.EMPTY
    answer = driver.join(required.member_id, id_required=True)
    driver.pass_time(2 * INITIAL_DELAY_MS)
    assert answer.value.member_id == required.member_id


def test_join_group_waits_for_a_pending_member_id_only_until_its_session_timeout() -> None:
    driver = ClassicGroupDriver()
    (leader,) = stable(driver)
    driver.join(id_required=True)
    again = driver.join(leader.member_id, rebalance_ms=600_000)
    driver.pass_time(SESSION_MS - 1)
    assert again.waits
    driver.pass_time(1)
    assert again.value.generation == 2
    assert not driver.group.members.pending


def test_handle_deadlines_writes_that_a_group_is_empty_whose_pending_member_id_was_the_last() -> None:
    driver = ClassicGroupDriver()
    members = stable(driver, 2)
    driver.join(id_required=True, session_ms=REBALANCE_MS - 1)
    for member in members:
        driver.leave(LeavingMember(member.member_id))
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    written = len(driver.written)
    driver.pass_time(REBALANCE_MS - 1)
    assert [value.members for value in driver.written[written:]] == [[]]


def test_join_group_of_a_new_member_has_all_members_rejoin() -> None:
    driver = ClassicGroupDriver()
    leader, follower = stable(driver, 2)
    newcomer = driver.join()
    assert isinstance(driver.heartbeat(leader.member_id, 1), RebalanceInProgress)
    again = driver.join(leader.member_id), driver.join(follower.member_id)
    assert [answer.value.generation for answer in (*again, newcomer)] == [2, 2, 2]
    assert newcomer.value.leader == leader.member_id


def test_join_group_missing_until_the_rebalance_timeout_removes_the_member() -> None:
    driver = ClassicGroupDriver()
    leader, follower = stable(driver, 2)
    newcomer = driver.join(rebalance_ms=REBALANCE_MS + 5_000)
    again = driver.join(follower.member_id)
    for _ in range(7):
        driver.pass_time(4_999)
        driver.heartbeat(leader.member_id, 1)
    assert newcomer.waits
    driver.pass_time(7)
    assert newcomer.value.generation == 2
    assert newcomer.value.leader == follower.member_id == again.value.leader
    assert isinstance(driver.heartbeat(leader.member_id, 2), UnknownMemberId)


def test_select_protocol_takes_the_most_preferred_one_that_all_members_support() -> None:
    driver = ClassicGroupDriver()
    first = driver.join(protocols=[("new", b"1"), ("sticky", b"s1"), ("range", b"r1")])
    driver.join(protocols=[("range", b"r2"), ("sticky", b"s2")])
    driver.join(protocols=[("sticky", b"s3"), ("range", b"r3")])
    driver.pass_time(2 * INITIAL_DELAY_MS)
    assert first.value.protocol_name == "sticky"
    assert [member.metadata for member in first.value.members] == [b"s1", b"s2", b"s3"]


def test_join_group_accepts_any_protocol_type() -> None:
    driver = ClassicGroupDriver()
    worker = driver.join(protocol_type="connect", protocols=[("sessioned", b"\1")])
    driver.pass_time(INITIAL_DELAY_MS)
    assert (worker.value.protocol_type, worker.value.protocol_name) == ("connect", "sessioned")


def test_join_group_changes_the_protocol_during_a_rolling_upgrade() -> None:
    driver = ClassicGroupDriver()
    leader, follower = stable(driver, 2)
    both = (("cooperative-sticky", b"c"), ("range", b"r"))
    only = (("cooperative-sticky", b"c"),)
    generations = [
        (leader, both, follower, None),
        (follower, both, leader, both),
        (leader, only, follower, only),
    ]
    names: list[str | None] = []
    for mover, protocols, other, others in generations:
        first = driver.join(mover.member_id, protocols=protocols)
        second = driver.join(other.member_id, protocols=others or (("range", b"r"),))
        joined = first.value, second.value
        names.append(joined[0].protocol_name)
        for each in sorted(joined, key=lambda told: told.leader == told.member_id):
            driver.sync(each)
    assert names == ["range", "cooperative-sticky", "cooperative-sticky"]


class TestAnswersThatGotLost:
    """A member that lost its connection asks again."""

    def test_join_group_repeated_by_a_follower_returns_the_current_generation(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = stable(driver, 2)
        again = driver.join(follower.member_id)
        assert again.value == Joined(follower.member_id, 1, "consumer", "range", leader.member_id)
        assert driver.group.state is GroupState.STABLE

    def test_join_group_repeated_before_the_assignment_returns_the_current_generation(self) -> None:
        driver = ClassicGroupDriver()
        answers = driver.join(), driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        for answer in answers:
            assert driver.join(answer.value.member_id).value == answer.value

    def test_join_group_repeated_while_it_waits_ends_the_first_request(self) -> None:
        driver = ClassicGroupDriver()
        leader, _ = stable(driver, 2)
        first = driver.join(leader.member_id)
        second = driver.join(leader.member_id)
        assert isinstance(first.error, RebalanceInProgress)
        assert second.waits
        assert driver.group.members.awaiting_joins == 1

    def test_sync_group_repeated_while_it_waits_ends_the_first_request(self) -> None:
        driver = ClassicGroupDriver()
        driver.join()
        follower = driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        first = driver.sync(follower.value)
        second = driver.sync(follower.value)
        assert isinstance(first.error, RebalanceInProgress)
        assert second.waits


@pytest.mark.parametrize(
    ("who", "metadata", "rebalances"),
    [("leader", b"r", True), ("follower", b"r", False), ("follower", b"other", True)],
)
def test_join_group_in_state_stable_rebalances_for_the_leader_or_new_metadata(
    who: str, metadata: bytes, rebalances: bool
) -> None:
    driver = ClassicGroupDriver()
    leader, follower = stable(driver, 2)
    member = leader if who == "leader" else follower
    answer = driver.join(member.member_id, protocols=[("range", metadata)])
    assert answer.waits == rebalances
    assert (driver.group.state is GroupState.PREPARING_REBALANCE) == rebalances


def test_join_group_with_new_metadata_during_the_assignment_rebalances() -> None:
    driver = ClassicGroupDriver()
    leader, follower = driver.join(), driver.join()
    driver.pass_time(2 * INITIAL_DELAY_MS)
    waiting = driver.sync(leader.value) if leader.value.leader != "c-1" else driver.sync(follower.value)
    again = driver.join(leader.value.member_id, protocols=[("range", b"changed")])
    assert isinstance(waiting.error, RebalanceInProgress)
    assert again.waits


class TestAssignments:
    def test_sync_group_of_followers_waits_for_the_leader(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = driver.join(), driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        waiting = driver.sync(follower.value)
        assert waiting.waits
        told = driver.sync(leader.value, {follower.value.member_id: b"2", "stranger": b"?"})
        assert waiting.value.assignment == b"2"
        assert told.value.assignment == b""
        assert driver.group.state is GroupState.STABLE

    def test_sync_group_of_late_followers_is_answered_at_once(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = driver.join(), driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        driver.sync(leader.value, {follower.value.member_id: b"2"})
        assert driver.sync(follower.value).value.assignment == b"2"

    def test_sync_group_missing_until_the_rebalance_timeout_removes_the_member(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = driver.join(), driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        driver.sync(leader.value)
        for _ in range(4):
            driver.pass_time(REBALANCE_MS // 4)
            driver.heartbeat(leader.value.member_id, 1)
            driver.heartbeat(follower.value.member_id, 1)
        assert driver.group.state is GroupState.PREPARING_REBALANCE
        assert set(driver.group.members) == {leader.value.member_id}

    def test_sync_group_of_an_assignment_that_cannot_be_written_rebalances(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = driver.join(), driver.join()
        driver.pass_time(2 * INITIAL_DELAY_MS)
        waiting = driver.sync(follower.value)
        driver.refuse_writes = True
        failed = driver.sync(leader.value, {follower.value.member_id: b"2"})
        assert isinstance(failed.error, NotCoordinator)
        assert isinstance(waiting.error, NotCoordinator)
        assert driver.group.state is GroupState.PREPARING_REBALANCE
        assert not driver.written

    def test_sync_group_writes_the_assignment_that_it_returns(self) -> None:
        driver = ClassicGroupDriver()
        joined = stable(driver, 2)
        (image,) = driver.written
        assert (image.generation, image.protocol_type, image.protocol) == (1, "consumer", "range")
        assert image.leader == joined[0].member_id
        assert [(member.member_id, member.assignment) for member in image.members] == [
            (each.member_id, b"share-%d" % number) for number, each in enumerate(joined)
        ]


class TestSessions:
    def test_heartbeat_missing_for_the_session_timeout_removes_the_classic_member(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = stable(driver, 2)
        driver.pass_time(SESSION_MS - 1)
        assert driver.heartbeat(leader.member_id, 1) is None
        driver.pass_time(1)
        assert driver.group.state is GroupState.PREPARING_REBALANCE
        assert isinstance(driver.heartbeat(follower.member_id, 1), UnknownMemberId)
        assert driver.join(leader.member_id).value.generation == 2

    def test_heartbeat_missing_of_the_last_member_writes_an_empty_group(self) -> None:
        driver = ClassicGroupDriver()
        stable(driver)
        driver.pass_time(SESSION_MS)
        assert driver.group.state is GroupState.EMPTY
        image = driver.written[-1]
        assert (image.generation, image.protocol, image.leader, image.members) == (2, None, None, [])

    def test_heartbeat_is_not_needed_while_join_group_waits(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = stable(driver, 2)
        again = driver.join(leader.member_id)
        for _ in range(3):
            driver.pass_time(SESSION_MS - 1)
            driver.heartbeat(follower.member_id, 1)
        assert again.waits
        assert leader.member_id in driver.group.members

    def test_join_group_of_a_new_member_ends_after_new_member_timeout_ms(self) -> None:
        driver = ClassicGroupDriver()
        stable(driver, 2, instances=["a", "b"])
        newcomer = driver.join(rebalance_ms=10 * NEW_MEMBER_TIMEOUT_MS)
        for _ in range(NEW_MEMBER_TIMEOUT_MS // 5_000):
            driver.pass_time(5_000)
            for member_id in list(driver.group.members):
                driver.heartbeat(member_id, 1) if member_id != "c-3" else None
        assert isinstance(newcomer.error, UnknownMemberId)


class TestStaticMembers:
    def test_join_group_of_a_returning_static_member_keeps_its_assignment(self) -> None:
        driver = ClassicGroupDriver()
        _, old = stable(driver, 2, instances=["a", "b"])
        back = driver.join(instance="b")
        assert back.value.generation == 1
        assert back.value.member_id != old.member_id
        assert driver.sync(back.value, instance="b").value.assignment == b"share-1"
        assert isinstance(driver.heartbeat(old.member_id, 1, "b"), FencedInstanceId)
        assert driver.written[-1].members[-1].member_id == back.value.member_id

    @pytest.mark.parametrize("skips", [False, True])
    def test_join_group_of_a_returning_static_leader_skips_the_assignment(self, skips: bool) -> None:
        driver = ClassicGroupDriver()
        old, _ = stable(driver, 2, instances=["a", "b"])
        back = driver.join(instance="a", skips=skips).value
        if skips:
            assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
        else:
            assert (back.leader, back.skip_assignment, back.members) == (old.member_id, False, ())
        assert driver.sync(back, instance="a").value.assignment == b"share-0"

    def test_join_group_of_a_returning_static_member_with_another_protocol_rebalances(self) -> None:
        driver = ClassicGroupDriver()
        stable(driver, 1, instances=["a"])
        driver.join(instance="a", protocols=[("sticky", b""), ("range", b"r")])
        assert driver.group.generation == 2

    def test_join_group_of_a_returning_static_member_during_the_assignment_rebalances(self) -> None:
        driver = ClassicGroupDriver()
        leader, follower = driver.join(instance="a"), driver.join(instance="b")
        driver.pass_time(2 * INITIAL_DELAY_MS)
        waiting = driver.sync(follower.value, instance="b")
        back = driver.join(instance="b")
        assert isinstance(waiting.error, FencedInstanceId)
        assert back.waits
        assert driver.join(leader.value.member_id, instance="a").value.generation == 2

    def test_join_group_fences_an_earlier_member_of_the_same_instance_id(self) -> None:
        driver = ClassicGroupDriver()
        first = driver.join(instance="a")
        second = driver.join(instance="a")
        assert isinstance(first.error, FencedInstanceId)
        driver.pass_time(2 * INITIAL_DELAY_MS)
        assert second.value.generation == 1

    def test_join_group_waits_for_an_absent_static_member_until_its_session_timeout(self) -> None:
        driver = ClassicGroupDriver()
        first, away = stable(driver, 2, instances=["a", "b"])
        again = driver.join(first.member_id, instance="a")
        driver.pass_time(SESSION_MS - 1)
        assert again.waits
        assert away.member_id in driver.group.members
        driver.pass_time(1)
        assert [member.member_id for member in again.value.members] == [first.member_id]

    def test_join_group_keeps_an_absent_static_member_with_a_long_session_timeout(self) -> None:
        driver = ClassicGroupDriver()
        joins = [driver.join(instance=name, session_ms=4 * REBALANCE_MS) for name in ("a", "b")]
        driver.pass_time(2 * INITIAL_DELAY_MS)
        first, away = (answer.value for answer in joins)
        for each in (away, first):
            driver.sync(each)
        again = driver.join(first.member_id, instance="a", session_ms=4 * REBALANCE_MS)
        driver.pass_time(REBALANCE_MS)
        assert [member.member_id for member in again.value.members] == [first.member_id, away.member_id]

    def test_leave_group_of_absent_static_members_waits_for_their_sessions(self) -> None:
        driver = ClassicGroupDriver()
        joins = [driver.join(instance=name, rebalance_ms=4_000) for name in ("a", "b")]
        driver.pass_time(2 * INITIAL_DELAY_MS)
        first, second = (answer.value for answer in joins)
        for each in (second, first):
            driver.sync(each)
        driver.leave(LeavingMember(first.member_id))
        driver.pass_time(SESSION_MS // 2)
        assert driver.group.state.value == "PreparingRebalance"
        assert driver.group.generation == 1
        driver.pass_time(SESSION_MS)
        assert driver.group.state.value == "Empty"

    def test_join_group_of_a_static_member_that_cannot_be_written_keeps_the_old_member(self) -> None:
        driver = ClassicGroupDriver()
        _, old = stable(driver, 2, instances=["a", "b"])
        driver.refuse_writes = True
        failed = driver.join(instance="b", protocols=[("range", b"new")], session_ms=1)
        assert isinstance(failed.error, NotCoordinator)
        assert driver.heartbeat(old.member_id, 1, "b") is None
        assert driver.group.members[old.member_id].protocols == {"range": b"r"}
        assert driver.group.members[old.member_id].session_timeout_ms == SESSION_MS

    def test_join_group_of_a_static_member_changes_nothing_before_it_is_written(self) -> None:
        driver = ClassicGroupDriver()
        _, old = stable(driver, 2, instances=["a", "b"])
        before, answer = driver.group.snapshot(), Answer[Joined]()
        protocols = [GroupProtocol("range", b"new")]
        request = JoinRequest(GROUP, "", CONSUMER, protocols, 1, 1, group_instance_id="b")
        decision = decide_join(driver.group, request, answer, driver.now_ms)
        assert driver.group.snapshot() == before
        assert driver.group.members.by_instance["b"] == old.member_id
        assert answer.waits
        driver.carry_out(decision)
        assert driver.group.members.by_instance["b"] == answer.value.member_id != old.member_id
        assert driver.written[-1].members[-1].subscription == b"new"


class TestLeaving:
    def test_leave_group_of_several_members_rebalances_once(self) -> None:
        driver = ClassicGroupDriver()
        joined = stable(driver, 4)
        driver.leave(*(LeavingMember(each.member_id) for each in joined[:2]))
        again = [driver.join(each.member_id) for each in joined[2:]]
        assert {answer.value.generation for answer in again} == {2}
        assert again[0].value.leader == joined[2].member_id

    def test_leave_group_of_the_last_member_empties_the_group(self) -> None:
        driver = ClassicGroupDriver()
        (only,) = stable(driver)
        driver.leave(LeavingMember(only.member_id))
        assert driver.group.state is GroupState.EMPTY
        assert driver.written[-1].generation == 2

    def test_leave_group_answers_a_waiting_join_group_with_unknown_member_id(self) -> None:
        driver = ClassicGroupDriver()
        stable(driver, 2)
        newcomer = driver.join()
        driver.leave(LeavingMember("c-3"))
        assert isinstance(newcomer.error, UnknownMemberId)

    def test_leave_group_of_a_pending_member_id_ends_the_wait_for_it(self) -> None:
        driver = ClassicGroupDriver()
        (leader,) = stable(driver)
        required = driver.join(id_required=True).error
        assert isinstance(required, MemberIdRequired)
        again = driver.join(leader.member_id)
        assert again.waits
        (outcome,) = driver.leave(LeavingMember(required.member_id))
        assert outcome.error is None
        assert again.value.generation == 2

    def test_leave_group_of_a_pending_member_id_leaves_a_stable_group(self) -> None:
        driver = ClassicGroupDriver()
        stable(driver)
        required = driver.join(id_required=True).error
        assert isinstance(required, MemberIdRequired)
        driver.leave(LeavingMember(required.member_id))
        assert driver.group.state is GroupState.STABLE


def test_start_sessions_rebalances_a_group_beyond_the_maximum_size() -> None:
    driver = ClassicGroupDriver(settings(max_size=3))
    stable(driver, 3)
    smaller = ClassicGroupDriver(settings(max_size=2))
    smaller.group.members = driver.group.members
    smaller.group.state = GroupState.STABLE
    assert driver.group.start_sessions(driver.now_ms, rebalance=False).write is None
    assert driver.group.state is GroupState.STABLE
    smaller.group.start_sessions(driver.now_ms, rebalance=False)
    assert smaller.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("assigning", [False, True])
def test_classic_group_end_answers_waiting_join_group_and_sync_group_requests(assigning: bool) -> None:
    driver = ClassicGroupDriver()
    driver.join()
    answer = driver.join()
    syncing = None
    if assigning:
        driver.pass_time(2 * INITIAL_DELAY_MS)
        syncing = driver.sync(answer.value)
    driver.carry_out(driver.group.end(NotCoordinator("the broker stops")))
    assert isinstance((syncing or answer).outcome, NotCoordinator)
    driver.carry_out(driver.group.end(NotCoordinator("again")))
