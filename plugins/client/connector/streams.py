"""Streams of a connector: which partitions feed each, and what of them was returned.

    ConsumerCore ─▶ StreamState.records ─▶ the user's iteration

A record counts as consumed once it was returned. What is decoded and not returned can be taken back at any
time, also while another thread iterates: the iteration takes records from the left of a deque, one atomic
step each, and who takes them back from the right.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord

T = TypeVar("T")


class PartitionFeed:
    """A partition that feeds a stream.

    Attributes:
        partition: which
        stream: the only stream that gets its records
        consumed: the offset after the last record that was returned, None before there is any
        committed: what was committed last, None before that
    """

    __slots__ = ("committed", "consumed", "partition", "stream")

    def __init__(self, partition: TopicPartition, stream: StreamState) -> None:
        self.partition = partition
        self.stream = stream
        self.consumed: int | None = None
        self.committed: int | None = None


class StreamState:
    """One stream without its driver.

    Attributes:
        topic: the topic that it is for, None for all that a filter lets through
        number: its place among the streams of that topic
        feeds: the partitions whose records it gets
        records: decoded records of one partition that were not returned
        event: what its iteration waits for, None while it does not wait
    """

    def __init__(self, topic: str | None, number: int) -> None:
        self.topic = topic
        self.number = number
        self.feeds: dict[TopicPartition, PartitionFeed] = {}
        self.records: deque[ConsumerRecord] = deque()
        self.event: Any = None
        self._source: PartitionFeed | None = None
        self._end = 0

    def fill(self, feed: PartitionFeed, records: list[ConsumerRecord], end: int) -> None:
        """Have these records returned next, which the offset `end` follows; there are no others."""
        self._settle()
        self._source, self._end = feed, end
        self.records.extend(records)

    def take_back(self, feed: PartitionFeed) -> int | None:
        """Drop what is decoded of a partition; return its first offset that was not returned, if any."""
        if feed is not self._source:
            return None
        first: ConsumerRecord | None = None
        while self.records:
            try:
                first = self.records.pop()
            except IndexError:
                # The iteration was faster.
                break
        self._settle()
        if first is not None:
            feed.consumed = first.offset
        return feed.consumed

    def consumed_of(self, feed: PartitionFeed) -> int | None:
        """Return the offset after the last record of a partition that was returned, None before that."""
        if feed is not self._source:
            return feed.consumed
        try:
            return self.records[0].offset
        except IndexError:
            return self._end

    def wake(self) -> None:
        """Have the iteration look again."""
        event, self.event = self.event, None
        if event is not None:
            event.set()

    def _settle(self) -> None:
        """Note that all of the last records were returned."""
        source, self._source = self._source, None
        if source is not None:
            source.consumed = self._end


def allot(
    partitions: Iterable[TopicPartition], streams: Sequence[StreamState]
) -> dict[TopicPartition, StreamState]:
    """Return the stream of each new partition: of its topic's the one with the fewest."""
    found: dict[TopicPartition, StreamState] = {}
    counts = Counter((each.topic, stream) for stream in streams for each in stream.feeds)
    totals = Counter({stream: len(stream.feeds) for stream in streams})
    for partition in sorted(partitions):
        topic = partition.topic
        possible = [stream for stream in streams if stream.topic in (None, topic)]
        if possible:
            fewest = min(possible, key=lambda each: (counts[topic, each], totals[each], each.number))
            counts[topic, fewest] += 1
            totals[fewest] += 1
            found[partition] = fewest
    return found


def surplus(streams: Sequence[StreamState]) -> list[PartitionFeed]:
    """Return the feeds that streams have beyond an even share of a topic's partitions."""
    by_topic: defaultdict[str, list[list[PartitionFeed]]] = defaultdict(list)
    for topic in {partition.topic for stream in streams for partition in stream.feeds}:
        for stream in streams:
            if stream.topic in (None, topic):
                feeds = [feed for partition, feed in sorted(stream.feeds.items()) if partition.topic == topic]
                by_topic[topic].append(feeds)
    found: list[PartitionFeed] = []
    for shares in by_topic.values():
        each, more = divmod(sum(map(len, shares)), len(shares))
        for feeds in sorted(shares, key=len, reverse=True):
            share = each + (more > 0)
            more -= 1
            found += feeds[share:]
    return found


def by_topic(states: Iterable[StreamState], new_stream: Callable[[StreamState], T]) -> dict[str, list[T]]:
    """Return the streams of each topic."""
    found: dict[str, list[T]] = {}
    for state in states:
        found.setdefault(state.topic or "", []).append(new_stream(state))
    return found
