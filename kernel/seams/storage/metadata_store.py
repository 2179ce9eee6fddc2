"""What a storage remembers beside the logs: topics, the brokers' configuration, producer ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import attrs


@attrs.frozen
class TopicRecord:
    """What is remembered of a topic: its id, its number of partitions and its configuration overrides.

    `leader_epochs` are those that the partitions are led in, as far as the store remembers them. `adopted`:
    the topic was found as bare directories, with nothing to tell how long its data is to be kept; nothing of
    it is deleted or compacted until somebody looked, which changing its configuration shows.
    """

    name: str
    topic_id: UUID
    partitions: int
    config: dict[str, str] = attrs.field(factory=dict[str, str])
    leader_epochs: tuple[int, ...] = attrs.field(default=(), eq=False)
    adopted: bool = False


class BrokerRegistration(NamedTuple):
    """How this broker makes itself known: listener name → address that clients are told, and its rack."""

    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None


class MetadataStore(Protocol):
    """The durable registry of topics, of the cluster's id and of the producer ids that were given out."""

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64, made when the storage was first used."""
        ...

    def topics(self) -> Sequence[TopicRecord]:
        """All topics."""
        ...

    async def put_topic(self, record: TopicRecord) -> None:
        """Add a topic, or change it: its configuration, more partitions, later epochs; durable on return."""
        ...

    async def remove_topic(self, name: str) -> None:
        """Forget a topic; durable when it returns."""
        ...

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """What was set for a broker while it ran, or with None for all brokers."""
        ...

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace what `broker_config` gives; durable on return."""
        ...

    async def allocate_producer_ids(self, count: int) -> range:
        """Producer ids that were never given out before, durable before they are returned."""
        ...

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Note that this broker is about to serve clients, and where; durable on return."""
        ...
