"""What members of the consumer protocol are told: joining, giving up, getting, and Kafka's errors."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tests.plugins.coordinator.consumer_groups.driver import SETTINGS, ConsumerGroupDriver, FakeTopics
from tests.tables import for_each
from tidelog.kernel.errors import (
    BrokerError,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from tidelog.kernel.pace import run_to_end
from tidelog.plugins.coordinator.consumer_groups import assigning
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroupState
from tidelog.plugins.coordinator.consumer_groups.member import MemberState


def test_heartbeat_of_the_first_member_assigns_all_partitions_at_once() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=3))
    answer = driver.join("a", "t")
    assert (answer.member_epoch, driver.owned(answer)) == (1, {"t": {0, 1, 2}})
    assert answer.heartbeat_interval_ms == 5_000
    assert driver.group.state is ConsumerGroupState.STABLE


def test_changes_nothing_is_true_of_a_heartbeat_that_says_nothing_new() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=3))
    answer = driver.join("a", "t")
    same: list[dict[str, object]] = [{}, {"owned": answer.assignment}, {"topic_names": frozenset("t")}]
    for rest in same:
        driver.heartbeat("a", 1, **rest)
    assert driver.answered_at_once == 3
    other: list[dict[str, object]] = [{"topic_names": frozenset("tu")}, {"rack_id": "r"}, {"client_id": "c"}]
    for rest in other:
        driver.heartbeat("a", driver.group.epoch, **rest)
    driver.topics.put("t", 4)
    driver.heartbeat("a", driver.group.epoch)
    assert driver.answered_at_once == 3


def test_heartbeat_assigns_a_partition_only_after_its_owner_revoked_it() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t")
    joined = driver.join("b", "t")
    assert (joined.member_epoch, joined.assignment) == (2, {})
    (kept,) = driver.owned(told := driver.heartbeat("a", 1)).values()
    assert told.member_epoch == 1
    assert driver.heartbeat("b", 2).assignment is None
    assert driver.heartbeat("a", 1, owned=driver.partitions(t=kept)).member_epoch == 2
    taken = driver.owned(driver.heartbeat("b", 2))
    assert taken == {"t": {0, 1} - kept}
    assert driver.group.state is ConsumerGroupState.STABLE


def test_heartbeats_of_a_settled_group_tell_and_write_nothing() -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t")
    written = len(driver.log)
    answer = driver.heartbeat("a", 1)
    assert (answer.member_epoch, answer.assignment) == (1, None)
    assert len(driver.log) == written


def test_heartbeat_with_all_fields_returns_the_whole_assignment() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=1))
    driver.join("a", "t")
    owned = driver.partitions(t=[0])
    full = driver.heartbeat("a", 1, rebalance_timeout_ms=30_000, topic_names=frozenset("t"), owned=owned)
    assert full.assignment == owned


def test_heartbeat_repeats_the_assignment_to_a_member_that_missed_an_answer() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t")
    driver.topics.put("t", 3)
    driver.heartbeat("a", 1)
    again = driver.heartbeat("a", 1, owned=driver.partitions(t=[0, 1]))
    assert (again.member_epoch, driver.owned(again)) == (2, {"t": {0, 1, 2}})


def test_heartbeat_that_leaves_releases_the_partitions_of_the_member() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t")
    driver.join("b", "t")
    assert driver.heartbeat("a", -1).member_epoch == -1
    assert driver.owned(driver.heartbeat("b", 2)) == {"t": {0, 1}}


def test_heartbeat_joining_an_empty_group_ignores_the_assignment_interval() -> None:
    driver = ConsumerGroupDriver(settings=attrs.evolve(SETTINGS, assignment_interval_ms=60_000))
    driver.join("a", "t")
    driver.heartbeat("a", -1)
    assert driver.group.state is ConsumerGroupState.EMPTY
    assert driver.owned(driver.join("b", "t")) == {"t": {0, 1, 2, 3}}


def test_heartbeat_assigns_members_that_join_within_the_assignment_interval_together() -> None:
    driver = ConsumerGroupDriver(settings=attrs.evolve(SETTINGS, assignment_interval_ms=1_000))
    driver.join("a", "t")
    assert driver.join("b", "t").assignment == {}
    assert driver.join("c", "t").assignment == {}
    assert (driver.group.epoch, driver.group.assignment_epoch) == (3, 1)
    assert driver.group.state is ConsumerGroupState.ASSIGNING
    driver.now_ms += 1_000
    driver.heartbeat("b", 1)
    assert driver.group.assignment_epoch == 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda topics: topics.put("t", 6), {"t": {0, 1, 2, 3, 4, 5}}, id="more partitions"),
        pytest.param(lambda topics: topics.put("u", 1), {"t": {0, 1, 2, 3}, "u": {0}}, id="a topic created"),
        pytest.param(lambda topics: topics.delete("t"), {}, id="a topic deleted"),
    ],
)
def test_heartbeat_updates_the_target_assignment_when_subscribed_topics_change(
    change: Callable[[FakeTopics], None], expected: dict[str, set[int]]
) -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t", "u")
    change(driver.topics)
    driver.heartbeat("a", 1)
    driver.heartbeat("a", 1, owned={})
    assert driver.named(driver.group.targets["a"]) == expected
    assert driver.group.state is ConsumerGroupState.STABLE


def test_heartbeat_does_not_rebalance_for_topics_without_subscribers() -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t")
    driver.topics.put("other", 1)
    assert driver.heartbeat("a", 1).member_epoch == 1
    assert driver.group.epoch == 1


def test_heartbeat_revokes_unsubscribed_topics_before_the_next_assignment() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=1, u=1), attrs.evolve(SETTINGS, assignment_interval_ms=60_000))
    driver.join("a", "t", "u")
    answer = driver.heartbeat("a", 1, topic_names=frozenset("u"), owned=driver.partitions(t=[0], u=[0]))
    assert driver.owned(answer) == {"u": {0}}
    assert driver.group.members["a"].current.state is MemberState.UNREVOKED_PARTITIONS


def test_heartbeat_uses_the_assignor_that_most_members_ask_for() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=4, u=4))
    driver.join("a", "t", "u", server_assignor="range")
    driver.join("b", "t", "u", server_assignor="range")
    driver.join("c", "t", "u", server_assignor="uniform")
    assert [driver.named(driver.group.targets[member]) for member in "abc"] == [
        {"t": {0, 1}, "u": {0, 1}},
        {"t": {2}, "u": {2}},
        {"t": {3}, "u": {3}},
    ]


def test_heartbeat_assigns_new_topics_that_match_the_topic_regex() -> None:
    driver = ConsumerGroupDriver(FakeTopics(**{"log-a": 1, "other": 1}))
    joined = driver.join("a", topic_names=None, topic_regex="log-.*")
    assert driver.owned(joined) == {"log-a": {0}}
    driver.topics.put("log-b", 1)
    driver.topics.put("my-log-c", 1)
    driver.now_ms += 10_001
    assert driver.owned(driver.heartbeat("a", 1)) == {"log-a": {0}, "log-b": {0}}
    driver.heartbeat("a", 2, topic_regex="")
    assert driver.group.regexes == {}


def test_heartbeat_evaluates_topic_regex_for_new_topics_at_most_every_ten_seconds() -> None:
    driver = ConsumerGroupDriver(FakeTopics(a=1))
    driver.join("m", topic_names=None, topic_regex=".*")
    driver.topics.put("b", 1)
    driver.now_ms += 9_999
    assert driver.heartbeat("m", 1).assignment is None


def test_heartbeat_of_a_returning_static_member_returns_its_partitions_without_a_rebalance() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t", instance_id="i")
    driver.join("b", "t", instance_id="j")
    driver.heartbeat("a", 1, instance_id="i")
    driver.heartbeat("a", 1, instance_id="i", owned=driver.partitions(t=[0]))
    driver.heartbeat("b", 2, instance_id="j")
    assert driver.group.state is ConsumerGroupState.STABLE
    assert driver.heartbeat("a", -2, instance_id="i").member_epoch == -2
    back = driver.join("a2", "t", instance_id="i")
    assert (back.member_epoch, driver.owned(back)) == (2, {"t": {0}})
    assert driver.group.epoch == 2
    assert driver.group.state is ConsumerGroupState.STABLE


def test_heartbeat_of_a_fenced_member_joins_again_with_its_id() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=1))
    driver.join("a", "t")
    again = driver.join("a", "t")
    assert (again.member_epoch, driver.owned(again)) == (1, {"t": {0}})


def test_heartbeat_in_version_0_generates_a_member_id() -> None:
    answer = ConsumerGroupDriver().join("", "t", brings_member_id=False)
    assert answer.member_id


def test_heartbeat_of_a_member_that_takes_the_place_of_a_static_one_has_its_own_assigned() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t", instance_id="i")
    driver.join("b", "t")
    driver.heartbeat("a", 1, instance_id="i")
    driver.heartbeat("a", 1, instance_id="i", owned=driver.partitions(t=[0]))
    driver.heartbeat("b", 2)
    driver.heartbeat("a", -2, instance_id="i")
    assert driver.owned(driver.join("b", "t", instance_id="i")) == {"t": {0, 1}}
    assert driver.group.state is ConsumerGroupState.STABLE


ERRORS: list[tuple[str, type[BrokerError], str, int, dict[str, object]]] = [
    ("empty member id", InvalidRequest, "", 1, {}),
    ("empty member id when leaving", InvalidRequest, "", -1, {"brings_member_id": False}),
    ("empty instance id", InvalidRequest, "a", 1, {"instance_id": ""}),
    ("empty rack id", InvalidRequest, "a", 1, {"rack_id": ""}),
    ("no such epoch", InvalidRequest, "a", -3, {}),
    ("leaving for a while without instance id", InvalidRequest, "a", -2, {}),
    ("joining without a timeout", InvalidRequest, "n", 0, {"owned": {}, "topic_names": frozenset("t")}),
    ("joining without a subscription", InvalidRequest, "n", 0, {"owned": {}, "rebalance_timeout_ms": 1}),
    ("joining without partitions", InvalidRequest, "n", 0, {"rebalance_timeout_ms": 1, "topic_regex": "t"}),
    ("unknown assignor", UnsupportedAssignor, "a", 1, {"server_assignor": "sticky"}),
    ("unknown member", UnknownMemberId, "n", 1, {}),
    ("unknown member leaving", UnknownMemberId, "n", -1, {}),
    ("unknown instance", UnknownMemberId, "a", 1, {"instance_id": "n"}),
    ("unknown instance leaving", UnknownMemberId, "a", -2, {"instance_id": "n"}),
    ("another's instance", FencedInstanceId, "a", 2, {"instance_id": "i"}),
    ("another's instance leaving", FencedInstanceId, "a", -1, {"instance_id": "i"}),
    ("epoch too high", FencedMemberEpoch, "a", 3, {}),
    ("epoch too low", FencedMemberEpoch, "s", 1, {"instance_id": "i"}),
    ("bad expression", InvalidRegularExpression, "a", 1, {"topic_regex": "("}),
    ("look-around", InvalidRegularExpression, "a", 1, {"topic_regex": "(?=a)b"}),
    ("giant expression", InvalidRegularExpression, "a", 1, {"topic_regex": f"[{'a' * 5_000}]"}),
]


@for_each(
    ("error", "member_id", "epoch", "rest"),
    [pytest.param(*case[1:], id=case[0]) for case in ERRORS],
)
def test_heartbeat_errors_leave_the_group_unchanged(
    error: type[BrokerError], member_id: str, epoch: int, rest: dict[str, object]
) -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t")
    driver.join("s", "t", instance_id="i")
    before = driver.group
    with pytest.raises(error):
        driver.heartbeat(member_id, epoch, **rest)
    assert driver.group is before


def test_heartbeat_accepts_the_previous_epoch_only_if_owned_partitions_are_assigned() -> None:
    driver = ConsumerGroupDriver(FakeTopics(t=2))
    driver.join("a", "t")
    driver.join("b", "t")
    driver.heartbeat("a", 1)
    (kept,) = driver.named(
        {topic: frozenset(owned) for topic, owned in driver.group.members["a"].current.assigned.items()}
    ).values()
    driver.heartbeat("a", 1, owned=driver.partitions(t=kept))
    for owned in (None, driver.partitions(t=[0, 1])):
        with pytest.raises(FencedMemberEpoch):
            driver.heartbeat("a", 1, owned=owned)
    assert driver.heartbeat("a", 1, owned=driver.partitions(t=kept)).member_epoch == 2


def test_heartbeat_refuses_to_join_with_an_unreleased_instance_id() -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t", instance_id="i")
    with pytest.raises(UnreleasedInstanceId):
        driver.join("b", "t", instance_id="i")


def test_heartbeat_joining_a_full_group_succeeds_only_for_returning_static_members() -> None:
    driver = ConsumerGroupDriver(settings=attrs.evolve(SETTINGS, max_size=1))
    driver.join("a", "t", instance_id="i")
    with pytest.raises(GroupMaxSizeReached):
        driver.join("b", "t")
    driver.heartbeat("a", -2, instance_id="i")
    assert driver.join("a2", "t", instance_id="i").member_epoch == 1


def test_assignment_of_a_static_member_that_is_replaced_between_its_steps_keeps_its_partitions() -> None:
    driver = ConsumerGroupDriver()
    driver.join("a", "t")
    driver.join("old", "t", instance_id="i")
    driver.heartbeat("old", -2, instance_id="i")
    target = driver.group.targets["old"]
    steps = assigning._spec(driver.group, driver.context())  # pyright: ignore[reportPrivateUsage]
    next(steps)
    driver.join("new", "t", instance_id="i")
    assert run_to_end(steps).members["old"].target == target != {}
