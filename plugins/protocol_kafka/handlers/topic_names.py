"""Topics in requests: by name in old versions, by id in new ones."""

from __future__ import annotations

from tidelog.kernel.seams.topics import Topic, Topics
from tidelog.plugins.protocol_kafka.codecs import Uuid


def find_topic(topics: Topics, name: str | None, topic_id: Uuid, *, by_id: bool) -> Topic:
    """Return the topic that a request names.

    Raises:
        UnknownTopicOrPartition: no topic has that name.
        UnknownTopicId: no topic has that id.
    """
    return topics.get_by_id(topic_id) if by_id else topics.get(name or "")
