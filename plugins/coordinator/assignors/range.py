"""The assignor `range`: every topic in as many ranges of partitions as it has members.

Members have one order for all topics: static ones first, by their instance ids. So where all members
subscribe to the same topics with the same number of partitions, each gets the same partition numbers of every
topic, which stream joins need (co-partitioning), and static members keep theirs over a restart.

Source: KIP-848, "Server-side assignors".
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from tidelog.kernel.pace import run_to_end

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec, MemberSubscription, PartitionsByTopic


class RangeAssignor:
    """Assigns consecutive partitions; the first members get one more where the number is uneven."""

    name = "range"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Return the ranges of every member, whatever it had before."""
        return run_to_end(self.assign_in_steps(group))

    def assign_in_steps(self, group: GroupSpec) -> Generator[None, None, Mapping[str, PartitionsByTopic]]:
        """Do the same, and yield after each topic."""
        ordered = sorted(group.members.items(), key=_place)
        assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in group.members}
        for topic_id, count in group.partition_counts.items():
            subscribed = [
                member_id for member_id, subscription in ordered if topic_id in subscription.topic_ids
            ]
            for member_id, partitions in zip(subscribed, _ranges(count, len(subscribed)), strict=True):
                if partitions:
                    assigned[member_id][topic_id] = partitions
            yield
        return assigned


def _place(item: tuple[str, MemberSubscription]) -> tuple[bool, str]:
    member_id, subscription = item
    if subscription.instance_id is None:
        return True, member_id
    return False, subscription.instance_id


def _ranges(partitions: int, members: int) -> list[frozenset[int]]:
    """Return the numbers below `partitions` in `members` ranges, the longer ones first."""
    ranges: list[frozenset[int]] = []
    start = 0
    for index in range(members):
        end = start + partitions // members + (index < partitions % members)
        ranges.append(frozenset(range(start, end)))
        start = end
    return ranges
