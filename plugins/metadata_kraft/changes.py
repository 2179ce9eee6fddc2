"""The records that each change of metadata consists of, as pairs of a message and its version.

They are those that Apache Kafka 4.4's controller writes for the same change on a single node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tidelog.kernel.metadata import NO_DIRECTORY, ConfigOwner, MetadataDelta, PartitionImage, TopicImage
from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.metadata.client_quotas import QuotaEntity
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.features import ELR_VERSION
from tidelog.kernel.seams.metadata import BrokerRegistration
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.metadata_kraft.formatting import supported_features
from tidelog.plugins.metadata_kraft.image import (
    METADATA_VERSION,
    RecordImage,
    Resource,
    TopicRecords,
    acl_record,
    credential_record,
    quota_record,
    token_record,
)
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics
from tidelog.plugins.metadata_kraft.records.types import (
    FENCING_VERSION,
    LOG_DIRS_VERSION,
    SHUTDOWN_VERSION,
    partition_version,
    registration_version,
)

Change: TypeAlias = tuple[object, int]
KRAFT_VERSION: Final = "kraft.version"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
DirectoryOf: TypeAlias = Callable[[TopicPartition], bytes | None]
"""The id of the log directory that a partition lies in, None for one that lies in none."""

_PLAINTEXT = 0


class Changes:
    """Changes of one node's metadata, computed from the current image."""

    def __init__(self, image: RecordImage, node_id: int, directory_of: DirectoryOf) -> None:
        self._image = image
        self._node_id = node_id
        self._directory_of = directory_of

    def of_delta(self, delta: MetadataDelta, broker_epoch: int) -> Iterator[Change]:
        """Make a change; what it sets to its present state needs no record."""
        for name, wanted in delta.topics.items():
            if wanted is not None:
                yield from self.put_topic(wanted)
            elif (topic := self._image.find_topic(name)) is not None:
                yield topics.RemoveTopicRecord(topic_id=topic.topic_id), 0
        for resource, config in delta.configs.items():
            place = _resource(resource)
            yield from _config_changes(place, self._image.configs.get(place, {}), config)
        for entity, quotas in delta.quotas.items():
            yield from self._put_quotas(entity, quotas)
        yield from self._put_credentials(delta.credentials)
        yield from self._put_acls(delta.acls)
        yield from self._put_tokens(delta.tokens)
        yield from level_changes(self._image, delta.features)
        if delta.next_producer_id is not None:
            record = cluster.ProducerIdsRecord(
                broker_id=self._node_id, broker_epoch=broker_epoch, next_producer_id=delta.next_producer_id
            )
            yield record, 0

    def put_topic(self, record: TopicImage) -> Iterator[Change]:
        """Create a topic, or change it to `record`; one of another id is replaced."""
        topic_id = record.topic_id.bytes
        topic = self._image.find_topic(record.name)
        if topic is not None and topic.topic_id != topic_id:
            yield topics.RemoveTopicRecord(topic_id=topic.topic_id), 0
            topic = None
        if topic is None:
            topic = TopicRecords(record.name, topic_id)
            before: Mapping[str, str] = {}
            yield topics.TopicRecord(name=record.name, topic_id=topic_id), 0
        else:
            before = self._image.configs.get((settings.TOPIC_RESOURCE, record.name), {})
        # Behind the topic and before its partitions, as Kafka's controller has them.
        yield from _config_changes((settings.TOPIC_RESOURCE, record.name), before, record.config)
        yield from self._partitions(topic, record)

    def _put_quotas(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> Iterator[Change]:
        before = self._image.quotas.get(entity, {})
        for key in [*before, *(key for key in quotas if key not in before)]:
            if before.get(key) != quotas.get(key):
                yield quota_record(entity, key, quotas.get(key)), 0

    def _put_credentials(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> Iterator[Change]:
        for key, credential in changes.items():
            if credential == self._image.credentials.get(key):
                continue
            if credential is None:
                yield settings.RemoveUserScramCredentialRecord(name=key.user, mechanism=key.mechanism), 0
            else:
                yield credential_record(key, credential), 0

    def _put_acls(self, changes: Mapping[bytes, AclEntry | None]) -> Iterator[Change]:
        for acl_id, entry in changes.items():
            if entry == self._image.acls.get(acl_id):
                continue
            if entry is None:
                yield settings.RemoveAccessControlEntryRecord(id=acl_id), 0
            else:
                yield acl_record(acl_id, entry), 0

    def _put_tokens(self, changes: Mapping[str, DelegationTokenImage | None]) -> Iterator[Change]:
        for token_id, token in changes.items():
            if token == self._image.tokens.get(token_id):
                continue
            if token is None:
                yield settings.RemoveDelegationTokenRecord(token_id=token_id), 0
            else:
                yield token_record(token_id, token), 0

    def _partitions(self, topic: TopicRecords, record: TopicImage) -> Iterator[Change]:
        version = partition_version(self._image.metadata_version)
        for index, partition in enumerate(record.partitions):
            there = topic.partitions.get(index)
            if there is None or there.leader_epoch < partition.leader_epoch:
                partition_epoch = 0 if there is None else there.partition_epoch + 1
                yield self._partition(topic, index, partition, partition_epoch), version
            elif there.leader_epoch == partition.leader_epoch and partition.isr not in ((), (*there.isr,)):
                isr = [*partition.isr]
                yield (
                    topics.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, isr=isr),
                    version,
                )

    def _partition(
        self, topic: TopicRecords, index: int, partition: PartitionImage, partition_epoch: int
    ) -> topics.PartitionRecord:
        directory_id = self._directory_of(TopicPartition(topic.name, index)) or NO_DIRECTORY
        # What is assigned to no broker is this one's.
        leader = partition.leader if partition.replicas else self._node_id
        replicas = partition.replicas or (self._node_id,)
        return topics.PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            replicas=[*replicas],
            isr=[*partition.isr] or [self._node_id],
            leader=leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition_epoch,
            directories=[directory_id if each == self._node_id else NO_DIRECTORY for each in replicas],
        )

    def lead(self) -> Iterator[Change]:
        """Lead every partition in a new epoch, and assign the directories that they were found in."""
        version = partition_version(self._image.metadata_version)
        for topic in self._image.topics.values():
            for index, partition in topic.partitions.items():
                found = self._directory_of(TopicPartition(topic.name, index))
                # A record that names a leader begins a new epoch, even if this node led before.
                change = topics.PartitionChangeRecord(
                    partition_id=index, topic_id=topic.topic_id, isr=[self._node_id], leader=self._node_id
                )
                if partition.eligible_leader_replicas:
                    change.eligible_leader_replicas = []
                if partition.last_known_elr:
                    change.last_known_elr = []
                if found is not None and partition.directories != [found]:
                    change.directories = [found]
                yield change, version

    def keep_directories(self, directory_ids: list[bytes], broker_epoch: int) -> Iterator[Change]:
        """Register which log directories are left."""
        if self._node_id in self._image.brokers:
            change = cluster.BrokerRegistrationChangeRecord(
                broker_id=self._node_id, broker_epoch=broker_epoch, log_dirs=directory_ids
            )
            yield change, LOG_DIRS_VERSION

    def lead_no_longer(self, partitions: Iterable[TopicPartition]) -> Iterator[Change]:
        """Stop leading some partitions: their log directory failed."""
        image = self._image
        for partition in partitions:
            topic = image.find_topic(partition.topic)
            if topic is not None and partition.partition in topic.partitions:
                yield self._leaderless(topic, partition.partition), partition_version(image.metadata_version)

    def assign(self, partition: TopicPartition, directory_id: bytes) -> Iterator[Change]:
        """Assign a partition to another log directory."""
        topic = self._image.find_topic(partition.topic)
        if topic is not None and partition.partition in topic.partitions:
            change = topics.PartitionChangeRecord(
                partition_id=partition.partition, topic_id=topic.topic_id, directories=[directory_id]
            )
            yield change, partition_version(self._image.metadata_version)

    def _leaderless(self, topic: TopicRecords, index: int) -> topics.PartitionChangeRecord:
        change = topics.PartitionChangeRecord(
            partition_id=index, topic_id=topic.topic_id, leader=topics.NO_LEADER
        )
        if self._image.has_elr:
            change.isr = []
            change.eligible_leader_replicas = change.last_known_elr = [self._node_id]
        return change

    def register(self, registration: BrokerRegistration, broker_epoch: int, incarnation: bytes,
                 directory_ids: list[bytes]) -> Iterator[Change]:  # fmt: skip
        """Register this broker, with the offset of the batch as its epoch, and let it lead."""
        broker = cluster.RegisterBrokerRecord(
            broker_id=self._node_id,
            incarnation_id=incarnation,
            broker_epoch=broker_epoch,
            end_points=[
                cluster.Endpoint(name=name, host=host, port=port, security_protocol=_PLAINTEXT)
                for name, (host, port) in registration.endpoints.items()
            ],
            features=supported_features(),
            rack=registration.rack,
            log_dirs=directory_ids,
        )
        yield broker, registration_version(self._image.metadata_version)
        yield self._registration(broker_epoch, fenced=cluster.UNFENCE), FENCING_VERSION

    def leave(self, broker_epoch: int) -> Iterator[Change]:
        """Stop leading every partition: this broker stops, with everything on disk."""
        version = partition_version(self._image.metadata_version)
        if self._node_id in self._image.brokers:
            stopping = cluster.IN_CONTROLLED_SHUTDOWN
            yield self._registration(broker_epoch, in_controlled_shutdown=stopping), SHUTDOWN_VERSION
        for topic in self._image.topics.values():
            for index in topic.partitions:
                yield self._leaderless(topic, index), version
        if self._node_id in self._image.brokers:
            yield self._registration(broker_epoch, fenced=cluster.FENCE), FENCING_VERSION

    def _registration(
        self, broker_epoch: int, *, fenced: int = 0, in_controlled_shutdown: int = 0
    ) -> cluster.BrokerRegistrationChangeRecord:
        return cluster.BrokerRegistrationChangeRecord(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            fenced=fenced,
            in_controlled_shutdown=in_controlled_shutdown,
        )


def _resource(resource: ConfigOwner) -> Resource:
    if resource.scope == "broker":
        return settings.BROKER_RESOURCE, resource.name
    return settings.RESOURCE_TYPES[resource.scope], resource.name


def level_changes(image: RecordImage, levels: Mapping[str, int]) -> Iterator[Change]:
    """Return the records that change levels; `metadata.version` comes first, `kraft.version` has none.

    With eligible leader replicas `min.insync.replicas` counts for the whole cluster (KIP-966).
    """
    for name in sorted(levels.keys() - {KRAFT_VERSION}, key=lambda name: (name != METADATA_VERSION, name)):
        yield cluster.FeatureLevelRecord(name=name, feature_level=levels[name]), 0
    default = settings.BROKER_RESOURCE, ""
    if levels.get(ELR_VERSION) and MIN_INSYNC_REPLICAS not in image.configs.get(default, {}):
        kind, name = default
        yield (
            settings.ConfigRecord(
                resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS, value="1"
            ),
            0,
        )


def _config_changes(
    resource: Resource, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Change]:
    kind, resource_name = resource
    for name in sorted(before.keys() | after.keys()):
        value = after.get(name)
        if value != before.get(name):
            yield (
                settings.ConfigRecord(
                    resource_type=kind, resource_name=resource_name, name=name, value=value
                ),
                0,
            )
