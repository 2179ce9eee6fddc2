"""The assignor `range`: runs of partitions, the same ones of every topic where topics are alike."""

from __future__ import annotations

from hypothesis import given

from tests.plugins.coordinator.assignors.groups import TOPICS, check_complete, groups
from tidelog.kernel.seams.coordination.assignors import GroupSpec, MemberSubscription
from tidelog.plugins.coordinator.assignors import RangeAssignor

ASSIGNOR = RangeAssignor()


@given(groups())
def test_every_partition_has_one_owner_who_subscribes_to_its_topic(group: GroupSpec) -> None:
    check_complete(group, ASSIGNOR.assign(group))


@given(groups())
def test_each_topic_is_spread_evenly_over_its_subscribers_in_runs(group: GroupSpec) -> None:
    assigned = ASSIGNOR.assign(group)
    for topic, count in group.partition_counts.items():
        runs = [
            assigned[name].get(topic, frozenset())
            for name, member in group.members.items()
            if topic in member.topic_ids
        ]
        assert max(map(len, runs)) - min(map(len, runs)) <= 1
        assert all(max(run) - min(run) == len(run) - 1 for run in runs if run)
        assert sum(map(len, runs)) == count


@given(groups(alike=True, even_topics=True))
def test_topics_alike_are_cut_alike(group: GroupSpec) -> None:
    for topics in ASSIGNOR.assign(group).values():
        assert len(set(topics.values())) <= 1


def test_static_members_keep_their_run_when_they_come_back_under_another_id() -> None:
    wants = frozenset(TOPICS[:1])

    def assigned(*members: tuple[str, str]) -> dict[str, frozenset[int]]:
        group = GroupSpec(
            {name: MemberSubscription(wants, instance_id=instance) for name, instance in members},
            {TOPICS[0]: 5},
        )
        result = ASSIGNOR.assign(group)
        return {instance: result[name][TOPICS[0]] for name, instance in members}

    assert assigned(("m1", "a"), ("m2", "b")) == assigned(("m4", "a"), ("m3", "b"))


def test_more_members_than_partitions_leave_some_without() -> None:
    wants = frozenset(TOPICS[:1])
    group = GroupSpec({name: MemberSubscription(wants) for name in "abc"}, {TOPICS[0]: 2})
    assert ASSIGNOR.assign(group) == {
        "a": {TOPICS[0]: frozenset([0])},
        "b": {TOPICS[0]: frozenset([1])},
        "c": {},
    }
