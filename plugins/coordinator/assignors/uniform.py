"""The assignor `uniform`: an even number of partitions for each member, moving as few as that allows.

Balance comes before stickiness. Where all members subscribe to the same topics no two differ by more than one
partition, and only what is above a member's share moves. Otherwise partitions move from members with more to
subscribers of their topic with at least two fewer, until there is no such pair or a bounded number of rounds
has been made.

Source: KIP-848, "Server-side assignors".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec, PartitionsByTopic

TopicPartitionId: TypeAlias = tuple[bytes, int]
"""A partition: the id of its topic and its number."""
_Owned: TypeAlias = dict[str, list[TopicPartitionId]]
"""The partitions of each member."""
_Heap: TypeAlias = list[tuple[int, str]]
"""Members by their number of partitions when the entry was made, which may have changed since."""

MAX_ROUNDS: Final = 16
"""Rounds over all topics in search of moves; each about halves what is uneven, so more gain little."""


class UniformAssignor:
    """Assigns about the same number of partitions to every member."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Return the partitions of every member, as close to its last target as balance allows."""
        owned, free = _keep_targets(group)
        subscriptions = {subscription.topic_ids for subscription in group.members.values()}
        if len(subscriptions) <= 1:
            free = _cut_to_shares(owned, free)
            _fill_to_shares(owned, free)
        else:
            balance = _Balance(group, owned)
            balance.hand_out(free)
            balance.even_out()
        return {member_id: _by_topic(partitions) for member_id, partitions in owned.items()}


def _keep_targets(group: GroupSpec) -> tuple[_Owned, list[TopicPartitionId]]:
    """Return the targets that still exist and are subscribed to, and all other partitions in order.

    A partition in the targets of two members stays with the first of them.
    """
    wanted: set[bytes] = set()
    for subscription in group.members.values():
        wanted |= subscription.topic_ids
    free = dict.fromkeys(
        (topic_id, partition)
        for topic_id in sorted(wanted)
        for partition in range(group.partition_counts[topic_id])
    )
    owned: _Owned = {}
    for member_id, subscription in group.members.items():
        kept = owned[member_id] = []
        for topic_id in sorted(subscription.target.keys() & subscription.topic_ids):
            for partition in sorted(subscription.target[topic_id]):
                if (topic_id, partition) in free:
                    del free[topic_id, partition]
                    kept.append((topic_id, partition))
    return owned, list(free)


def _by_topic(partitions: list[TopicPartitionId]) -> PartitionsByTopic:
    topics: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}


# Where all members subscribe to the same topics:


def _shares(owned: _Owned, total: int) -> dict[str, int]:
    """Return each member's number of partitions; one more for those that have the most already."""
    if not owned:
        return {}
    least, extra = divmod(total, len(owned))
    ordered = sorted(owned, key=lambda member_id: -len(owned[member_id]))
    return {member_id: least + (place < extra) for place, member_id in enumerate(ordered)}


def _cut_to_shares(owned: _Owned, free: list[TopicPartitionId]) -> list[TopicPartitionId]:
    """Take from members what is above their share; return all that is free then."""
    freed = list(free)
    total = len(free) + sum(map(len, owned.values()))
    for member_id, share in _shares(owned, total).items():
        freed += owned[member_id][share:]
        del owned[member_id][share:]
    return freed


def _fill_to_shares(owned: _Owned, free: list[TopicPartitionId]) -> None:
    total = len(free) + sum(map(len, owned.values()))
    remaining = iter(free)
    for member_id, share in _shares(owned, total).items():
        partitions = owned[member_id]
        while len(partitions) < share:
            partitions.append(next(remaining))


class _Balance:
    """An assignment of members that subscribe to different topics; `owned` is changed in place."""

    def __init__(self, group: GroupSpec, owned: _Owned) -> None:
        self._owned = owned
        self._subscribers: dict[bytes, list[str]] = {}
        for member_id, subscription in group.members.items():
            for topic_id in subscription.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member_id)

    def hand_out(self, free: Iterable[TopicPartitionId]) -> None:
        """Give each partition to the subscriber with the fewest; topics with few subscribers first."""
        ordered = sorted(free, key=lambda partition: (len(self._subscribers[partition[0]]), partition))
        for topic_id, partitions in groupby(ordered, key=lambda partition: partition[0]):
            least_loaded = self._heap(self._subscribers[topic_id], 1)
            for partition in partitions:
                count, member_id = least_loaded[0]
                self._owned[member_id].append(partition)
                heapreplace(least_loaded, (count + 1, member_id))

    def even_out(self) -> None:
        """Move partitions from members with more to subscribers of their topic with two or more fewer."""
        contested = sorted(
            (topic_id for topic_id, members in self._subscribers.items() if len(members) > 1),
            key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id),
        )
        for _ in range(MAX_ROUNDS):
            moved = [self._even_out_topic(topic_id) for topic_id in contested]
            if not any(moved):
                return

    def _even_out_topic(self, topic_id: bytes) -> bool:
        subscribers = self._subscribers[topic_id]
        movable = {
            member_id: [partition for partition in self._owned[member_id] if partition[0] == topic_id]
            for member_id in subscribers
        }
        most_loaded = self._heap((member_id for member_id in subscribers if movable[member_id]), -1)
        least_loaded = self._heap(subscribers, 1)
        moved = False
        while giver := self._top(most_loaded, -1):
            taker = self._top(least_loaded, 1)
            if len(self._owned[giver]) < len(self._owned[taker]) + 2:
                break
            partition = movable[giver].pop()
            self._owned[giver].remove(partition)
            self._owned[taker].append(partition)
            moved = True
            for member_id in (giver, taker):
                heappush(least_loaded, (len(self._owned[member_id]), member_id))
                if movable[member_id]:
                    heappush(most_loaded, (-len(self._owned[member_id]), member_id))
        return moved

    def _heap(self, members: Iterable[str], sign: int) -> _Heap:
        heap = [(sign * len(self._owned[member_id]), member_id) for member_id in members]
        heapify(heap)
        return heap

    def _top(self, heap: _Heap, sign: int) -> str:
        """Return the first member of the heap whose count still holds; empty when there is none."""
        while heap and heap[0][0] != sign * len(self._owned[heap[0][1]]):
            heappop(heap)
        return heap[0][1] if heap else ""
