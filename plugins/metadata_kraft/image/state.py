"""The state of the cluster, as the metadata log up to some offset adds up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from tidelog.plugins.metadata_kraft.image.kept import KeptRecords

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.codecs.types import Uuid
    from tidelog.plugins.metadata_kraft.records.cluster import (
        RegisterBrokerRecord,
        RegisterControllerRecord,
    )
    from tidelog.plugins.metadata_kraft.records.topics import PartitionRecord

Resource: TypeAlias = tuple[int, str]
"""What a configuration is for: its type (2 topic, 4 broker) and its name."""

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"


@attrs.define(eq=True)
class TopicImage:
    """A topic; `partitions` by number, each with its whole state."""

    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionRecord] = attrs.field(factory=dict[int, "PartitionRecord"])


@attrs.define(eq=True)
class MetadataImage:
    """Topics by id, configuration by resource, and everything else that the log tells.

    `next_producer_id` is the first that was never given out. `kept` are records that this broker has no use
    for but never loses. `removed_topics` are the ids and names of topics that were
    removed since the last snapshot.
    """

    topics: dict[Uuid, TopicImage] = attrs.field(factory=dict[bytes, TopicImage])
    topic_ids: dict[str, Uuid] = attrs.field(factory=dict[str, bytes])
    configs: dict[Resource, dict[str, str]] = attrs.field(factory=dict[Resource, dict[str, str]])
    features: dict[str, int] = attrs.field(factory=dict[str, int])
    brokers: dict[int, RegisterBrokerRecord] = attrs.field(factory=dict[int, "RegisterBrokerRecord"])
    controllers: dict[int, RegisterControllerRecord] = attrs.field(
        factory=dict[int, "RegisterControllerRecord"]
    )
    next_producer_id: int = 0
    kept: KeptRecords = attrs.field(factory=KeptRecords)
    removed_topics: dict[Uuid, str] = attrs.field(factory=dict[bytes, str], eq=False)

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version`, 0 in an image that nothing was ever told."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def has_elr(self) -> bool:
        """Whether replicas that left the in-sync set cleanly are remembered (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) > 0

    def find_topic(self, name: str) -> TopicImage | None:
        """The topic of that name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]
