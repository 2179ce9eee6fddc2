"""Assignors of classic groups: the leader of a group divides the partitions of topics among its members.

They know no network: members and numbers of partitions in, partitions of each member out. Names and user
data are those of the Java client, so that members of other clients can share a group.

Source: Apache Kafka 4.4, `RangeAssignor`, `RoundRobinAssignor`, `StickyAssignor` and
`CooperativeStickyAssignor`; KIP-54, KIP-429, KIP-881.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.rack_matching import RackMatcher, racks_decide
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import TopicPartitions
from tidelog.plugins.schema import decode, encode
from tidelog.plugins.schema.declare import VersionSpan, array, int32, struct
from tidelog.plugins.schema.errors import CodecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tidelog.plugins.client.consumer.rack_matching import PartitionRacks
    from tidelog.plugins.protocol_kafka.messages.consumer_protocol import ConsumerProtocolSubscription

_D = TypeVar("_D")

NO_GENERATION: Final = -1


@struct(VersionSpan(0, 0))
class StickyUserData:
    """User data of members with the sticky assignor: what they had, and since which generation."""

    previous_assignment: list[TopicPartitions] = array(TopicPartitions)
    generation: int = int32(default=NO_GENERATION)


@struct(VersionSpan(0, 0))
class CooperativeStickyUserData:
    """User data of members with the cooperative sticky assignor."""

    generation: int = int32(default=NO_GENERATION)


@attrs.frozen
class SubscribedMember:
    """A member as its leader sees it; `owned` are its partitions in the generation, -1 for none.

    `rack` is where it is, None if it has not said that.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Return the key by which members are sorted: static ones first."""
        return (self.instance_id is None, self.instance_id or self.member_id)


PartitionCounts: TypeAlias = "Mapping[str, int]"
MemberAssignments: TypeAlias = dict[str, list[TopicPartition]]


def assign_ranges(
    counts: PartitionCounts, members: Sequence[SubscribedMember], racks: PartitionRacks
) -> MemberAssignments:
    """Give each member consecutive partitions of each topic, the first ones one more.

    Where racks decide, a member gets those that match it first. Of topics with the same number of partitions
    and the same members it has the same numbers nevertheless: those that match in all of them come first.
    """
    shares = [
        _RangeShares(topic, count, takers, racks)
        for topic, count in sorted(counts.items())
        if (takers := sorted((each for each in members if topic in each.topics), key=lambda each: each.order))
    ]
    if any(each.has_racks for each in shares):
        alike: defaultdict[tuple[frozenset[str], int], list[_RangeShares]] = defaultdict(list)
        for each in shares:
            alike[frozenset(each.left), each.count].append(each)
        for group in alike.values():
            if len(group) > 1:
                _match_numbers(group)
            else:
                group[0].give(only_matching=True)
    for each in shares:
        each.give(only_matching=False)
    return {
        member.member_id: sorted(part for each in shares for part in each.given.get(member.member_id, ()))
        for member in members
    }


class _RangeShares:
    """How the partitions of a topic are given to its members.

    Attributes:
        count: number of partitions
        has_racks: whether racks decide here
        given: what each member has got
        left: how many partitions each member is sure to get yet; `spare` of them get one more
    """

    def __init__(
        self, topic: str, count: int, takers: Sequence[SubscribedMember], racks: PartitionRacks
    ) -> None:
        self.count = count
        self.given: MemberAssignments = {each.member_id: [] for each in takers}
        self.left = dict.fromkeys(self.given, count // len(takers))
        self.spare = count % len(takers)
        self._topic = topic
        self._racks = racks
        self._rack_of = {each.member_id: each.rack for each in takers}
        # A dictionary, for its order.
        self._free = dict.fromkeys(_partitions(topic, 0, count))
        self.has_racks = racks_decide(self._rack_of.values(), self._free, racks)

    def room(self, member_id: str) -> int:
        """Return how many more a member may have."""
        return max(0, self.left[member_id] + (self.spare > 0))

    def matches(self, member_id: str, number: int) -> bool:
        """Return whether the rack of the member has a replica; one without a rack is content with any."""
        rack = self._rack_of[member_id]
        return not rack or rack in self._racks.get(TopicPartition(self._topic, number), ())

    def give(self, *, only_matching: bool) -> None:
        """Give each member the first free partitions, those that match it if racks decide here."""
        if only_matching and not self.has_racks:
            return
        for member_id in self.given:
            fit = (
                each for each in self._free if not only_matching or self.matches(member_id, each.partition)
            )
            self._give(member_id, list(islice(fit, self.room(member_id))))

    def give_number(self, member_id: str, number: int) -> None:
        """Give a member one partition."""
        self._give(member_id, [TopicPartition(self._topic, number)])

    def _give(self, member_id: str, partitions: Sequence[TopicPartition]) -> None:
        self.given[member_id] += partitions
        was_left = self.left[member_id]
        self.left[member_id] -= len(partitions)
        if partitions and was_left >= 0 > self.left[member_id]:
            self.spare -= 1
        for each in partitions:
            del self._free[each]


def _match_numbers(group: Sequence[_RangeShares]) -> None:
    """Give partitions of the same number of several topics to one member that they all match."""
    members = list(group[0].given)
    for number in range(group[0].count):
        taker = next(
            (
                each
                for each in members
                if all(shares.matches(each, number) and shares.room(each) for shares in group)
            ),
            None,
        )
        if taker is not None:
            for shares in group:
                shares.give_number(taker, number)


def assign_round_robin(
    counts: PartitionCounts, members: Sequence[SubscribedMember], _racks: PartitionRacks
) -> MemberAssignments:
    """Give the partitions of all topics to one member after the other, whatever their racks."""
    assigned: MemberAssignments = {member.member_id: [] for member in members}
    turns = cycle(sorted(members, key=lambda each: each.order))
    for topic, count in sorted(counts.items()):
        if not any(topic in member.topics for member in members):
            continue
        for partition in _partitions(topic, 0, count):
            member = next(each for each in turns if topic in each.topics)
            assigned[member.member_id].append(partition)
    return assigned


def assign_sticky(
    counts: PartitionCounts, members: Sequence[SubscribedMember], racks: PartitionRacks
) -> MemberAssignments:
    """Divide the partitions as evenly as subscriptions allow, and move as few as that and racks need."""
    by_id = {member.member_id: member for member in sorted(members, key=lambda each: each.order)}
    assigned: MemberAssignments = {member_id: [] for member_id in by_id}
    takers = {
        topic: [member.member_id for member in by_id.values() if topic in member.topics] for topic in counts
    }
    owners = _owners(counts, by_id.values())
    for partition, member_id in owners.items():
        assigned[member_id].append(partition)
    partitions = [
        partition
        for topic, count in sorted(counts.items(), key=lambda each: (len(takers[each[0]]), each[0]))
        for partition in _partitions(topic, 0, count)
        if takers[topic]
    ]
    decide = racks_decide((each.rack for each in members), partitions, racks)
    rack_of = {each.member_id: each.rack if decide else None for each in members}
    matcher = RackMatcher(assigned, takers, rack_of, racks)
    even = len(partitions) // len(members)
    free = [each for each in partitions if each not in owners]
    # Those that match few members choose first.
    for partition in sorted(free, key=matcher.choices):
        able = takers[partition.topic]
        fit = [each for each in able if len(assigned[each]) < even and matcher.matches(each, partition)]
        least = min(fit or able, key=lambda each: (len(assigned[each]), not matcher.matches(each, partition)))
        assigned[least].append(partition)
    _balance(assigned, takers)
    # What was swapped may be for members that have less, and could not have what was there before.
    while matcher.match():
        _balance(assigned, takers)
    return {member_id: sorted(partitions) for member_id, partitions in assigned.items()}


def assign_cooperative_sticky(
    counts: PartitionCounts, members: Sequence[SubscribedMember], racks: PartitionRacks
) -> MemberAssignments:
    """Divide as `assign_sticky`, but leave out what another member still owns.

    That one revokes it after this generation and joins again: the next one gives it to its new owner.
    """
    owners = _owners(counts, members)
    return {
        member_id: [each for each in partitions if owners.get(each, member_id) == member_id]
        for member_id, partitions in assign_sticky(counts, members, racks).items()
    }


def _partitions(topic: str, start: int, stop: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(start, stop)]


def _owners(counts: PartitionCounts, members: Iterable[SubscribedMember]) -> dict[TopicPartition, str]:
    """Return who owns each partition: of two that claim one the member of the later generation, else none."""
    claims: defaultdict[TopicPartition, list[SubscribedMember]] = defaultdict(list)
    for member in members:
        for partition in member.owned:
            if partition.topic in member.topics and partition.partition < counts.get(partition.topic, 0):
                claims[partition].append(member)
    owners: dict[TopicPartition, str] = {}
    for partition, claimers in claims.items():
        newest = max(member.generation for member in claimers)
        ours = [member.member_id for member in claimers if member.generation == newest]
        if len(ours) == 1:
            owners[partition] = ours[0]
    return owners


def _balance(assigned: MemberAssignments, takers: Mapping[str, Sequence[str]]) -> None:
    """Move partitions from members with more to those with at least two less, while there are any."""
    while (move := _next_move(assigned, takers)) is not None:
        giver, partition, taker = move
        assigned[giver].remove(partition)
        assigned[taker].append(partition)


def _next_move(
    assigned: MemberAssignments, takers: Mapping[str, Sequence[str]]
) -> tuple[str, TopicPartition, str] | None:
    # The one with the most first, each time: one with less would have to get it back from that one.
    for giver in sorted(assigned, key=lambda each: -len(assigned[each])):
        for partition in reversed(assigned[giver]):
            least = min(takers[partition.topic], key=lambda each: len(assigned[each]))
            if len(assigned[giver]) > len(assigned[least]) + 1:
                return giver, partition, least
    return None


@attrs.frozen
class Assignor:
    """A strategy of the setting `partition_assignment_strategy`.

    Attributes:
        name: as in JoinGroup
        assign: divides partitions among members, some by the racks of their replicas
        is_cooperative: members keep their partitions while they join again (KIP-429)
        user_data: makes the user data of a member from what it owns and its generation
    """

    name: str
    assign: Callable[[PartitionCounts, Sequence[SubscribedMember], PartitionRacks], MemberAssignments]
    is_cooperative: bool
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None]

    def member(
        self, member_id: str, instance_id: str | None, subscription: ConsumerProtocolSubscription
    ) -> SubscribedMember:
        """Return a member whose metadata is this subscription."""
        owned, generation = subscription.owned_partitions, subscription.generation_id
        data = subscription.user_data
        if data and self.name == STICKY:
            found = _decoded(StickyUserData, data)
            if found is not None:
                owned, generation = found.previous_assignment, found.generation
        elif data and self.name == COOPERATIVE_STICKY and generation == NO_GENERATION:
            found_generation = _decoded(CooperativeStickyUserData, data)
            generation = NO_GENERATION if found_generation is None else found_generation.generation
        return SubscribedMember(
            member_id,
            frozenset(subscription.topics),
            instance_id,
            tuple(ungrouped(owned)),
            generation,
            subscription.rack_id,
        )


def grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Return partitions by topic, as in messages."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for partition in sorted(partitions):
        by_topic[partition.topic].append(partition.partition)
    return [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]


def ungrouped(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    """Return the partitions in a part of a message."""
    return [TopicPartition(each.topic, index) for each in topics for index in each.partitions]


def _decoded(kind: type[_D], data: bytes) -> _D | None:
    """Return user data of a member, None if it is of another version: then the member owns nothing."""
    try:
        return decode(kind, 0, memoryview(data))
    except CodecError:
        return None


def _no_user_data(_owned: Iterable[TopicPartition], _generation: int) -> None:
    """Return the user data of an assignor without memory."""


def _sticky_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    if generation == NO_GENERATION:
        return None
    return encode(StickyUserData(previous_assignment=grouped(owned), generation=generation), 0)


def _cooperative_user_data(_owned: Iterable[TopicPartition], generation: int) -> bytes:
    return encode(CooperativeStickyUserData(generation=generation), 0)


STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"
ASSIGNORS: Final = {
    each.name: each
    for each in (
        Assignor("range", assign_ranges, False, _no_user_data),
        Assignor("roundrobin", assign_round_robin, False, _no_user_data),
        Assignor(STICKY, assign_sticky, False, _sticky_user_data),
        Assignor(COOPERATIVE_STICKY, assign_cooperative_sticky, True, _cooperative_user_data),
    )
}
"""By the names that the setting has."""
