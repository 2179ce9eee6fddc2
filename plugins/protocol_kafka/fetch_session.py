"""An incremental fetch session: the partitions that a client fetches, and which of them to read next.

A partition that was read to its end, and whose offsets the client has, is not read again before its log
notifies the session of a change (`LogWatcher`). So a request at the end of many partitions takes as long as
one of none: it registers at no partition and reads none.

Source: KIP-227; KIP-516 for topic ids; Apache Kafka's `FetchSession` for what a response leaves out and for
the order of partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Generator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.kernel.seams.partition import NO_LEADER_EPOCH, AppendWaiter, Isolation
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.topics import Topic, Topics

TopicKey: TypeAlias = str | bytes
"""The name of a topic, in a session that uses topic ids the id."""

MAX_EPOCH: Final = 0x7FFFFFFF
PARTITIONS_PER_STEP: Final = 500
MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Errors of partitions that are not there, in the order in which Kafka's responses end with them."""
_NO_OFFSET: Final = -1

_place = attrgetter("place")


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request that follows one with this epoch in a session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


def place_of_error(code: int) -> int:
    """Return where a response has a partition with this error: after all with lower numbers."""
    return MISSING.index(code) + 1 if code in MISSING else 0


class CachedPartition:
    """A partition of a session: what the client asked last, and the offsets that it got last.

    It watches the log while the session need not read it, and while a request of the session waits.

    Attributes:
        name: of the topic, once a session that uses topic ids has found it
        place: its place in the order in which the session reads partitions
        high_watermark: as in the last response that had the partition; -1 before, and after an error
        log_start_offset: the same
    """

    __slots__ = (
        "_watched",
        "asked",
        "high_watermark",
        "log_start_offset",
        "name",
        "place",
        "session",
        "topic",
    )

    def __init__(
        self, session: IncrementalFetchSession, topic: TopicKey, asked: FetchPartition, place: int
    ) -> None:
        self.session = session
        self.topic = topic
        self.asked = asked
        self.place = place
        self.name: str | None = None
        self.high_watermark = self.log_start_offset = _NO_OFFSET
        self._watched: UnifiedLog | None = None

    def find_topic(self, topics: Topics) -> Topic | ErrorCode:
        """Return the topic, which has the partition, or the error that the client gets instead.

        A topic that was found by its id once is looked up by its name later, as in Kafka: it may have been
        deleted, and created again with another id.
        """
        replaced = False
        if isinstance(self.topic, str):
            topic = topics.find(self.topic)
        elif (topic := topics.find_by_id(self.topic)) is not None:
            self.name = topic.name
        elif self.name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, replaced = topics.find(self.name), True
        if topic is None or not 0 <= self.asked.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.INCONSISTENT_TOPIC_ID if replaced else topic

    def is_at_end(self, partition: UnifiedLog, data: PartitionData) -> bool:
        """Return whether reading again gives what was read, no records and no error, until it changes."""
        watermarks, epoch = partition.watermarks, self.asked.current_leader_epoch
        return (
            partition.offline is None
            and watermarks.high_watermark == data.high_watermark
            and watermarks.log_start_offset == data.log_start_offset
            and self.asked.fetch_offset >= partition.readable_end(self.session.isolation)
            and epoch in (NO_LEADER_EPOCH, partition.leader_epoch)
        )

    def has_offsets_of(self, data: PartitionData) -> bool:
        """Return whether the client has got the offsets that were read."""
        return self.high_watermark == data.high_watermark and self.log_start_offset == data.log_start_offset

    def watch(self, partition: UnifiedLog) -> None:
        """Be notified of what changes in the log."""
        if self._watched is not partition:
            self.unwatch()
            partition.add_watcher(self)
            self._watched = partition

    def unwatch(self) -> None:
        """Be notified no longer."""
        watched = self._watched
        if watched is not None:
            watched.remove_watcher(self)
            self._watched = None

    def moved(self, uncommitted_bytes: int, committed_bytes: int) -> None:
        """Have the session read the partition; count for the request that waits."""
        session = self.session
        session.changed[self] = None
        waiter = session.waiter
        if waiter is None:
            session.uncounted += 1
            # Further appends change nothing before the session reads, and shall cost nothing.
            self.unwatch()
        else:
            waiter.grew(committed_bytes if session.isolation else uncommitted_bytes)

    def abandon(self) -> None:
        """Have the session read the partition, and the request that waits respond."""
        session = self.session
        session.changed[self] = None
        self.unwatch()
        if session.waiter is None:
            session.uncounted += 1
        else:
            session.waiter.abandon()


class ReadPartition(NamedTuple):
    """What a pass read of a partition: `size` bytes of records; `partition` is None with an error."""

    cached: CachedPartition
    partition: UnifiedLog | None
    data: PartitionData
    size: int


class IncrementalFetchSession:
    """A session. Its requests come one at a time, over any connection: a newer one supersedes one that waits.

    Attributes:
        id: its id in the cache
        epoch: the epoch that the next request has to have
        isolation: that of the last request
        size: how many partitions it has
        changed: the partitions to read for the next response; all others watch their logs
        uncounted: how often a partition has changed while no request waited
        waiter: the one of the request that waits
    """

    __slots__ = (
        "_closed",
        "_holds",
        "_places",
        "_topics",
        "changed",
        "epoch",
        "id",
        "isolation",
        "privileged",
        "size",
        "uncounted",
        "uses_topic_ids",
        "waiter",
    )

    def __init__(self, *, privileged: bool, uses_topic_ids: bool, isolation: Isolation) -> None:
        """`privileged` is the session of a follower."""
        self.id = 0
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.isolation = isolation
        self.epoch = 1
        self.size = self.uncounted = 0
        self.changed: dict[CachedPartition, None] = {}
        self.waiter: AppendWaiter | None = None
        self._topics: dict[TopicKey, dict[int, CachedPartition]] = {}
        self._places = itertools.count()
        self._holds = 0
        self._closed = False

    @property
    def topics(self) -> Collection[TopicKey]:
        """The topics of its partitions, by name or id."""
        return self._topics.keys()

    def add(self, asked_topic: FetchTopic, asked: FetchPartition) -> CachedPartition:
        """Note what the client asks of a partition; it is read for the next response."""
        topic = asked_topic.topic_id if self.uses_topic_ids else asked_topic.topic
        partitions = self._topics.setdefault(topic, {})
        cached = partitions.get(asked.partition)
        if cached is None:
            cached = CachedPartition(self, topic, asked, next(self._places))
            partitions[asked.partition] = cached
            self.size += 1
        else:
            cached.asked = asked
        self.changed[cached] = None
        return cached

    def fill(
        self, topics: Sequence[FetchTopic], responses: Sequence[FetchableTopicResponse], known: Topics
    ) -> Generator[None, None, None]:
        """Add the partitions of the full request that opens the session, and what its client gets, in steps.

        Those that are not there come last, as in the responses of Kafka.
        """
        missing: list[tuple[FetchTopic, FetchPartition, PartitionData]] = []
        for topic, response in zip(topics, responses, strict=True):
            pairs = zip(topic.partitions, response.partitions, strict=True)
            for number, (asked, data) in enumerate(pairs, 1):
                if data.error_code in MISSING:
                    missing.append((topic, asked, data))
                else:
                    self._add_answered(topic, asked, data, known)
                if number % PARTITIONS_PER_STEP == 0:
                    yield
            yield
        for number, each in enumerate(sorted(missing, key=lambda each: place_of_error(each[2].error_code))):
            self._add_answered(*each, known)
            if number % PARTITIONS_PER_STEP == 0:
                yield

    def _add_answered(
        self, topic: FetchTopic, asked: FetchPartition, data: PartitionData, known: Topics
    ) -> None:
        cached = self.add(topic, asked)
        cached.high_watermark = data.high_watermark
        cached.log_start_offset = data.log_start_offset
        cached.find_topic(known)

    def update(
        self, topics: Sequence[FetchTopic], forgotten: Sequence[ForgottenTopic]
    ) -> Generator[None, None, None]:
        """Add partitions or change what is asked of them, and then remove some, in steps."""
        changed = self.changed
        for topic in topics:
            # Nearly always they are all there, and a client that reads at many partitions names all of them.
            known = self._topics.get(topic.topic_id if self.uses_topic_ids else topic.topic, {})
            for number, asked in enumerate(topic.partitions, 1):
                cached = known.get(asked.partition)
                if cached is None:
                    self.add(topic, asked)
                else:
                    cached.asked = asked
                    changed[cached] = None
                if number % PARTITIONS_PER_STEP == 0:
                    yield
            yield
        for removed in forgotten:
            for number, index in enumerate(removed.partitions, 1):
                self._remove(removed.topic_id if self.uses_topic_ids else removed.topic, index)
                if number % PARTITIONS_PER_STEP == 0:
                    yield
            yield

    def _remove(self, topic: TopicKey, index: int) -> None:
        partitions = self._topics.get(topic)
        cached = None if partitions is None else partitions.pop(index, None)
        if partitions is None or cached is None:
            return
        if not partitions:
            del self._topics[topic]
        cached.unwatch()
        self.changed.pop(cached, None)
        self.size -= 1

    def begin_request(self, isolation: Isolation) -> None:
        """Begin the request of this epoch: one that waits ends without partitions, as Kafka has it."""
        # Before the waiter ends: by the epoch its request sees that it was superseded.
        self.epoch = next_epoch(self.epoch)
        if self.waiter is not None:
            self.waiter.abandon()
        if isolation is not self.isolation:
            # What was read to its end with one isolation need not be so with the other.
            self.isolation = isolation
            self.changed = {
                cached: None for partitions in self._topics.values() for cached in partitions.values()
            }

    def repeat(self, responses: Sequence[FetchableTopicResponse]) -> None:
        """Have the next response include these partitions: the client does not get the one that has them."""
        for topic in responses:
            known = self._topics.get(topic.topic_id if self.uses_topic_ids else topic.topic, {})
            for data in topic.partitions:
                cached = known.get(data.partition_index)
                if cached is not None:
                    cached.high_watermark = cached.log_start_offset = _NO_OFFSET
                    self.changed[cached] = None

    def hold(self) -> None:
        """Watch the logs until `release`, even if the session is closed meanwhile."""
        self._holds += 1

    def release(self) -> None:
        """End what `hold` began."""
        self._holds -= 1
        if self._closed:
            self.close()

    def close(self) -> None:
        """Watch no log any more, once no request waits."""
        self._closed = True
        if self._holds:
            return
        for partitions in self._topics.values():
            for cached in partitions.values():
                cached.unwatch()
        # Partitions and session refer to each other, and garbage is not collected often.
        self._topics.clear()
        self.changed.clear()

    def to_read(self) -> list[CachedPartition]:
        """Return the partitions to read, in the session's order."""
        return sorted(self.changed, key=_place) if len(self.changed) > 1 else [*self.changed]

    def wait_for(self, read: ReadPartition) -> bool:
        """Watch a partition while a request waits; return whether it has changed since it was read."""
        cached, partition, data, size = read
        if partition is None:
            return True
        # Watched first, and then compared: a read in a thread may have missed what came meanwhile.
        cached.watch(partition)
        if cached.is_at_end(partition, data):
            if not size and cached.has_offsets_of(data):
                self.changed.pop(cached, None)
            return False
        end = data.last_stable_offset if self.isolation else data.high_watermark
        return partition.readable_end(self.isolation) != end or partition.offline is not None

    def answer(self, read: ReadPartition) -> bool:
        """Note that the client gets what was read; return whether that is in the response."""
        cached, partition, data, size = read
        if size:
            cached.high_watermark, cached.log_start_offset = data.high_watermark, data.log_start_offset
            # So each partition comes first at times, even if the first ones fill the response.
            cached.place = next(self._places)
            cached.unwatch()
            return True
        news = bool(data.error_code or not cached.has_offsets_of(data))
        cached.high_watermark, cached.log_start_offset = data.high_watermark, data.log_start_offset
        if partition is not None and cached.is_at_end(partition, data):
            cached.watch(partition)
            self.changed.pop(cached, None)
        else:
            cached.unwatch()
        return news
