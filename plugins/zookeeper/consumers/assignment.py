"""Which stream of which member gets which partition: step by step as Kafka's documentation describes it.

    1. For each topic T that Ci subscribes to
    2.   let PT be all partitions producing topic T
    3.   let CG be all consumers in the same group as Ci that consume topic T
    4.   sort PT (so partitions on the same broker are clustered together)
    5.   sort CG
    6.   let i be the index position of Ci in CG and let N = size(PT)/size(CG)
    7.   assign partitions from i*N to (i+1)*N - 1 to consumer Ci

`N` is no whole number in general: as in Kafka's `RangeAssignor`, whose members are in the same groups, the
first `size(PT) mod size(CG)` consumers get one partition more. A consumer of CG is a stream of a member; a
stream is named `CONSUMER-NUMBER`, and sorted by that text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription

Owners: TypeAlias = Mapping[TopicPartition, str]
"""Partition → stream that owns it, or is to own it."""


@attrs.frozen
class GroupView:
    """What the registries said when a member read them.

    `members` are all of the group, `partitions` those of each topic, `owned` what the reading member owns in
    its present session, and `has_brokers` whether any broker is registered.
    """

    members: Mapping[str, Subscription]
    partitions: Mapping[str, Sequence[int]]
    owned: Owners = attrs.field(factory=dict[TopicPartition, str])
    has_brokers: bool = True


def stream_names(consumer_id: str, count: int) -> Sequence[str]:
    """Return the names of the streams of a member for one topic."""
    return [f"{consumer_id}-{number}" for number in range(count)]


def assign(view: GroupView, consumer_id: str, *, with_internal: bool = False) -> dict[TopicPartition, str]:
    """Return the partitions that a member is to own, with the stream of each; none if it is not registered.

    All members that see the same registries come to the same decision, in which each partition of a topic
    that anyone wants has one owner.
    """
    own = view.members.get(consumer_id)
    if own is None:
        return {}
    topics = [*view.partitions]
    wanted = {
        topic
        for topic, count in own.streams_of(topics, with_internal=with_internal).items()
        if count and view.partitions.get(topic)
    }
    streams: defaultdict[str, list[str]] = defaultdict(list)
    for member, subscription in view.members.items():
        for topic, count in subscription.streams_of(topics, with_internal=with_internal).items():
            if topic in wanted:
                streams[topic] += stream_names(member, count)
    assigned: dict[TopicPartition, str] = {}
    mine = {*stream_names(consumer_id, max(own.streams.values(), default=0))}
    for topic in wanted:
        for partition, stream in _ranges(sorted(view.partitions[topic]), sorted(streams[topic])):
            if stream in mine:
                assigned[TopicPartition(topic, partition)] = stream
    return assigned


def _ranges(partitions: Sequence[int], streams: Sequence[str]) -> list[tuple[int, str]]:
    each, more = divmod(len(partitions), len(streams))
    found: list[tuple[int, str]] = []
    first = 0
    for index, stream in enumerate(streams):
        count = each + (index < more)
        found += [(partition, stream) for partition in partitions[first : first + count]]
        first += count
    return found
