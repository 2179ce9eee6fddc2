"""Conformance of partition assignors: a suite that every assignor passes, on groups drawn at random.

class TestMyAssignor(PartitionAssignorConformance, plugin=my_plugin): ...
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import attrs
import pytest

from tidelog.kernel.seams.coordination.assignors import (
    AssignmentFailed,
    AssignorInSteps,
    GroupSpec,
    MemberSubscription,
    PartitionAssignor,
    PartitionsByTopic,
)

GROUPS = 200
TOPIC_IDS = tuple(bytes(15) + bytes([number]) for number in range(1, 5))
GONE = bytes(15) + b"\xff"
"""The id of a topic that was deleted, which targets of members may still name."""


def random_group(choose: random.Random) -> GroupSpec:
    """Return a group of up to seven members with subscriptions, racks and earlier targets of any kind."""
    counts = {topic_id: choose.choice((1, 1, 2, 5, 40)) for topic_id in TOPIC_IDS}
    names = choose.sample(["a", "b", "c", "d", "é", "", "m" * 200], choose.randint(1, 7))
    same = choose.random() < 0.5
    topics = frozenset(choose.sample(TOPIC_IDS, choose.randint(0, 4)))
    members = {
        name: MemberSubscription(
            topics if same else frozenset(choose.sample(TOPIC_IDS, choose.randint(0, 4))),
            target=choose.choice((_no_target(), {TOPIC_IDS[0]: frozenset({0, 99}), GONE: frozenset({0})})),
            instance_id=choose.choice((None, f"static {name}")),
            rack_id=choose.choice((None, "r1", "r2")),
        )
        for name in names
    }
    wanted = frozenset[bytes]().union(*(member.topic_ids for member in members.values()))
    return GroupSpec(members, {topic_id: counts[topic_id] for topic_id in wanted})


def _no_target() -> PartitionsByTopic:
    return {}


class PartitionAssignorConformance:
    """What a group relies on; `plugin` is the module with the hook of the assignor to prove.

    `assignor_name` chooses one where the plugin offers several. `assigns_everything`: each partition that a
    member subscribes to has a member; override it for an assignor that leaves some out on purpose.
    """

    plugin: ClassVar[ModuleType]
    assignor_name: ClassVar[str | None] = None
    assigns_everything: ClassVar[bool] = True

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    def assignor(self) -> PartitionAssignor:
        """Return the assignor under test."""
        offered: Sequence[PartitionAssignor] = list(self.plugin.tidelog_partition_assignors())
        (chosen,) = [each for each in offered if self.assignor_name in (None, each.name)]
        return chosen

    def groups(self) -> Iterator[GroupSpec]:
        """Iterate over groups."""
        return (random_group(random.Random(seed)) for seed in range(GROUPS))

    def test_no_partition_has_two_members(self, assignor: PartitionAssignor) -> None:
        for group, assigned in self._assignments(assignor):
            given = list(_partitions(assigned))
            assert len(set(given)) == len(given), f"a partition of {group} has two members"

    def test_members_get_partitions_of_their_topics_only(self, assignor: PartitionAssignor) -> None:
        for group, assigned in self._assignments(assignor):
            assert not assigned.keys() - group.members.keys(), "a member is not in the group"
            for name, topics in assigned.items():
                assert not topics.keys() - group.members[name].topic_ids, "a topic is not subscribed to"
                for topic_id, partitions in topics.items():
                    assert partitions, "a topic has no partition"
                    assert partitions <= set(range(group.partition_counts[topic_id])), "there is no such one"

    def test_every_partition_has_a_member(self, assignor: PartitionAssignor) -> None:
        if not self.assigns_everything:
            pytest.skip("the assignor leaves partitions out")
        for group, assigned in self._assignments(assignor):
            everything = {
                (topic_id, number)
                for topic_id, count in group.partition_counts.items()
                for number in range(count)
            }
            assert set(_partitions(assigned)) == everything, f"partitions of {group} have no member"

    def test_a_group_that_has_not_changed_keeps_its_assignment(self, assignor: PartitionAssignor) -> None:
        for group, assigned in self._assignments(assignor):
            settled = attrs.evolve(
                group,
                members={
                    name: attrs.evolve(member, target=assigned.get(name, {}))
                    for name, member in group.members.items()
                },
            )
            again = assignor.assign(settled)
            assert _without_empty(again) == _without_empty(assigned), f"{group} is rebalanced for ever"

    def test_assign_depends_on_the_group_alone_and_does_not_change_it(
        self, assignor: PartitionAssignor
    ) -> None:
        for group, assigned in self._assignments(assignor):
            before = copy.deepcopy(group)
            assert _without_empty(assignor.assign(group)) == _without_empty(assigned)
            assert group == before

    def test_assign_in_steps_does_the_same(self, assignor: PartitionAssignor) -> None:
        if not isinstance(assignor, AssignorInSteps):
            pytest.skip("the assignor has no steps")
        for group, assigned in self._assignments(assignor):
            assert _without_empty(_all_steps(assignor, group)) == _without_empty(assigned)

    def _assignments(
        self, assignor: PartitionAssignor
    ) -> Iterator[tuple[GroupSpec, Mapping[str, PartitionsByTopic]]]:
        """Iterate over groups with what the assignor makes of them; those that it refuses are left out."""
        refused = 0
        for group in self.groups():
            try:
                yield group, assignor.assign(group)
            except AssignmentFailed:
                refused += 1
        assert refused < GROUPS, "every group is refused"


def _all_steps(assignor: AssignorInSteps, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
    steps = assignor.assign_in_steps(group)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assigned: Mapping[str, PartitionsByTopic] = end.value
            return assigned


def _partitions(assigned: Mapping[str, PartitionsByTopic]) -> Iterator[tuple[bytes, int]]:
    for topics in assigned.values():
        for topic_id, partitions in topics.items():
            yield from ((topic_id, number) for number in partitions)


def _without_empty(assigned: Mapping[str, PartitionsByTopic]) -> dict[str, dict[bytes, frozenset[int]]]:
    return {name: dict(topics) for name, topics in assigned.items() if topics}
