"""A partition assignor: deals the partitions of each topic out to the members that subscribe to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.coordination.assignors import GroupSpec, PartitionAssignor, PartitionsByTopic

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""


class SkeletonAssignor:
    """What `group.consumer.assignors` offers to consumers; a pure function of the group."""

    name = "skeleton"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Return the partitions of each member."""
        dealt: dict[str, dict[bytes, frozenset[int]]] = defaultdict(dict)
        for topic_id, count in group.partition_counts.items():
            members = sorted(name for name in group.members if topic_id in group.members[name].topic_ids)
            for number, member in enumerate(members[:count]):
                dealt[member][topic_id] = frozenset(range(number, count, len(members)))
        return dealt


@hookimpl
def tidelog_partition_assignors() -> Iterable[PartitionAssignor]:
    """Offer the assignor."""
    return [SkeletonAssignor()]
