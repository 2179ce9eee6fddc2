"""The assignor `range`: runs of partitions, the same ones of every topic where topics are alike."""

from __future__ import annotations

from hypothesis import given

from tests.plugins.coordinator.assignors.groups import TOPICS, check_complete, groups
from tidelog.kernel.seams.coordination.assignors import GroupSpec, MemberSubscription
from tidelog.plugins.coordinator.assignors import RangeAssignor

ASSIGNOR = RangeAssignor()


@given(groups())
def test_assign_gives_every_partition_to_one_subscriber_of_its_topic(group: GroupSpec) -> None:
    check_complete(group, ASSIGNOR.assign(group))


@given(groups())
def test_assign_splits_each_topic_evenly_into_consecutive_partitions(group: GroupSpec) -> None:
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
def test_assign_co_partitions_topics_with_equal_subscribers_and_partition_counts(group: GroupSpec) -> None:
    for topics in ASSIGNOR.assign(group).values():
        assert len(set(topics.values())) <= 1


def test_assign_keeps_partitions_of_static_members_that_return_with_new_member_ids() -> None:
    wants = frozenset(TOPICS[:1])

    def assigned(*members: tuple[str, str]) -> dict[str, frozenset[int]]:
        group = GroupSpec(
            {name: MemberSubscription(wants, instance_id=instance) for name, instance in members},
            {TOPICS[0]: 5},
        )
        result = ASSIGNOR.assign(group)
        return {instance: result[name][TOPICS[0]] for name, instance in members}

    assert assigned(("m1", "a"), ("m2", "b")) == assigned(("m4", "a"), ("m3", "b"))


def test_assign_gives_nothing_to_members_beyond_the_partition_count() -> None:
    wants = frozenset(TOPICS[:1])
    group = GroupSpec({name: MemberSubscription(wants) for name in "abc"}, {TOPICS[0]: 2})
    assert ASSIGNOR.assign(group) == {
        "a": {TOPICS[0]: frozenset([0])},
        "b": {TOPICS[0]: frozenset([1])},
        "c": {},
    }
