"""Where a streaming query is, as its checkpoint has it: `{"orders": {"0": 23}, "$topics": {"orders": ID}}`.

A topic that was deleted and created again has the same name, other records and another id. Positions
therefore have the ids of their topics, which brokers have since Apache Kafka 2.8. A position without ids is
of an older broker, or of a checkpoint of Spark's own source; it is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from tidelog.plugins.spark_sink.source.positions import Positions, from_json, to_json, without_fields

_TOPIC_IDS: Final = "$topics"
"""No topic can have this name."""


def _no_ids() -> dict[str, str]:
    return {}


@attrs.frozen
class QueryPosition:
    """Offsets, and the ids of their topics as far as they are known."""

    offsets: Positions
    topic_ids: Mapping[str, str] = attrs.field(factory=_no_ids)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> QueryPosition:
        """Return the position in a checkpoint."""
        return cls(from_json(without_fields(stored)), stored.get(_TOPIC_IDS, {}))

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored, in an order that does not change: Spark compares the text."""
        found = to_json(self.offsets)
        ids = {topic: self.topic_ids[topic] for topic in found if topic in self.topic_ids}
        return {**found, _TOPIC_IDS: ids} if ids else found

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic, None if it is not known."""
        found = self.topic_ids.get(topic)
        return None if found is None else UUID(found)

    def recreated(self, topic_ids: Mapping[str, str]) -> list[str]:
        """Return the topics that have another id in `topic_ids`, sorted."""
        return sorted(topic for topic, each in self.topic_ids.items() if topic_ids.get(topic, each) != each)

    def without(self, topics: Collection[str]) -> QueryPosition:
        """Return the position in the other topics."""
        return QueryPosition(
            {
                partition: offset
                for partition, offset in self.offsets.items()
                if partition.topic not in topics
            },
            {topic: each for topic, each in self.topic_ids.items() if topic not in topics},
        )


NOWHERE: Final = QueryPosition({})
