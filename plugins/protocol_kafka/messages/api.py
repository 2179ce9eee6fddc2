"""Table of APIs: keys, names, versions, and the modules of their messages.

A message module is imported at the first use of one of its classes. To add an API, declare its messages in a
module of its own and add a line here; the classes are named after the API, `<name>Request` and
`<name>Response`.

Versions are the union of those that Apache Kafka 3.9 and 4.4 define, without gaps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.plugins.schema.declare import VersionSpan

if TYPE_CHECKING:
    from collections.abc import Mapping


class Api(NamedTuple):
    """One API of the protocol.

    Attributes:
        key: its number in request headers
        name: Kafka's name for it
        versions: of its messages, the same for request and response
        module: the module of its messages, beside this one
        unstable: the first version that is unstable in Kafka, None when all are stable
    """

    key: int
    name: str
    versions: VersionSpan
    module: str
    unstable: int | None = None

    @property
    def newest_stable(self) -> int:
        """Return the highest version that is stable in Kafka; later ones may still change."""
        return self.versions.high if self.unstable is None else self.unstable - 1

    @property
    def request_class(self) -> type[Any]:
        """The class of its requests."""
        return self._class("Request")

    @property
    def response_class(self) -> type[Any]:
        """The class of its responses."""
        return self._class("Response")

    def request_header_version(self, version: int) -> int:
        """Return 2 for flexible versions, else 1 (only ControlledShutdown, since removed, had version 0)."""
        return 2 if self.versions.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 for flexible versions, else 0; always 0 for ApiVersions, which negotiates versions."""
        return 1 if self.versions.is_flexible(version) and self is not API_VERSIONS else 0

    def _class(self, suffix: str) -> type[Any]:
        cls: type[Any] = getattr(import_module(f"{__package__}.{self.module}"), self.name + suffix)
        return cls


PRODUCE: Final = Api(0, "Produce", VersionSpan(0, 13, flexible=9), "produce")
FETCH: Final = Api(1, "Fetch", VersionSpan(0, 18, flexible=12), "fetch")
LIST_OFFSETS: Final = Api(2, "ListOffsets", VersionSpan(0, 11, flexible=6), "list_offsets")
METADATA: Final = Api(3, "Metadata", VersionSpan(0, 13, flexible=9), "metadata")
OFFSET_COMMIT: Final = Api(8, "OffsetCommit", VersionSpan(0, 10, flexible=8), "offset_commit")
OFFSET_FETCH: Final = Api(9, "OffsetFetch", VersionSpan(0, 10, flexible=6), "offset_fetch")
FIND_COORDINATOR: Final = Api(10, "FindCoordinator", VersionSpan(0, 6, flexible=3), "find_coordinator")
JOIN_GROUP: Final = Api(11, "JoinGroup", VersionSpan(0, 9, flexible=6), "join_group")
HEARTBEAT: Final = Api(12, "Heartbeat", VersionSpan(0, 4, flexible=4), "heartbeat")
LEAVE_GROUP: Final = Api(13, "LeaveGroup", VersionSpan(0, 5, flexible=4), "leave_group")
SYNC_GROUP: Final = Api(14, "SyncGroup", VersionSpan(0, 5, flexible=4), "sync_group")
DESCRIBE_GROUPS: Final = Api(15, "DescribeGroups", VersionSpan(0, 6, flexible=5), "describe_groups")
LIST_GROUPS: Final = Api(16, "ListGroups", VersionSpan(0, 5, flexible=3), "list_groups")
API_VERSIONS: Final = Api(18, "ApiVersions", VersionSpan(0, 5, flexible=3), "api_versions")
CREATE_TOPICS: Final = Api(19, "CreateTopics", VersionSpan(0, 7, flexible=5), "create_topics")
DELETE_TOPICS: Final = Api(20, "DeleteTopics", VersionSpan(0, 6, flexible=4), "delete_topics")
DELETE_RECORDS: Final = Api(21, "DeleteRecords", VersionSpan(0, 2, flexible=2), "delete_records")
# Version 6 is the two-phase commit of KIP-939.
INIT_PRODUCER_ID: Final = Api(
    22, "InitProducerId", VersionSpan(0, 6, flexible=2), "init_producer_id", unstable=6
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    23, "OffsetForLeaderEpoch", VersionSpan(0, 4, flexible=4), "offset_for_leader_epoch"
)
ADD_PARTITIONS_TO_TXN: Final = Api(
    24, "AddPartitionsToTxn", VersionSpan(0, 5, flexible=3), "add_partitions_to_txn"
)
ADD_OFFSETS_TO_TXN: Final = Api(25, "AddOffsetsToTxn", VersionSpan(0, 4, flexible=3), "add_offsets_to_txn")
END_TXN: Final = Api(26, "EndTxn", VersionSpan(0, 5, flexible=3), "end_txn")
WRITE_TXN_MARKERS: Final = Api(27, "WriteTxnMarkers", VersionSpan(0, 2, flexible=1), "write_txn_markers")
TXN_OFFSET_COMMIT: Final = Api(28, "TxnOffsetCommit", VersionSpan(0, 6, flexible=3), "txn_offset_commit")
DESCRIBE_CONFIGS: Final = Api(32, "DescribeConfigs", VersionSpan(0, 4, flexible=4), "describe_configs")
SASL_HANDSHAKE: Final = Api(17, "SaslHandshake", VersionSpan(0, 1), "sasl_handshake")
SASL_AUTHENTICATE: Final = Api(36, "SaslAuthenticate", VersionSpan(0, 2, flexible=2), "sasl_authenticate")
DELETE_GROUPS: Final = Api(42, "DeleteGroups", VersionSpan(0, 3, flexible=2), "delete_groups")
OFFSET_DELETE: Final = Api(47, "OffsetDelete", VersionSpan(0, 0), "offset_delete")
DESCRIBE_PRODUCERS: Final = Api(61, "DescribeProducers", VersionSpan(0, 0, flexible=0), "describe_producers")
DESCRIBE_TRANSACTIONS: Final = Api(
    65, "DescribeTransactions", VersionSpan(0, 0, flexible=0), "describe_transactions"
)
LIST_TRANSACTIONS: Final = Api(66, "ListTransactions", VersionSpan(0, 2, flexible=0), "list_transactions")
CONSUMER_GROUP_HEARTBEAT: Final = Api(
    68, "ConsumerGroupHeartbeat", VersionSpan(0, 1, flexible=0), "consumer_group_heartbeat"
)
CONSUMER_GROUP_DESCRIBE: Final = Api(
    69, "ConsumerGroupDescribe", VersionSpan(0, 1, flexible=0), "consumer_group_describe"
)
ALTER_CONFIGS: Final = Api(33, "AlterConfigs", VersionSpan(0, 2, flexible=2), "alter_configs")
CREATE_PARTITIONS: Final = Api(37, "CreatePartitions", VersionSpan(0, 3, flexible=2), "create_partitions")
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    44, "IncrementalAlterConfigs", VersionSpan(0, 1, flexible=1), "incremental_alter_configs"
)
ALTER_REPLICA_LOG_DIRS: Final = Api(
    34, "AlterReplicaLogDirs", VersionSpan(0, 2, flexible=2), "alter_replica_log_dirs"
)
DESCRIBE_LOG_DIRS: Final = Api(35, "DescribeLogDirs", VersionSpan(0, 5, flexible=2), "describe_log_dirs")
ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    45, "AlterPartitionReassignments", VersionSpan(0, 1, flexible=0), "alter_partition_reassignments"
)
LIST_PARTITION_REASSIGNMENTS: Final = Api(
    46, "ListPartitionReassignments", VersionSpan(0, 0, flexible=0), "list_partition_reassignments"
)
ELECT_LEADERS: Final = Api(43, "ElectLeaders", VersionSpan(0, 2, flexible=2), "elect_leaders")
DESCRIBE_QUORUM: Final = Api(55, "DescribeQuorum", VersionSpan(0, 2, flexible=0), "describe_quorum")
UPDATE_FEATURES: Final = Api(57, "UpdateFeatures", VersionSpan(0, 2, flexible=0), "update_features")
DESCRIBE_CLUSTER: Final = Api(60, "DescribeCluster", VersionSpan(0, 2, flexible=0), "describe_cluster")
LIST_CONFIG_RESOURCES: Final = Api(
    74, "ListConfigResources", VersionSpan(0, 1, flexible=0), "list_config_resources"
)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(
    75, "DescribeTopicPartitions", VersionSpan(0, 0, flexible=0), "describe_topic_partitions"
)

DESCRIBE_ACLS: Final = Api(29, "DescribeAcls", VersionSpan(0, 3, flexible=2), "describe_acls")
CREATE_ACLS: Final = Api(30, "CreateAcls", VersionSpan(0, 3, flexible=2), "create_acls")
DELETE_ACLS: Final = Api(31, "DeleteAcls", VersionSpan(0, 3, flexible=2), "delete_acls")
DESCRIBE_CLIENT_QUOTAS: Final = Api(
    48, "DescribeClientQuotas", VersionSpan(0, 1, flexible=1), "describe_client_quotas"
)
ALTER_CLIENT_QUOTAS: Final = Api(
    49, "AlterClientQuotas", VersionSpan(0, 1, flexible=1), "alter_client_quotas"
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    50, "DescribeUserScramCredentials", VersionSpan(0, 0, flexible=0), "describe_user_scram_credentials"
)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    51, "AlterUserScramCredentials", VersionSpan(0, 0, flexible=0), "alter_user_scram_credentials"
)
CREATE_DELEGATION_TOKEN: Final = Api(
    38, "CreateDelegationToken", VersionSpan(0, 3, flexible=2), "create_delegation_token"
)
RENEW_DELEGATION_TOKEN: Final = Api(
    39, "RenewDelegationToken", VersionSpan(0, 2, flexible=2), "renew_delegation_token"
)
EXPIRE_DELEGATION_TOKEN: Final = Api(
    40, "ExpireDelegationToken", VersionSpan(0, 2, flexible=2), "expire_delegation_token"
)
DESCRIBE_DELEGATION_TOKEN: Final = Api(
    41, "DescribeDelegationToken", VersionSpan(0, 3, flexible=2), "describe_delegation_token"
)
GET_TELEMETRY_SUBSCRIPTIONS: Final = Api(
    71, "GetTelemetrySubscriptions", VersionSpan(0, 0, flexible=0), "get_telemetry_subscriptions"
)
PUSH_TELEMETRY: Final = Api(72, "PushTelemetry", VersionSpan(0, 0, flexible=0), "push_telemetry")

APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        OFFSET_FOR_LEADER_EPOCH,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        WRITE_TXN_MARKERS,
        TXN_OFFSET_COMMIT,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        ALTER_REPLICA_LOG_DIRS,
        DESCRIBE_LOG_DIRS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        CREATE_PARTITIONS,
        INCREMENTAL_ALTER_CONFIGS,
        SASL_HANDSHAKE,
        SASL_AUTHENTICATE,
        DELETE_GROUPS,
        OFFSET_DELETE,
        DESCRIBE_PRODUCERS,
        DESCRIBE_TRANSACTIONS,
        LIST_TRANSACTIONS,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        ELECT_LEADERS,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        DESCRIBE_CLUSTER,
        LIST_CONFIG_RESOURCES,
        DESCRIBE_TOPIC_PARTITIONS,
        DESCRIBE_ACLS,
        CREATE_ACLS,
        DELETE_ACLS,
        DESCRIBE_CLIENT_QUOTAS,
        ALTER_CLIENT_QUOTAS,
        DESCRIBE_USER_SCRAM_CREDENTIALS,
        ALTER_USER_SCRAM_CREDENTIALS,
        CREATE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        DESCRIBE_DELEGATION_TOKEN,
        GET_TELEMETRY_SUBSCRIPTIONS,
        PUSH_TELEMETRY,
    )
}


def request_class(key: int) -> type[Any]:
    """Return the class of an API's requests.

    Raises:
        KeyError: no API here has that key.
    """
    return APIS[key].request_class


def response_class(key: int) -> type[Any]:
    """Return the class of an API's responses.

    Raises:
        KeyError: no API here has that key.
    """
    return APIS[key].response_class
