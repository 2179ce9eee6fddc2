"""Topics as consumer groups see them, and the ones that members subscribe to."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.kernel.pace import ITEMS_PER_STEP, each_in_steps
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.member import ConsumerGroupMember
from tidelog.plugins.coordinator.runtime.topic_log import OFFSETS_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic, Topics

_INTERNAL = frozenset((OFFSETS_TOPIC, TRANSACTION_TOPIC))
HASH_BYTES = 8


class TopicEntry(NamedTuple):
    """A topic: its id of 16 bytes, its name, and how many partitions it has."""

    topic_id: bytes
    name: str
    partitions: int


class TopicCatalogue(Protocol):
    """The topics of the broker. `version` goes up with every topic that is created, deleted or extended."""

    @property
    def version(self) -> int:
        """Different whenever what the other methods return may be."""
        ...

    def by_name(self, name: str) -> TopicEntry | None:
        """Return the topic of that name, None without one."""
        ...

    def by_id(self, topic_id: bytes) -> TopicEntry | None:
        """Return the topic with that id, None without one."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of the topics that a regular expression may match."""
        ...


class BrokerTopics:
    """A `TopicCatalogue`; regular expressions match no internal topics, which can be subscribed to by name.

    `base` makes versions of this start of the broker differ from those of others, which are in records.
    """

    def __init__(self, topics: Topics, base: int) -> None:
        self._topics = topics
        self._base = base

    @property
    def version(self) -> int:
        """Different after every change of a topic."""
        return self._base + self._topics.version

    def by_name(self, name: str) -> TopicEntry | None:
        """Return the topic of that name, None without one."""
        return _entry(self._topics.find(name))

    def by_id(self, topic_id: bytes) -> TopicEntry | None:
        """Return the topic with that id, None without one."""
        return _entry(self._topics.find_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """Return the names of all topics but internal ones."""
        return [topic.name for topic in self._topics if topic.name not in _INTERNAL]


def _entry(topic: Topic | None) -> TopicEntry | None:
    return None if topic is None else TopicEntry(topic.topic_id.bytes, topic.name, len(topic.partitions))


def subscribed_topics(
    group: ConsumerGroup, topics: TopicCatalogue
) -> Generator[None, None, list[TopicEntry]]:
    """Return the topics that the members of a group subscribe to and that exist, by name; in steps."""
    entries = yield from each_in_steps(sorted(group.all_subscribed_names()), topics.by_name)
    return [entry for entry in entries if entry is not None]


def subscribed_ids(
    group: ConsumerGroup, member: ConsumerGroupMember, topics: TopicCatalogue
) -> Generator[None, None, frozenset[bytes]]:
    """Return the ids of the topics that a member subscribes to and that exist, in steps."""
    entries = yield from each_in_steps(group.subscribed_names(member), topics.by_name)
    return frozenset(entry.topic_id for entry in entries if entry is not None)


def metadata_hash(entries: Sequence[TopicEntry]) -> Generator[None, None, int]:
    """Return a hash of these topics and their numbers of partitions, in steps; 0 for none.

    Kafka computes another hash of the same; a group that is loaded by the other broker rebalances once.
    """
    if not entries:
        return 0
    digest = blake2b(digest_size=HASH_BYTES)
    for place, entry in enumerate(entries):
        digest.update(b"%s%d %s\0" % (entry.topic_id, entry.partitions, entry.name.encode()))
        if not place % ITEMS_PER_STEP:
            yield
    return int.from_bytes(digest.digest(), signed=True)
