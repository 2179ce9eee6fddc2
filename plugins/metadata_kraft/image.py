"""Image of the cluster: the state described by the metadata log, and the records that rebuild it.

Records that this broker has no use for (the state of a migration from ZooKeeper, and types that it does not
know) are kept as they are and go into every snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tidelog.kernel.seams.features import ELR_VERSION
from tidelog.plugins.metadata_kraft.encoding import frame
from tidelog.plugins.metadata_kraft.records.cluster import FeatureLevelRecord, ProducerIdsRecord
from tidelog.plugins.metadata_kraft.records.control import ZkMigrationStateRecord
from tidelog.plugins.metadata_kraft.records.settings import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    PartOfEntity,
    UserScramCredentialRecord,
)
from tidelog.plugins.metadata_kraft.records.topics import TopicRecord
from tidelog.plugins.metadata_kraft.records.types import partition_version, registration_version

if TYPE_CHECKING:
    from tidelog.kernel.metadata.acls import AclEntry
    from tidelog.kernel.metadata.client_quotas import QuotaEntity
    from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
    from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
    from tidelog.plugins.metadata_kraft.encoding import FramedRecord
    from tidelog.plugins.metadata_kraft.records.cluster import (
        RegisterBrokerRecord,
        RegisterControllerRecord,
    )
    from tidelog.plugins.metadata_kraft.records.topics import PartitionRecord
    from tidelog.plugins.schema.types import Uuid


def _migration(record: ZkMigrationStateRecord) -> Hashable:
    return ("migration",)


_SUBJECT_OF: dict[type[Any], Callable[[Any], Hashable]] = {
    ZkMigrationStateRecord: _migration,
}

KEPT_TYPES = frozenset(_SUBJECT_OF)


@attrs.define(eq=True)
class KeptRecords:
    """The kept records' values, framed as they lay in the log, by what they are about."""

    _values: dict[Hashable, bytes] = attrs.field(factory=dict[Hashable, bytes])
    _unknown: int = 0

    def values(self) -> Iterator[bytes]:
        """Iterate over all of them, in an order in which they can be read again."""
        return iter(self._values.values())

    def keep(self, record: FramedRecord) -> None:
        """Add a record, which may replace an earlier one."""
        message = record.message
        if message is None:
            self._values["unknown", self._unknown] = record.value
            self._unknown += 1
            return
        subject = _SUBJECT_OF[type(message)](message)
        # One that is replaced moves to the end: they are read again in the order in which they were written.
        self._values.pop(subject, None)
        self._values[subject] = record.value


Resource: TypeAlias = tuple[int, str]
"""Resource of a configuration: its type (2 topic, 4 broker) and its name."""

METADATA_VERSION = "metadata.version"


@attrs.define(eq=True)
class TopicRecords:
    """A topic; `partitions` by number, each with its whole state."""

    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionRecord] = attrs.field(factory=dict[int, "PartitionRecord"])


@attrs.define(eq=True)
class RecordImage:
    """Topics, ACLs and tokens by id, configuration by resource, quotas by entity, and all else in the log.

    `next_producer_id` is the first that was never given out. `kept` are records that this broker has no use
    for but never loses. `removed_topics` are the ids and names of topics that were
    removed since the last snapshot.
    """

    topics: dict[Uuid, TopicRecords] = attrs.field(factory=dict[bytes, TopicRecords])
    topic_ids: dict[str, Uuid] = attrs.field(factory=dict[str, bytes])
    configs: dict[Resource, dict[str, str]] = attrs.field(factory=dict[Resource, dict[str, str]])
    quotas: dict[QuotaEntity, dict[str, float]] = attrs.field(factory=dict["QuotaEntity", dict[str, float]])
    credentials: dict[CredentialKey, ScramCredential] = attrs.field(
        factory=dict["CredentialKey", "ScramCredential"]
    )
    acls: dict[Uuid, AclEntry] = attrs.field(factory=dict[bytes, "AclEntry"])
    tokens: dict[str, DelegationTokenImage] = attrs.field(factory=dict[str, "DelegationTokenImage"])
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
        """The level of `metadata.version`, 0 in an image without any record."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def has_elr(self) -> bool:
        """Return whether eligible leader replicas are enabled (KIP-966)."""
        return self.features.get(ELR_VERSION, 0) > 0

    def find_topic(self, name: str) -> TopicRecords | None:
        """Return the topic of that name, None without one."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]


NO_BROKER = -1


def image_records(image: RecordImage) -> Iterator[bytes]:
    """Yield framed records which, applied to an empty image, rebuild this one; in Kafka's order."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield frame(broker, registration_version(image.metadata_version))
    for controller in image.controllers.values():
        yield frame(controller)
    version = partition_version(image.metadata_version)
    for topic in image.topics.values():
        yield frame(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        for partition in topic.partitions.values():
            yield frame(partition, version)
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            yield frame(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    for entity, quotas in image.quotas.items():
        for key, quota in quotas.items():
            yield frame(quota_record(entity, key, quota))
    if image.next_producer_id:
        yield frame(ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=image.next_producer_id))
    for acl_id, entry in image.acls.items():
        yield frame(acl_record(acl_id, entry))
    for credential_key, credential in image.credentials.items():
        yield frame(credential_record(credential_key, credential))
    for token_id, token in image.tokens.items():
        yield frame(token_record(token_id, token))
    yield from image.kept.values()


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """Return the record of a quota that is set, or removed when `value` is None."""
    parts = [PartOfEntity(entity_type=kind, entity_name=name) for kind, name in _sorted(entity)]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def _sorted(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    return sorted(entity, key=lambda part: part[0])


def credential_record(key: CredentialKey, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record of a credential."""
    return UserScramCredentialRecord(
        name=key.user,
        mechanism=key.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def acl_record(acl_id: Uuid, entry: AclEntry) -> AccessControlEntryRecord:
    """Return the record of an entry of access control."""
    return AccessControlEntryRecord(id=acl_id, **entry._asdict())


def token_record(token_id: str, token: DelegationTokenImage) -> DelegationTokenRecord:
    """Return the record of a delegation token."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=[*token.renewers],
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token_id,
    )


def _features(image: RecordImage) -> Iterator[bytes]:
    """Yield the feature levels; `metadata.version` comes first, since readers need it for all others."""
    names = sorted(image.features, key=lambda name: name != METADATA_VERSION)
    for name in names:
        yield frame(FeatureLevelRecord(name=name, feature_level=image.features[name]))
