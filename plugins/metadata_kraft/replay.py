"""Application of each type of metadata record to the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.plugins.metadata_kraft.encoding import FramedRecord, UnreadableMetadataRecord
from tidelog.plugins.metadata_kraft.image import KEPT_TYPES, RecordImage, TopicRecords
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics


def apply_record(image: RecordImage, record: FramedRecord) -> None:
    """Apply a record to the image.

    Raises:
        UnreadableMetadataRecord: the record refers to a topic, partition or broker that is not there.
    """
    message: object = record.message
    apply = _APPLY.get(type(message))
    if apply is not None:
        apply(image, message)
    elif message is None or type(message) in KEPT_TYPES:
        image.kept.keep(record)


def apply_message(image: RecordImage, message: object) -> None:
    """Like `apply_record`, for a message of this broker's own."""
    _APPLY[type(message)](image, message)


def _topic(image: RecordImage, record: topics.TopicRecord) -> None:
    image.topics[record.topic_id] = TopicRecords(record.name, record.topic_id)
    image.topic_ids[record.name] = record.topic_id


def _remove_topic(image: RecordImage, record: topics.RemoveTopicRecord) -> None:
    topic = _topic_of(image, record.topic_id)
    del image.topics[record.topic_id], image.topic_ids[topic.name]
    image.configs.pop((settings.TOPIC_RESOURCE, topic.name), None)
    image.removed_topics[record.topic_id] = topic.name


def _partition(image: RecordImage, record: topics.PartitionRecord) -> None:
    _topic_of(image, record.topic_id).partitions[record.partition_id] = record


def _change_partition(image: RecordImage, record: topics.PartitionChangeRecord) -> None:
    topic = _topic_of(image, record.topic_id)
    partition = topic.partitions.get(record.partition_id)
    if partition is None:
        raise UnreadableMetadataRecord(
            f"partition {record.partition_id} of topic {topic.name} changes but is unknown"
        )
    for name in (
        "isr",
        "replicas",
        "removing_replicas",
        "adding_replicas",
        "eligible_leader_replicas",
        "last_known_elr",
        "directories",
    ):
        value = getattr(record, name)
        if value is not None:
            setattr(partition, name, value)
    if record.leader_recovery_state != topics.RECOVERY_STATE_UNCHANGED:
        partition.leader_recovery_state = record.leader_recovery_state
    # As in Kafka, a record that names a leader begins a new epoch, even if the leader is the same.
    if record.leader != topics.LEADER_UNCHANGED:
        partition.leader = record.leader
        partition.leader_epoch += 1
    partition.partition_epoch += 1


def _clear_elr(image: RecordImage, record: topics.ClearElrRecord) -> None:
    for topic in image.topics.values():
        if record.topic_name in ("", topic.name):
            for partition in topic.partitions.values():
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    partition.eligible_leader_replicas = partition.last_known_elr = []
                    partition.partition_epoch += 1


def _config(image: RecordImage, record: settings.ConfigRecord) -> None:
    resource = (record.resource_type, record.resource_name)
    values = image.configs.setdefault(resource, {})
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record.value
    if not values:
        del image.configs[resource]


def _quota(image: RecordImage, record: settings.ClientQuotaRecord) -> None:
    entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
    quotas = image.quotas.setdefault(entity, {})
    if record.remove:
        quotas.pop(record.key, None)
    else:
        quotas[record.key] = record.value
    if not quotas:
        del image.quotas[entity]


def _credential(image: RecordImage, record: settings.UserScramCredentialRecord) -> None:
    image.credentials[CredentialKey(record.name, record.mechanism)] = ScramCredential(
        record.salt, record.stored_key, record.server_key, record.iterations
    )


def _remove_credential(image: RecordImage, record: settings.RemoveUserScramCredentialRecord) -> None:
    image.credentials.pop(CredentialKey(record.name, record.mechanism), None)


def _acl(image: RecordImage, record: settings.AccessControlEntryRecord) -> None:
    image.acls[record.id] = AclEntry(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def _remove_acl(image: RecordImage, record: settings.RemoveAccessControlEntryRecord) -> None:
    image.acls.pop(record.id, None)


def _token(image: RecordImage, record: settings.DelegationTokenRecord) -> None:
    image.tokens[record.token_id] = DelegationTokenImage(
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def _remove_token(image: RecordImage, record: settings.RemoveDelegationTokenRecord) -> None:
    image.tokens.pop(record.token_id, None)


def _feature(image: RecordImage, record: cluster.FeatureLevelRecord) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)


def _register_broker(image: RecordImage, record: cluster.RegisterBrokerRecord) -> None:
    image.brokers[record.broker_id] = record


def _unregister_broker(image: RecordImage, record: cluster.UnregisterBrokerRecord) -> None:
    image.brokers.pop(record.broker_id, None)


def _change_registration(image: RecordImage, record: cluster.BrokerRegistrationChangeRecord) -> None:
    broker = _broker_of(image, record.broker_id)
    if record.fenced:
        broker.fenced = record.fenced == cluster.FENCE
    if record.in_controlled_shutdown:
        broker.in_controlled_shutdown = record.in_controlled_shutdown == cluster.IN_CONTROLLED_SHUTDOWN
    if record.log_dirs:
        broker.log_dirs = record.log_dirs
    if record.cordoned_log_dirs is not None:
        broker.cordoned_log_dirs = record.cordoned_log_dirs


def _fence(image: RecordImage, record: cluster.FenceBrokerRecord) -> None:
    _broker_of(image, record.id).fenced = True


def _unfence(image: RecordImage, record: cluster.UnfenceBrokerRecord) -> None:
    _broker_of(image, record.id).fenced = False


def _register_controller(image: RecordImage, record: cluster.RegisterControllerRecord) -> None:
    image.controllers[record.controller_id] = record


def _unregister_controller(image: RecordImage, record: cluster.UnregisterControllerRecord) -> None:
    image.controllers.pop(record.controller_id, None)


def _producer_ids(image: RecordImage, record: cluster.ProducerIdsRecord) -> None:
    image.next_producer_id = record.next_producer_id


def _topic_of(image: RecordImage, topic_id: bytes) -> TopicRecords:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise UnreadableMetadataRecord(f"a record refers to the topic {topic_id.hex()}, which is unknown")
    return topic


def _broker_of(image: RecordImage, broker_id: int) -> cluster.RegisterBrokerRecord:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise UnreadableMetadataRecord(f"a record refers to broker {broker_id}, which is unknown")
    return broker


_APPLY: dict[type[Any], Callable[[RecordImage, Any], None]] = {
    topics.TopicRecord: _topic,
    topics.RemoveTopicRecord: _remove_topic,
    topics.PartitionRecord: _partition,
    topics.PartitionChangeRecord: _change_partition,
    topics.ClearElrRecord: _clear_elr,
    settings.ConfigRecord: _config,
    settings.ClientQuotaRecord: _quota,
    settings.UserScramCredentialRecord: _credential,
    settings.RemoveUserScramCredentialRecord: _remove_credential,
    settings.AccessControlEntryRecord: _acl,
    settings.RemoveAccessControlEntryRecord: _remove_acl,
    settings.DelegationTokenRecord: _token,
    settings.RemoveDelegationTokenRecord: _remove_token,
    cluster.FeatureLevelRecord: _feature,
    cluster.RegisterBrokerRecord: _register_broker,
    cluster.UnregisterBrokerRecord: _unregister_broker,
    cluster.BrokerRegistrationChangeRecord: _change_registration,
    cluster.FenceBrokerRecord: _fence,
    cluster.UnfenceBrokerRecord: _unfence,
    cluster.RegisterControllerRecord: _register_controller,
    cluster.UnregisterControllerRecord: _unregister_controller,
    cluster.ProducerIdsRecord: _producer_ids,
}
