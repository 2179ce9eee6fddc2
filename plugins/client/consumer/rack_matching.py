"""Racks in assignments of classic groups: members get partitions of which their own rack has a replica.

Such a member fetches from that replica (KIP-392), so that records stay within a rack. An assignment is as
even with racks as without them; what they decide is who gets which partition.

Source: KIP-881; Apache Kafka 4.4, `AbstractPartitionAssignor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidelog.kernel.topic_partition import TopicPartition

PartitionRacks: TypeAlias = "Mapping[TopicPartition, frozenset[str]]"
"""The racks that have a replica of a partition; none for one that is missing."""
MemberRacks: TypeAlias = "Mapping[str, str | None]"
"""The rack of each member by its id, None for one that has not said it."""


def racks_decide(
    members: Iterable[str | None], partitions: Iterable[TopicPartition], racks: PartitionRacks
) -> bool:
    """Return whether racks make a difference: not where each rack has a replica of all partitions."""
    wanted = {rack for rack in members if rack}
    if not wanted:
        return False
    of_partitions = [racks.get(each, frozenset()) for each in partitions]
    everywhere = frozenset[str]().union(*of_partitions)
    return not wanted.isdisjoint(everywhere) and any(each != everywhere for each in of_partitions)


class RackMatcher:
    """Improves an assignment: no member gets more or less than another by it than before."""

    def __init__(
        self,
        assigned: dict[str, list[TopicPartition]],
        takers: Mapping[str, Sequence[str]],
        members: MemberRacks,
        racks: PartitionRacks,
    ) -> None:
        """Set the assignment, which is changed, and `takers`: the members that subscribe to each topic."""
        self._assigned = assigned
        self._takers = takers
        self._members = members
        self._racks = racks
        self._useless: set[tuple[str, str]] = set()

    def match(self) -> bool:
        """Move and swap partitions until no step makes more of them match; return whether there was any.

        Each step makes one more match and undoes none: what was improved once stays as it is.
        """
        is_changed = False
        self._useless.clear()
        while any(self._improve(member) for member in self._assigned):
            is_changed = True
        return is_changed

    def matches(self, member: str, partition: TopicPartition) -> bool:
        """Return whether the rack of the member has a replica; one without a rack is content with any."""
        rack = self._members[member]
        return not rack or rack in self._racks.get(partition, ())

    def choices(self, partition: TopicPartition) -> int:
        """Return how many members match that may have the partition."""
        return sum(self.matches(each, partition) for each in self._takers[partition.topic])

    def _improve(self, giver: str) -> bool:
        found = False
        for partition in [each for each in self._assigned[giver] if not self.matches(giver, each)]:
            found |= any(
                self._move(giver, partition, taker) or self._swap(giver, partition, taker)
                for taker in self._takers[partition.topic]
                if taker != giver and self.matches(taker, partition)
            )
        return found

    def _move(self, giver: str, partition: TopicPartition, taker: str) -> bool:
        if len(self._assigned[taker]) >= len(self._assigned[giver]):
            return False
        self._change(giver, partition, taker)
        return True

    def _swap(self, giver: str, partition: TopicPartition, taker: str) -> bool:
        # What was looked through in vain is not looked through for each partition of the giver.
        if (giver, taker) in self._useless:
            return False
        for back in self._assigned[taker]:
            is_wanted = self.matches(giver, back) or not self.matches(taker, back)
            if is_wanted and giver in self._takers[back.topic]:
                self._change(taker, back, giver)
                self._change(giver, partition, taker)
                return True
        self._useless.add((giver, taker))
        return False

    def _change(self, giver: str, partition: TopicPartition, taker: str) -> None:
        self._assigned[giver].remove(partition)
        self._assigned[taker].append(partition)
        self._useless = {each for each in self._useless if each[1] not in (giver, taker)}
