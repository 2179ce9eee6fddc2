"""What a client knows of the cluster: brokers, topics and who leads their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.addresses import Address
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.protocol_kafka.messages.metadata import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

NO_NODE: Final = -1
NO_TOPIC_ID: Final = UUID(int=0)


@attrs.frozen
class PartitionMetadata:
    """A partition: `leader` is a node id, -1 without one; `leader_epoch` is -1 when it is not told."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


@attrs.frozen
class TopicMetadata:
    """A topic with its partitions in order; the id is all zeros when the broker tells none."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition; the most, while a reassignment is under way."""
        return max((len(part.replicas) for part in self.partitions), default=0)

    def partition(self, index: int) -> PartitionMetadata | None:
        """The partition of that number, None without one."""
        return next((part for part in self.partitions if part.index == index), None)


@attrs.frozen
class ClusterMetadata:
    """One answer to a question for metadata.

    Attributes:
        cluster_id: None when the broker tells none
        controller: node id of the broker that changes topics, -1 when it is not told
        brokers: addresses by node id
        topics: by name, those that were asked for and exist
        errors: by name, why a topic that was asked for is not among them
    """

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicMetadata]
    errors: Mapping[str, ErrorCode]

    @classmethod
    def told_by(cls, answer: MetadataResponse) -> ClusterMetadata:
        """What a response to Metadata says."""
        topics = [_topic(told) for told in answer.topics if told.error_code == ErrorCode.NONE]
        return cls(
            answer.cluster_id,
            answer.controller_id,
            {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
            {topic.name: topic for topic in topics},
            {told.name or "": ErrorCode.of(told.error_code) for told in answer.topics if told.error_code},
        )


class Cluster:
    """What was heard last; operations look here before they ask."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self._bootstrap = tuple(bootstrap)
        self._topics: dict[str, TopicMetadata] = {}
        self.brokers: Mapping[int, Address] = {}
        self.controller = NO_NODE

    def learn(self, told: ClusterMetadata) -> None:
        """Take in newer metadata; topics that it does not name stay as they were."""
        self.brokers = told.brokers or self.brokers
        self.controller = told.controller
        self._topics.update(told.topics)
        for name in told.errors:
            self._topics.pop(name, None)

    def forget_topic(self, name: str) -> None:
        """What is known of a topic has proved wrong."""
        self._topics.pop(name, None)

    def forget_controller(self) -> None:
        """The broker that was the controller is it no longer."""
        self.controller = NO_NODE

    def addresses(self) -> tuple[Address, ...]:
        """Where any broker may be: the addresses to start from, then those of the brokers that are known."""
        return tuple(dict.fromkeys((*self._bootstrap, *self.brokers.values())))

    def topic_id(self, name: str) -> UUID:
        """The id of a topic, all zeros when it is not known."""
        topic = self._topics.get(name)
        return topic.topic_id if topic else NO_TOPIC_ID

    def leader(self, partition: TopicPartition) -> int | None:
        """The node id of a partition's leader, None when it is not known or there is none."""
        topic = self._topics.get(partition.topic)
        found = topic.partition(partition.partition) if topic else None
        return found.leader if found and found.leader in self.brokers else None

    def has_partition(self, partition: TopicPartition) -> bool:
        """Whether the topic is known to have that partition."""
        topic = self._topics.get(partition.topic)
        return topic is not None and topic.partition(partition.partition) is not None


def _topic(told: MetadataResponseTopic) -> TopicMetadata:
    partitions = sorted((_partition(part) for part in told.partitions), key=lambda part: part.index)
    return TopicMetadata(
        told.name or "", UUID(bytes=bytes(told.topic_id)), told.is_internal, tuple(partitions)
    )


def _partition(told: MetadataResponsePartition) -> PartitionMetadata:
    return PartitionMetadata(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        ErrorCode.of(told.error_code),
    )
