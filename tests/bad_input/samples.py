"""A good request of every API in every version that tidelog serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    OpData,
)
from tidelog.plugins.protocol_kafka.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.plugins.protocol_kafka.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
)
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.describe_acls import DescribeAclsRequest
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_cluster import DescribeClusterRequest
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribedTokenOwner,
)
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.plugins.protocol_kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.plugins.protocol_kafka.messages.push_telemetry import PushTelemetryRequest
from tidelog.plugins.protocol_kafka.messages.renew_delegation_token import RenewDelegationTokenRequest
from tidelog.plugins.protocol_kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.plugins.protocol_kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .batches import batch
from .coordinator_samples import SAMPLES as COORDINATOR_SAMPLES
from .raw_client import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from .raw_client import RawClient

TOPIC_ACL, READ_ACL, ALLOW_ACL, SCRAM_SHA_256 = 2, 3, 3, 1
IDS_SINCE = {apis.METADATA: 12, apis.FIND_COORDINATOR: 4, apis.DELETE_TOPICS: 6}


def served_versions() -> list[tuple[apis.Api, int]]:
    """Every API that is served, in every version."""
    return [
        (apis.APIS[served.key], version)
        for served in BUILT_IN
        for version in range(served.span.low, served.span.high + 1)
    ]


def sample(client: RawClient, api: apis.Api, version: int) -> object:
    """A new good request."""
    assert api in _SAMPLES, f"{api.name} is served and has no sample here to be spoiled"
    return _SAMPLES[api](client, version)


def _produce(client: RawClient, version: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(batch([b"fuzz"])))
    topic = TopicProduceData(name=client.topic, topic_id=client.topic_id, partition_data=[data])
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=100, topic_data=[topic])


def _fetch(client: RawClient, version: int) -> object:
    return fetch(client.topic, 0, topic_id=client.topic_id, max_wait_ms=1, min_bytes=1)


def _list_offsets(client: RawClient, version: int) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in (-1, 0)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=client.topic, partitions=asked)])


def _metadata(client: RawClient, version: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=client.topic)]
    if version >= IDS_SINCE[apis.METADATA]:
        topics.append(MetadataRequestTopic(name=None, topic_id=client.topic_id))
    return MetadataRequest(topics=topics)


def _find_coordinator(client: RawClient, version: int) -> FindCoordinatorRequest:
    if version < IDS_SINCE[apis.FIND_COORDINATOR]:
        return FindCoordinatorRequest(key="group")
    return FindCoordinatorRequest(coordinator_keys=["group", "other"])


def _api_versions(client: RawClient, version: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="fuzz", client_software_version="1.0")


def _create_topics(client: RawClient, version: int) -> CreateTopicsRequest:
    # A name that is refused: a mutation must not make thousands of partitions.
    topic = CreatableTopic(
        name="a/b",
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=100)


def _delete_topics(client: RawClient, version: int) -> DeleteTopicsRequest:
    if version < IDS_SINCE[apis.DELETE_TOPICS]:
        return DeleteTopicsRequest(topic_names=["nowhere"], timeout_ms=100)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name="nowhere")], timeout_ms=100)


def _init_producer_id(client: RawClient, version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


def _offset_for_leader_epoch(client: RawClient, version: int) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=client.topic, partitions=[asked])])


def _describe_configs(client: RawClient, version: int) -> DescribeConfigsRequest:
    topic = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=client.topic, configuration_keys=["retention.ms"]
    )
    broker = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="", configuration_keys=None)
    return DescribeConfigsRequest(resources=[topic, broker])


def _alter_configs(client: RawClient, version: int) -> AlterConfigsRequest:
    # Of a topic that is not there: a mutation must not change how the broker goes on.
    configs = [AlterableConfig(name="flush.ms", value="1000")]
    topic = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="nowhere", configs=configs)
    return AlterConfigsRequest(resources=[topic], validate_only=True)


def _incremental_alter_configs(client: RawClient, version: int) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterableConfig(name="flush.ms", config_operation=SET, value="1000")
    topic = IncrementalAlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name="nowhere", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[topic], validate_only=True)


def _create_partitions(client: RawClient, version: int) -> CreatePartitionsRequest:
    assignment = CreatePartitionsAssignment(broker_ids=[1])
    topic = CreatePartitionsTopic(name="nowhere", count=2, assignments=[assignment])
    return CreatePartitionsRequest(topics=[topic], timeout_ms=100, validate_only=True)


def _delete_records(client: RawClient, version: int) -> DeleteRecordsRequest:
    # Of a topic that is not there: a mutation is taken at its word.
    asked = [DeleteRecordsPartition(partition_index=0, offset=0)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="nowhere", partitions=asked)], timeout_ms=100)


def _consumer_group_heartbeat(client: RawClient, version: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="fuzz",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[client.topic],
        topic_partitions=[],
    )


def _consumer_group_describe(client: RawClient, version: int) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=["fuzz"], include_authorized_operations=True)


def _describe_log_dirs(client: RawClient, version: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=client.topic, partitions=[0])])


def _alter_replica_log_dirs(client: RawClient, version: int) -> AlterReplicaLogDirsRequest:
    topic = AlterReplicaLogDirTopic(name="nowhere", partitions=[0])
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])])


def _alter_partition_reassignments(client: RawClient, version: int) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=[1])
    topic = ReassignableTopic(name=client.topic, partitions=[partition])
    return AlterPartitionReassignmentsRequest(timeout_ms=100, topics=[topic])


def _list_partition_reassignments(client: RawClient, version: int) -> ListPartitionReassignmentsRequest:
    topic = ListPartitionReassignmentsTopics(name=client.topic, partition_indexes=[0])
    return ListPartitionReassignmentsRequest(timeout_ms=100, topics=[topic])


def _describe_cluster(client: RawClient, version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def _describe_topic_partitions(client: RawClient, version: int) -> DescribeTopicPartitionsRequest:
    cursor = Cursor(topic_name=client.topic, partition_index=0)
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsTopic(name=client.topic)], cursor=cursor
    )


def _elect_leaders(client: RawClient, version: int) -> ElectLeadersRequest:
    asked = ElectLeadersTopicPartitions(topic=client.topic, partitions=[0])
    return ElectLeadersRequest(topic_partitions=[asked], timeout_ms=100)


def _list_config_resources(client: RawClient, version: int) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[] if version == 0 else [TOPIC_RESOURCE])


def _describe_quorum(client: RawClient, version: int) -> DescribeQuorumRequest:
    partition = DescribedPartition(partition_index=0)
    topic = DescribedTopic(topic_name="__cluster_metadata", partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def _update_features(client: RawClient, version: int) -> UpdateFeaturesRequest:
    # Of a feature that is not there: a mutation must not change how the broker goes on.
    update = FeatureUpdateKey(feature="nowhere", max_version_level=1)
    return UpdateFeaturesRequest(timeout_ms=100, feature_updates=[update])


def _describe_acls(client: RawClient, version: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=TOPIC_ACL,
        resource_name_filter=client.topic,
        principal_filter="User:fuzz",
        host_filter="*",
        operation=READ_ACL,
        permission_type=ALLOW_ACL,
    )


def _create_acls(client: RawClient, version: int) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=TOPIC_ACL,
        resource_name=client.topic,
        principal="User:fuzz",
        host="*",
        operation=READ_ACL,
        permission_type=ALLOW_ACL,
    )
    return CreateAclsRequest(creations=[creation])


def _delete_acls(client: RawClient, version: int) -> DeleteAclsRequest:
    chosen = DeleteAclsFilter(
        resource_type_filter=TOPIC_ACL,
        resource_name_filter=client.topic,
        principal_filter="User:fuzz",
        host_filter="*",
        operation=READ_ACL,
        permission_type=ALLOW_ACL,
    )
    return DeleteAclsRequest(filters=[chosen])


def _describe_client_quotas(client: RawClient, version: int) -> DescribeClientQuotasRequest:
    user = ComponentData(entity_type="user", match_type=0, match="fuzz")
    return DescribeClientQuotasRequest(components=[user], strict=True)


def _alter_client_quotas(client: RawClient, version: int) -> AlterClientQuotasRequest:
    entity = [AlterClientQuotasEntity(entity_type="user", entity_name="fuzz")]
    ops = [OpData(key="producer_byte_rate", value=1000.0, remove=False)]
    return AlterClientQuotasRequest(
        entries=[AlterClientQuotasEntry(entity=entity, ops=ops)], validate_only=True
    )


def _describe_user_scram_credentials(client: RawClient, version: int) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name="fuzz")])


def _alter_user_scram_credentials(client: RawClient, version: int) -> AlterUserScramCredentialsRequest:
    credential = ScramCredentialUpsertion(
        name="fuzz", mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=b"\1" * 32
    )
    deletion = ScramCredentialDeletion(name="nobody", mechanism=SCRAM_SHA_256)
    return AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[credential])


def _create_delegation_token(client: RawClient, version: int) -> CreateDelegationTokenRequest:
    renewers = [CreatableRenewer(principal_type="User", principal_name="fuzz")]
    return CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=1)


def _renew_delegation_token(client: RawClient, version: int) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=b"fuzz", renew_period_ms=1)


def _expire_delegation_token(client: RawClient, version: int) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=b"fuzz", expiry_time_period_ms=1)


def _describe_delegation_token(client: RawClient, version: int) -> DescribeDelegationTokenRequest:
    owners = [DescribedTokenOwner(principal_type="User", principal_name="fuzz")]
    return DescribeDelegationTokenRequest(owners=owners)


def _sasl_handshake(client: RawClient, version: int) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(mechanism="PLAIN")


def _sasl_authenticate(client: RawClient, version: int) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=b"\0fuzz\0fuzz")


def _get_telemetry_subscriptions(client: RawClient, version: int) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(client_instance_id=client.topic_id)


def _push_telemetry(client: RawClient, version: int) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=client.topic_id,
        subscription_id=1,
        terminating=False,
        compression_type=0,
        metrics=b"fuzz",
    )


_SAMPLES: dict[apis.Api, Callable[[RawClient, int], object]] = {
    apis.PRODUCE: _produce,
    apis.FETCH: _fetch,
    apis.LIST_OFFSETS: _list_offsets,
    apis.METADATA: _metadata,
    apis.FIND_COORDINATOR: _find_coordinator,
    apis.API_VERSIONS: _api_versions,
    apis.CREATE_TOPICS: _create_topics,
    apis.DELETE_TOPICS: _delete_topics,
    apis.INIT_PRODUCER_ID: _init_producer_id,
    apis.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    apis.DESCRIBE_CONFIGS: _describe_configs,
    apis.ALTER_CONFIGS: _alter_configs,
    apis.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    apis.CREATE_PARTITIONS: _create_partitions,
    apis.DELETE_RECORDS: _delete_records,
    apis.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    apis.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    apis.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    apis.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    **COORDINATOR_SAMPLES,
    apis.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    apis.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    apis.DESCRIBE_CLUSTER: _describe_cluster,
    apis.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    apis.ELECT_LEADERS: _elect_leaders,
    apis.LIST_CONFIG_RESOURCES: _list_config_resources,
    apis.DESCRIBE_QUORUM: _describe_quorum,
    apis.UPDATE_FEATURES: _update_features,
    apis.DESCRIBE_ACLS: _describe_acls,
    apis.CREATE_ACLS: _create_acls,
    apis.DELETE_ACLS: _delete_acls,
    apis.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    apis.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    apis.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    apis.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    apis.RENEW_DELEGATION_TOKEN: _renew_delegation_token,
    apis.EXPIRE_DELEGATION_TOKEN: _expire_delegation_token,
    apis.DESCRIBE_DELEGATION_TOKEN: _describe_delegation_token,
    apis.SASL_HANDSHAKE: _sasl_handshake,
    apis.SASL_AUTHENTICATE: _sasl_authenticate,
    apis.GET_TELEMETRY_SUBSCRIPTIONS: _get_telemetry_subscriptions,
    apis.PUSH_TELEMETRY: _push_telemetry,
}
