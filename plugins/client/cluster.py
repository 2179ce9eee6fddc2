"""Cluster metadata, and the client's cache of it: addresses of brokers, topics and partition leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.find_coordinator import GROUP_KEY, TRANSACTION_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.protocol_kafka.messages.metadata import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )


@attrs.frozen
class Address:
    """Host name or IP address, and TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


NO_NODE: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)


@attrs.frozen
class PartitionMetadata:
    """Metadata of a partition; `leader` is a node id, -1 for none; `leader_epoch` is -1 when unknown."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


@attrs.frozen
class TopicMetadata:
    """Metadata of a topic, partitions in order; the id is all zeros when the broker sends none."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of each partition; the largest one during a reassignment."""
        return max((len(part.replicas) for part in self.partitions), default=0)

    def partition(self, index: int) -> PartitionMetadata | None:
        """Return the partition of that index, None when there is none."""
        # They are in order, and seldom one is missing.
        if 0 <= index < len(self.partitions) and self.partitions[index].index == index:
            return self.partitions[index]
        return next((part for part in self.partitions if part.index == index), None)


@attrs.frozen
class ClusterMetadata:
    """Decoded Metadata response.

    Attributes:
        cluster_id: None when the broker sends none
        controller: node id of the controller, -1 when it is unknown
        brokers: addresses by node id
        topics: by name, the requested topics that exist
        errors: by name, the error of each other requested topic
        racks: by node id, the racks of the brokers that have one
    """

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicMetadata]
    errors: Mapping[str, ErrorCode]
    racks: Mapping[int, str] = attrs.field(factory=dict[int, str])

    @classmethod
    def from_response(cls, response: MetadataResponse) -> ClusterMetadata:
        """Convert a Metadata response."""
        topics = [_topic(result) for result in response.topics if result.error_code == ErrorCode.NONE]
        failed = [result for result in response.topics if result.error_code]
        return cls(
            response.cluster_id,
            response.controller_id,
            {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers},
            {topic.name: topic for topic in topics},
            {result.name or "": ErrorCode.of(result.error_code) for result in failed},
            {broker.node_id: broker.rack for broker in response.brokers if broker.rack},
        )

    def partition_racks(self) -> Mapping[TopicPartition, frozenset[str]]:
        """Return the racks of the replicas of each partition; of those alone that have some."""
        if not self.racks:
            return {}
        return {
            TopicPartition(topic.name, part.index): found
            for topic in self.topics.values()
            for part in topic.partitions
            if (found := frozenset(self.racks[node] for node in part.replicas if node in self.racks))
        }


@attrs.frozen
class CoordinatorKey:
    """What has a coordinator: a group or a transactional id; `kind` is as in FindCoordinator."""

    kind: int
    name: str

    @classmethod
    def group(cls, group_id: str) -> CoordinatorKey:
        """Return the key of a group."""
        return cls(GROUP_KEY, group_id)

    @classmethod
    def transaction(cls, transactional_id: str) -> CoordinatorKey:
        """Return the key of a transactional id."""
        return cls(TRANSACTION_KEY, transactional_id)

    def __str__(self) -> str:
        return f"{'group' if self.kind == GROUP_KEY else 'transactional id'} {self.name!r}"


class ClusterCache:
    """Cache of the cluster metadata, which operations look up before they send a Metadata request."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self._bootstrap = tuple(bootstrap)
        self._topics: dict[str, TopicMetadata] = {}
        self._coordinators: dict[CoordinatorKey, int] = {}
        self.brokers: Mapping[int, Address] = {}
        self.controller = NO_NODE

    def replace_bootstrap(self, addresses: Sequence[Address]) -> None:
        """Have other bootstrap addresses."""
        self._bootstrap = tuple(addresses)

    def update(self, metadata: ClusterMetadata) -> None:
        """Store newer metadata; topics that it does not contain keep what is cached."""
        self.brokers = metadata.brokers or self.brokers
        self.controller = metadata.controller
        self._topics.update(metadata.topics)
        for name in metadata.errors:
            self._topics.pop(name, None)

    def forget_topic(self, name: str) -> None:
        """Drop the cached metadata of a topic, so that the next operation requests it."""
        self._topics.pop(name, None)

    def forget_controller(self) -> None:
        """Drop the cached controller, so that the next operation requests it."""
        self.controller = NO_NODE

    def coordinator(self, key: CoordinatorKey) -> int | None:
        """Return the node id of a coordinator, None when it is unknown."""
        return self._coordinators.get(key)

    def store_coordinator(self, key: CoordinatorKey, node: int) -> None:
        """Cache the node id of a coordinator."""
        self._coordinators[key] = node

    def forget_coordinator(self, key: CoordinatorKey) -> None:
        """Drop a cached coordinator, so that the next operation looks it up."""
        self._coordinators.pop(key, None)

    def addresses(self) -> tuple[Address, ...]:
        """Return the bootstrap addresses, then those of the known brokers."""
        return tuple(dict.fromkeys((*self._bootstrap, *self.brokers.values())))

    def topic_id(self, name: str) -> UUID:
        """Return the id of a topic, all zeros when it is unknown."""
        topic = self._topics.get(name)
        return topic.topic_id if topic else NO_TOPIC_ID

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node id of a partition's leader, None when it is unknown or there is none."""
        topic = self._topics.get(partition.topic)
        found = topic.partition(partition.partition) if topic else None
        return found.leader if found and found.leader in self.brokers else None

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of a partition's leader, -1 when it is unknown."""
        topic = self._topics.get(partition.topic)
        found = topic.partition(partition.partition) if topic else None
        return found.leader_epoch if found else -1

    def lead(
        self, partition: TopicPartition, leader: int, leader_epoch: int, brokers: Mapping[int, Address]
    ) -> bool:
        """Apply a leader that a response names (KIP-951) unless it is older than what is cached.

        Return whether it is newer, and its address known.
        """
        topic = self._topics.get(partition.topic)
        found = topic.partition(partition.partition) if topic else None
        if topic is None or found is None or leader_epoch <= found.leader_epoch:
            return False
        self.brokers = {**self.brokers, **brokers}
        changed = attrs.evolve(found, leader=leader, leader_epoch=leader_epoch)
        partitions = tuple(changed if part is found else part for part in topic.partitions)
        self._topics[partition.topic] = attrs.evolve(topic, partitions=partitions)
        return leader in self.brokers

    def topic(self, name: str) -> TopicMetadata | None:
        """Return the cached metadata of a topic, None without any."""
        return self._topics.get(name)

    def has_topic(self, name: str) -> bool:
        """Return whether the topic is cached."""
        return name in self._topics

    def has_partition(self, partition: TopicPartition) -> bool:
        """Return whether the cached topic has that partition."""
        topic = self._topics.get(partition.topic)
        return topic is not None and topic.partition(partition.partition) is not None


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = sorted((_partition(part) for part in topic.partitions), key=lambda part: part.index)
    return TopicMetadata(
        topic.name or "", UUID(bytes=bytes(topic.topic_id)), topic.is_internal, tuple(partitions)
    )


def _partition(partition: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        ErrorCode.of(partition.error_code),
    )
