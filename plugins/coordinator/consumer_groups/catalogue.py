"""The broker's topics as groups see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.consumer_groups.settings import TopicEntry
from tidelog.plugins.coordinator.log.topics import OFFSETS_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from tidelog.kernel.seams.topics import Topic, Topics

_INTERNAL = frozenset((OFFSETS_TOPIC, TRANSACTION_TOPIC))


class BrokerTopics:
    """A `TopicCatalogue`; regular expressions mean no internal topics, by name they can be subscribed to.

    `base` makes versions of this start of the broker differ from those of others, which records remember.
    """

    def __init__(self, topics: Topics, base: int) -> None:
        self._topics = topics
        self._base = base

    @property
    def version(self) -> int:
        """See `TopicCatalogue`."""
        return self._base + self._topics.version

    def by_name(self, name: str) -> TopicEntry | None:
        """See `TopicCatalogue`."""
        return _entry(self._topics.find(name))

    def by_id(self, topic_id: bytes) -> TopicEntry | None:
        """See `TopicCatalogue`."""
        return _entry(self._topics.find_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """See `TopicCatalogue`."""
        return [topic.name for topic in self._topics if topic.name not in _INTERNAL]


def _entry(topic: Topic | None) -> TopicEntry | None:
    return None if topic is None else TopicEntry(topic.topic_id.bytes, topic.name, len(topic.partitions))
