"""Balancing where members subscribe to different topics."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from tidelog.plugins.coordinator.assignors.keeping import TopicPartitionId

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec

MAX_ROUNDS = 16
"""Rounds over all topics in search of moves; each about halves what is uneven, so more gain little."""

_Heap: TypeAlias = list[tuple[int, str]]
"""Members by how many partitions they had when the entry was made, which may have changed since."""


class Balance:
    """An assignment under way: `owned` is changed in place."""

    def __init__(self, group: GroupSpec, owned: dict[str, list[TopicPartitionId]]) -> None:
        self._owned = owned
        self._subscribers: dict[bytes, list[str]] = {}
        for member_id, subscription in group.members.items():
            for topic_id in subscription.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member_id)

    def hand_out(self, free: Iterable[TopicPartitionId]) -> None:
        """Give each partition to the subscriber that has the fewest; topics with few subscribers first."""
        ordered = sorted(free, key=lambda partition: (len(self._subscribers[partition[0]]), partition))
        for topic_id, partitions in groupby(ordered, key=lambda partition: partition[0]):
            poorest = self._heap(self._subscribers[topic_id], 1)
            for partition in partitions:
                count, member_id = poorest[0]
                self._owned[member_id].append(partition)
                heapreplace(poorest, (count + 1, member_id))

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
        richest = self._heap((member_id for member_id in subscribers if movable[member_id]), -1)
        poorest = self._heap(subscribers, 1)
        moved = False
        while giver := self._top(richest, -1):
            taker = self._top(poorest, 1)
            if len(self._owned[giver]) < len(self._owned[taker]) + 2:
                break
            partition = movable[giver].pop()
            self._owned[giver].remove(partition)
            self._owned[taker].append(partition)
            moved = True
            for member_id in (giver, taker):
                heappush(poorest, (len(self._owned[member_id]), member_id))
                if movable[member_id]:
                    heappush(richest, (-len(self._owned[member_id]), member_id))
        return moved

    def _heap(self, members: Iterable[str], sign: int) -> _Heap:
        heap = [(sign * len(self._owned[member_id]), member_id) for member_id in members]
        heapify(heap)
        return heap

    def _top(self, heap: _Heap, sign: int) -> str:
        """The first member of the heap whose count still holds; empty when there is none."""
        while heap and heap[0][0] != sign * len(self._owned[heap[0][1]]):
            heappop(heap)
        return heap[0][1] if heap else ""
