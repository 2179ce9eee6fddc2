"""The assignor `uniform`: an even number of partitions for each member, moving as few as that allows.

Balance comes before stickiness. Where all members subscribe to the same topics no two differ by more than one
partition, and only what is above a member's share moves. Otherwise partitions move from members with more to
subscribers of their topic with at least two fewer, until there is no such pair or a bounded number of rounds
has been made.

A round takes as many steps as there are subscriptions, and a logarithm for each partition that moves. All of
it is cut into small pieces, for the event loop to serve others in between.

Source: KIP-848, "Server-side assignors".
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.kernel.pace import run_to_end

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import GroupSpec, PartitionsByTopic

Numbers: TypeAlias = dict[bytes, list[int]]
"""Numbers of partitions by the id of their topic."""
_Owned: TypeAlias = dict[str, Numbers]
"""The partitions of each member."""
_Heap: TypeAlias = list[tuple[int, str]]
"""Members by their number of partitions when the entry was made, which may have changed since."""

MAX_ROUNDS: Final = 16
"""Rounds over all topics in search of moves; each about halves what is uneven, so more gain little."""
PER_PIECE: Final = 100
"""Partitions that are handed out or moved before others may be served, in about a tenth of a millisecond."""


class UniformAssignor:
    """Assigns about the same number of partitions to every member."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, PartitionsByTopic]:
        """Return the partitions of every member, as close to its last target as balance allows."""
        return run_to_end(self.assign_in_steps(group))

    def assign_in_steps(self, group: GroupSpec) -> Generator[None, None, Mapping[str, PartitionsByTopic]]:
        """Do the same, and yield after each small piece of it."""
        subscriptions: set[frozenset[bytes]] = set()
        for subscription in group.members.values():
            subscriptions.add(subscription.topic_ids)
            yield
        owned, free = yield from _keep_targets(group, sorted(frozenset[bytes]().union(*subscriptions)))
        if len(subscriptions) <= 1:
            freed = yield from _cut_to_shares(owned, _total(free))
            yield from _fill_to_shares(owned, [*free.items(), *freed])
        else:
            balance = _Balance(group, owned)
            yield from balance.hand_out(free)
            yield from balance.even_out()
        assigned: dict[str, PartitionsByTopic] = {}
        for member_id, topics in owned.items():
            assigned[member_id] = {topic_id: frozenset(found) for topic_id, found in topics.items() if found}
            yield
        return assigned


def _keep_targets(group: GroupSpec, wanted: Iterable[bytes]) -> Generator[None, None, tuple[_Owned, Numbers]]:
    """Return the targets that still exist and are subscribed to, and all other partitions in order.

    A partition in the targets of two members stays with the first of them.
    """
    taken: dict[bytes, set[int]] = {}
    owned: _Owned = {}
    for member_id, subscription in group.members.items():
        kept = owned[member_id] = {}
        for topic_id in sorted(subscription.target.keys() & subscription.topic_ids):
            count, others = group.partition_counts[topic_id], taken.setdefault(topic_id, set())
            numbers = subscription.target[topic_id] - others
            kept[topic_id] = sorted(number for number in numbers if 0 <= number < count)
            others.update(kept[topic_id])
            yield
        yield
    free: Numbers = {}
    for topic_id in wanted:
        others = taken.get(topic_id, set())
        numbers_left = range(group.partition_counts[topic_id])
        free[topic_id] = [number for number in numbers_left if number not in others]
        yield
    return owned, free


def _total(partitions: Numbers) -> int:
    return sum(map(len, partitions.values()))


# Where all members subscribe to the same topics:


def _shares(owned: _Owned, free: int) -> list[tuple[str, int]]:
    """Return by how many partitions each member has too few, negative if it has too many.

    Those that have the most already may have one more than others.
    """
    sizes = {member_id: _total(topics) for member_id, topics in owned.items()}
    if not sizes:
        return []
    least, extra = divmod(free + sum(sizes.values()), len(sizes))
    ordered = sorted(sizes, key=lambda member_id: -sizes[member_id])
    return [
        (member_id, least + (place < extra) - sizes[member_id]) for place, member_id in enumerate(ordered)
    ]


def _cut_to_shares(owned: _Owned, free: int) -> Generator[None, None, list[tuple[bytes, list[int]]]]:
    """Take from members what is above their share; return it."""
    freed: list[tuple[bytes, list[int]]] = []
    for member_id, lacks in _shares(owned, free):
        surplus, cut = -lacks, list[tuple[bytes, list[int]]]()
        for topic_id, numbers in reversed(owned[member_id].items()):
            if surplus <= 0:
                break
            cut.append((topic_id, numbers[-surplus:]))
            surplus -= len(cut[-1][1])
            del numbers[-len(cut[-1][1]) :]
            yield
        freed += reversed(cut)
    return freed


def _fill_to_shares(owned: _Owned, free: Iterable[tuple[bytes, list[int]]]) -> Generator[None, None, None]:
    """Give each member what it lacks, in order; all is given then."""
    chunks = list(free)
    remaining = _taken_from(chunks)
    next(remaining)
    for member_id, lacks in _shares(owned, sum(len(numbers) for _, numbers in chunks)):
        topics = owned[member_id]
        while lacks > 0:
            topic_id, numbers = remaining.send(lacks)
            topics.setdefault(topic_id, []).extend(numbers)
            lacks -= len(numbers)
            yield


def _taken_from(
    chunks: Iterable[tuple[bytes, list[int]]],
) -> Generator[tuple[bytes, list[int]], int, None]:
    """Yield partitions of one topic at a time, at most as many as were sent; the first value is empty."""
    most = yield b"", []
    for topic_id, numbers in chunks:
        start = 0
        while start < len(numbers):
            end = min(start + most, len(numbers))
            most, start = (yield topic_id, numbers[start:end]), end


class _Balance:
    """An assignment of members that subscribe to different topics; `owned` is changed in place."""

    def __init__(self, group: GroupSpec, owned: _Owned) -> None:
        self._group = group
        self._owned = owned
        self._sizes: dict[str, int] = {}
        self._subscribers: dict[bytes, list[str]] = {}

    def hand_out(self, free: Numbers) -> Iterator[None]:
        """Give each partition to the subscriber with the fewest; topics with few subscribers first."""
        for member_id, subscription in self._group.members.items():
            self._sizes[member_id] = _total(self._owned[member_id])
            for topic_id in subscription.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member_id)
            yield
        for topic_id in self._with_few_subscribers_first(free):
            least_loaded = self._heap(self._subscribers[topic_id], 1)
            for count, number in enumerate(free[topic_id], 1):
                size, member_id = least_loaded[0]
                self._owned[member_id].setdefault(topic_id, []).append(number)
                self._sizes[member_id] = size + 1
                heapreplace(least_loaded, (size + 1, member_id))
                if count % PER_PIECE == 0:
                    yield
            yield

    def even_out(self) -> Iterator[None]:
        """Move partitions from members with more to subscribers of their topic with two or more fewer."""
        contested = self._with_few_subscribers_first(
            topic_id for topic_id, members in self._subscribers.items() if len(members) > 1
        )
        for _ in range(MAX_ROUNDS):
            moved = False
            for topic_id in contested:
                if self._is_uneven(topic_id):
                    moved = True
                    yield from self._even_out_topic(topic_id)
                yield
            if not moved:
                return

    def _with_few_subscribers_first(self, topics: Iterable[bytes]) -> list[bytes]:
        return sorted(topics, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id))

    def _is_uneven(self, topic_id: bytes) -> bool:
        """Return whether a partition of the topic should move."""
        subscribers, sizes, owned = self._subscribers[topic_id], self._sizes, self._owned
        least = min(sizes[member_id] for member_id in subscribers)
        return any(sizes[each] > least + 1 and owned[each].get(topic_id) for each in subscribers)

    def _even_out_topic(self, topic_id: bytes) -> Iterator[None]:
        subscribers, sizes, owned = self._subscribers[topic_id], self._sizes, self._owned
        most_loaded = self._heap((each for each in subscribers if owned[each].get(topic_id)), -1)
        least_loaded = self._heap(subscribers, 1)
        moves = 0
        while giver := self._top(most_loaded, -1):
            taker = self._top(least_loaded, 1)
            if sizes[giver] < sizes[taker] + 2:
                return
            movable = owned[giver][topic_id]
            owned[taker].setdefault(topic_id, []).append(movable.pop())
            sizes[giver] -= 1
            sizes[taker] += 1
            for member_id in (giver, taker):
                heappush(least_loaded, (sizes[member_id], member_id))
            heappush(most_loaded, (-sizes[taker], taker))
            if movable:
                heappush(most_loaded, (-sizes[giver], giver))
            moves += 1
            if moves % PER_PIECE == 0:
                yield

    def _heap(self, members: Iterable[str], sign: int) -> _Heap:
        heap = [(sign * self._sizes[member_id], member_id) for member_id in members]
        heapify(heap)
        return heap

    def _top(self, heap: _Heap, sign: int) -> str:
        """Return the first member of the heap whose count still holds; empty when there is none."""
        while heap and heap[0][0] != sign * self._sizes[heap[0][1]]:
            heappop(heap)
        return heap[0][1] if heap else ""
