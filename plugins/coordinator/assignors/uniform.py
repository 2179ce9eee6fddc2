"""The assignor `uniform`: partitions spread evenly over members, and as few moved as that allows.

Balance comes before stickiness. Where all members subscribe to the same topics no two differ by more than one
partition, and only what is above a member's share moves. Otherwise partitions move from members with more to
subscribers of their topic with at least two fewer, until there is no such pair or a bounded number of rounds
has been made.

Source: KIP-848, "Server-side assignors".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.assignors.balance import Balance
from tidelog.plugins.coordinator.assignors.keeping import TopicPartitionId, kept_partitions

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec, PartitionsByTopic


class UniformAssignor:
    """Every member about as many partitions as any other."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """What every member shall have, as close to the assignment before as balance allows."""
        owned, free = kept_partitions(group)
        subscriptions = {subscription.topic_ids for subscription in group.members.values()}
        if len(subscriptions) <= 1:
            free = _cut_to_shares(owned, free)
            _fill_to_shares(owned, free)
        else:
            balance = Balance(group, owned)
            balance.hand_out(free)
            balance.even_out()
        return {member_id: _by_topic(partitions) for member_id, partitions in owned.items()}


def _shares(owned: Mapping[str, list[TopicPartitionId]], total: int) -> dict[str, int]:
    """How many partitions each member may have; one more goes to those that have the most already."""
    if not owned:
        return {}
    least, extra = divmod(total, len(owned))
    ordered = sorted(owned, key=lambda member_id: -len(owned[member_id]))
    return {member_id: least + (place < extra) for place, member_id in enumerate(ordered)}


def _cut_to_shares(
    owned: dict[str, list[TopicPartitionId]], free: list[TopicPartitionId]
) -> list[TopicPartitionId]:
    """Take from members what is above their share; gives all that is free then."""
    freed = list(free)
    total = len(free) + sum(map(len, owned.values()))
    for member_id, share in _shares(owned, total).items():
        freed += owned[member_id][share:]
        del owned[member_id][share:]
    return freed


def _fill_to_shares(owned: dict[str, list[TopicPartitionId]], free: list[TopicPartitionId]) -> None:
    total = len(free) + sum(map(len, owned.values()))
    remaining = iter(free)
    for member_id, share in _shares(owned, total).items():
        partitions = owned[member_id]
        while len(partitions) < share:
            partitions.append(next(remaining))


def _by_topic(partitions: list[TopicPartitionId]) -> PartitionsByTopic:
    topics: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}
