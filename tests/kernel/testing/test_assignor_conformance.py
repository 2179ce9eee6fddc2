"""The suite of partition assignors finds each wrong one, and passes those of the default bundle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping

import pytest

from tidelog.kernel.seams.coordination.assignors import (
    AssignmentFailed,
    GroupSpec,
    PartitionAssignor,
    PartitionsByTopic,
)
from tidelog.kernel.testing.assignors import TOPIC_IDS
from tidelog.kernel.testing.assignors import PartitionAssignorConformance as Suite
from tidelog.plugins.coordinator import plugin as coordinator
from tidelog.plugins.scaffold.skeletons.assignor import SkeletonAssignor


class TestUniform(Suite, plugin=coordinator):
    assignor_name = "uniform"


class TestRange(Suite, plugin=coordinator):
    assignor_name = "range"


class AllToAll(SkeletonAssignor):
    """Partitions with several members, who all read them."""

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        return {
            name: {
                topic_id: frozenset(range(group.partition_counts[topic_id])) for topic_id in member.topic_ids
            }
            for name, member in group.members.items()
        }


class ToAnyone(SkeletonAssignor):
    """Topics that a member does not subscribe to."""

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        first = min(group.members)
        return {first: {each: frozenset(range(count)) for each, count in group.partition_counts.items()}}


class LeavesTheLastOut(SkeletonAssignor):
    """Partitions that no member reads."""

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        assigned = super().assign(group)
        return {
            name: {
                topic_id: kept
                for topic_id, numbers in topics.items()
                if (kept := numbers - {group.partition_counts[topic_id] - 1})
            }
            for name, topics in assigned.items()
        }


class OneTooMany(SkeletonAssignor):
    """A partition that does not exist."""

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        assigned = super().assign(group)
        return {
            name: {
                topic_id: frozenset(number + 1 for number in numbers) for topic_id, numbers in topics.items()
            }
            for name, topics in assigned.items()
        }


class NeverSettles(SkeletonAssignor):
    """Moves partitions whenever it is asked."""

    turns = itertools.count()

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        names = sorted(group.members)
        turn = next(self.turns) % len(names)
        renamed = dict(zip(names, names[turn:] + names[:turn], strict=True))
        members = {renamed[name]: member for name, member in group.members.items()}
        assigned = super().assign(GroupSpec(members, group.partition_counts))
        return {name: assigned.get(renamed[name], {}) for name in names}


class ForgetsAfterATurn(SkeletonAssignor):
    """Takes what a member has for what it may keep, without the rest."""

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        if any(topic in TOPIC_IDS for member in group.members.values() for topic in member.target):
            return {}
        return super().assign(group)


class Refuses(SkeletonAssignor):
    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        raise AssignmentFailed("not today")


class StepsDiffer(SkeletonAssignor):
    """Assigns nothing in steps."""

    def assign_in_steps(self, group: GroupSpec) -> Generator[None, None, Mapping[str, PartitionsByTopic]]:
        yield
        return {}


WRONG: dict[type[SkeletonAssignor], Callable[[PartitionAssignor], None]] = {
    AllToAll: Suite().test_no_partition_has_two_members,
    ToAnyone: Suite().test_members_get_partitions_of_their_topics_only,
    LeavesTheLastOut: Suite().test_every_partition_has_a_member,
    OneTooMany: Suite().test_members_get_partitions_of_their_topics_only,
    NeverSettles: Suite().test_assign_depends_on_the_group_alone_and_does_not_change_it,
    ForgetsAfterATurn: Suite().test_a_group_that_has_not_changed_keeps_its_assignment,
    Refuses: Suite().test_every_partition_has_a_member,
    StepsDiffer: Suite().test_assign_in_steps_does_the_same,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_assignor_conformance_finds_a_wrong_assignor(wrong: type[SkeletonAssignor]) -> None:
    with pytest.raises(AssertionError):
        WRONG[wrong](wrong())
