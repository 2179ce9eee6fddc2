"""The kernel's image of what the records of the log say, and the delta that some records made.

A delta is computed from what its records are about and the image that they led to, so that it takes as long
as the change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from uuid import UUID

import attrs

from tidelog.kernel.metadata import (
    NO_DIRECTORY,
    BrokerImage,
    ConfigOwner,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    PersistentMap,
    ResourceScope,
    TopicImage,
)
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.metadata.scram import CredentialKey
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps, run_to_end
from tidelog.plugins.metadata_kraft.image import RecordImage, Resource, TopicRecords
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics

_SCOPES: Mapping[int, ResourceScope] = {number: scope for scope, number in settings.RESOURCE_TYPES.items()}


class ImageDelivery:
    """What is delivered of one record image; `is_adopted(topic_id)` is no part of the log.

    The node leads the log alone, so no other broker that is registered in it is alive: they are fenced.
    """

    def __init__(self, records: RecordImage, node_id: int, is_adopted: Callable[[UUID], bool]) -> None:
        self._records = records
        self._node_id = node_id
        self._is_adopted = is_adopted

    def image(self, cluster_id: str, adopting: Iterable[TopicImage]) -> MetadataImage:
        """Return the image as a whole, with topics that are about to be adopted."""
        records = self._records
        found = {topic.name: run_to_end(self._topic(topic)) for topic in records.topics.values()}
        configs = ((_resource(resource), values) for resource, values in records.configs.items())
        return MetadataImage(
            cluster_id,
            PersistentMap(found | {topic.name: topic for topic in adopting}),
            PersistentMap({key: dict(values) for key, values in configs if key is not None}),
            PersistentMap({entity: dict(quotas) for entity, quotas in records.quotas.items()}),
            PersistentMap(records.credentials),
            PersistentMap(records.acls),
            PersistentMap(records.tokens),
            dict(records.features),
            0,
            {node_id: self._broker(broker) for node_id, broker in records.brokers.items()},
            records.next_producer_id,
        )

    async def delta(self, messages: Iterable[object]) -> MetadataDelta:
        """Return what messages, which are in the record image by now, have changed; in steps."""
        records, touched, pace = self._records, _Touched(), Pace()
        for message in messages:
            touched.add(message, records)
            await pace.turn()
        found: dict[str, TopicImage | None] = {}
        for name in touched.topics:
            # The records are all applied by now, so None means that it is deleted in the end, whatever came
            # before.
            topic = records.find_topic(name)
            found[name] = None if topic is None else await run_in_steps(self._topic(topic), pace)
        configs = ((_resource(resource), records.configs.get(resource, {})) for resource in touched.resources)
        return MetadataDelta(
            found,
            {key: dict(values) for key, values in configs if key is not None},
            {entity: dict(records.quotas.get(entity, {})) for entity in touched.entities},
            {key: records.credentials.get(key) for key in touched.credentials},
            {acl_id: records.acls.get(acl_id) for acl_id in touched.acls},
            {token_id: records.tokens.get(token_id) for token_id in touched.tokens},
            {name: records.features.get(name, 0) for name in touched.features},
            None,
            {node_id: self._broker(records.brokers[node_id]) for node_id in touched.brokers},
            records.next_producer_id,
        )

    def led(self, image: MetadataImage) -> MetadataImage:
        """Return an image in which this node leads every partition already, in the epoch that it will."""

        def lead(partition: PartitionImage) -> PartitionImage:
            return partition._replace(
                leader=self._node_id, leader_epoch=partition.leader_epoch + 1, isr=(self._node_id,)
            )

        topics = {
            name: attrs.evolve(topic, partitions=tuple(map(lead, topic.partitions)))
            for name, topic in image.topics.items()
        }
        return attrs.evolve(image, topics=image.topics.updated(topics))

    def _broker(self, broker: cluster.RegisterBrokerRecord) -> BrokerImage:
        endpoints = {point.name: (point.host, point.port) for point in broker.end_points}
        is_fenced = bool(broker.fenced) or broker.broker_id != self._node_id
        return BrokerImage(broker.broker_epoch, endpoints, broker.rack, is_fenced)

    def _topic(self, topic: TopicRecords) -> Generator[None, None, TopicImage]:
        topic_id = UUID(bytes=topic.topic_id)
        config = self._records.configs.get((settings.TOPIC_RESOURCE, topic.name), {})
        in_order = (topic.partitions[index] for index in range(len(topic.partitions)))
        # Most partitions of a topic are alike, and then one object: there may be many thousands.
        alike: dict[PartitionImage, PartitionImage] = {}

        def shared(partition: topics.PartitionRecord) -> PartitionImage:
            image = _partition(partition)
            return alike.setdefault(image, image)

        partitions = yield from each_in_steps(in_order, shared)
        return TopicImage(topic.name, topic_id, tuple(partitions), dict(config), self._is_adopted(topic_id))


class _Touched:
    """What messages are about, each once, in their order."""

    def __init__(self) -> None:
        self.topics: dict[str, None] = {}
        self.resources: dict[Resource, None] = {}
        self.entities: dict[QuotaEntity, None] = {}
        self.credentials: dict[CredentialKey, None] = {}
        self.acls: dict[bytes, None] = {}
        self.tokens: dict[str, None] = {}
        self.features: dict[str, None] = {}
        self.brokers: dict[int, None] = {}

    def add(self, message: object, records: RecordImage) -> None:
        """Note what a message is about."""
        match message:
            case topics.TopicRecord(name=name):
                self.topics[name] = None
            case topics.RemoveTopicRecord(topic_id=topic_id):
                self.topics[records.removed_topics[topic_id]] = None
            case topics.PartitionRecord(topic_id=topic_id) | topics.PartitionChangeRecord(topic_id=topic_id):
                topic = records.topics.get(topic_id)
                if topic is not None:
                    self.topics[topic.name] = None
            case settings.ConfigRecord(resource_type=settings.TOPIC_RESOURCE, resource_name=name):
                self.topics[name] = None
            case settings.ConfigRecord(resource_type=kind, resource_name=name):
                self.resources[kind, name] = None
            case settings.ClientQuotaRecord(entity=parts):
                self.entities[frozenset((part.entity_type, part.entity_name) for part in parts)] = None
            case (
                settings.UserScramCredentialRecord(name=name, mechanism=mechanism)
                | settings.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
            ):
                self.credentials[CredentialKey(name, mechanism)] = None
            case (
                settings.AccessControlEntryRecord(id=acl_id)
                | settings.RemoveAccessControlEntryRecord(id=acl_id)
            ):
                self.acls[acl_id] = None
            case (
                settings.DelegationTokenRecord(token_id=token_id)
                | settings.RemoveDelegationTokenRecord(token_id=token_id)
            ):
                self.tokens[token_id] = None
            case cluster.FeatureLevelRecord(name=name):
                self.features[name] = None
            case (
                cluster.RegisterBrokerRecord(broker_id=broker_id)
                | cluster.BrokerRegistrationChangeRecord(broker_id=broker_id)
            ):
                self.brokers[broker_id] = None
            case _:
                """The next producer id is in every delta, controllers are in none."""


def _partition(partition: topics.PartitionRecord) -> PartitionImage:
    directory = partition.directories[0] if partition.directories else NO_DIRECTORY
    replicas, isr = tuple(partition.replicas), tuple(partition.isr)
    return PartitionImage(partition.leader_epoch, partition.leader, replicas, isr, directory)


def _resource(resource: Resource) -> ConfigOwner | None:
    """Return a resource as the kernel names it, None for a topic and for kinds that it does not have."""
    kind, name = resource
    if kind == settings.BROKER_RESOURCE:
        return ConfigOwner("broker", name)
    scope = _SCOPES.get(kind)
    return None if scope is None else ConfigOwner(scope, name)
