"""What of the assignment before can stay, and what has nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec


TopicPartitionId: TypeAlias = tuple[bytes, int]
"""A partition: the id of its topic and its number."""


def kept_partitions(group: GroupSpec) -> tuple[dict[str, list[TopicPartitionId]], list[TopicPartitionId]]:
    """The partitions that members had, still exist and are still subscribed to; and all others, in order.

    A partition that two members had stays with the first of them.
    """
    wanted: set[bytes] = set()
    for subscription in group.members.values():
        wanted |= subscription.topic_ids
    free = dict.fromkeys(
        (topic_id, partition)
        for topic_id in sorted(wanted)
        for partition in range(group.partition_counts[topic_id])
    )
    owned: dict[str, list[TopicPartitionId]] = {}
    for member_id, subscription in group.members.items():
        kept = owned[member_id] = []
        for topic_id in sorted(subscription.target.keys() & subscription.topic_ids):
            for partition in sorted(subscription.target[topic_id]):
                if (topic_id, partition) in free:
                    del free[topic_id, partition]
                    kept.append((topic_id, partition))
    return owned, list(free)
