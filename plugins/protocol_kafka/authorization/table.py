"""Which guard is around the handler of which API; for those of other plugins, what they need of the cluster.

Source: `KafkaApis`, `ControllerApis`, `AclApis` and `ConfigHelper` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import TopicAuthorizationFailed
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_kafka.authorization import (
    cluster,
    configs,
    delegation_tokens,
    fetching,
    groups,
    topics,
    transactions,
)
from tidelog.plugins.protocol_kafka.authorization.guarding import EMPTY, Access, Guard, GuardedHandler, Passes
from tidelog.plugins.protocol_kafka.messages import api as a

if TYPE_CHECKING:
    from tidelog.kernel.request import Authorization
    from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi

_READ, _DESCRIBE, _DELETE, _ALTER = (
    AclOperation.READ,
    AclOperation.DESCRIBE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)


def on_cluster(*operations: AclOperation) -> Guard:
    """Return the guard of an API for which one of these operations on the cluster is needed."""

    def guard(access: Access, request: Any) -> Generator[Any, Any, Any]:
        if not any(access.allows_on_cluster(each, audited=False) for each in operations[:-1]):
            access.need_on_cluster(operations[-1])
        return (yield request)

    return guard


_GUARDS: Final[dict[int, Guard]] = {
    a.PRODUCE.key: topics.produce,
    a.FETCH.key: fetching.fetch,
    a.LIST_OFFSETS.key: topics.each_topic(_DESCRIBE, "topics"),
    a.METADATA.key: topics.metadata,
    a.OFFSET_COMMIT.key: groups.offset_commit,
    a.OFFSET_FETCH.key: groups.offset_fetch,
    a.FIND_COORDINATOR.key: groups.find_coordinator,
    a.JOIN_GROUP.key: groups.of_group(_READ),
    a.HEARTBEAT.key: groups.of_group(_READ),
    a.LEAVE_GROUP.key: groups.of_group(_READ),
    a.SYNC_GROUP.key: groups.sync_group,
    a.DESCRIBE_GROUPS.key: groups.describe_groups,
    a.LIST_GROUPS.key: groups.list_groups,
    a.CREATE_TOPICS.key: topics.create_topics,
    a.DELETE_TOPICS.key: topics.delete_topics,
    a.DELETE_RECORDS.key: topics.each_topic(_DELETE, "topics"),
    a.INIT_PRODUCER_ID.key: transactions.init_producer_id,
    a.OFFSET_FOR_LEADER_EPOCH.key: topics.offset_for_leader_epoch,
    a.ADD_PARTITIONS_TO_TXN.key: transactions.add_partitions_to_txn,
    a.ADD_OFFSETS_TO_TXN.key: transactions.add_offsets_to_txn,
    a.END_TXN.key: transactions.end_txn,
    a.WRITE_TXN_MARKERS.key: on_cluster(_ALTER, AclOperation.CLUSTER_ACTION),
    a.TXN_OFFSET_COMMIT.key: transactions.txn_offset_commit,
    a.DESCRIBE_ACLS.key: on_cluster(_DESCRIBE),
    a.CREATE_ACLS.key: on_cluster(_ALTER),
    a.DELETE_ACLS.key: on_cluster(_ALTER),
    a.DESCRIBE_CONFIGS.key: configs.each_resource(AclOperation.DESCRIBE_CONFIGS, "results"),
    a.ALTER_CONFIGS.key: configs.each_resource(AclOperation.ALTER_CONFIGS, "responses"),
    a.ALTER_REPLICA_LOG_DIRS.key: on_cluster(_ALTER),
    a.DESCRIBE_LOG_DIRS.key: on_cluster(_DESCRIBE),
    a.CREATE_PARTITIONS.key: topics.each_topic(_ALTER, "topics", "results", once=True),
    a.CREATE_DELEGATION_TOKEN.key: delegation_tokens.create,
    a.DESCRIBE_DELEGATION_TOKEN.key: delegation_tokens.describe,
    a.DELETE_GROUPS.key: groups.delete_groups,
    a.ELECT_LEADERS.key: cluster.elect_leaders,
    a.INCREMENTAL_ALTER_CONFIGS.key: configs.each_resource(AclOperation.ALTER_CONFIGS, "responses"),
    a.ALTER_PARTITION_REASSIGNMENTS.key: on_cluster(_ALTER),
    a.LIST_PARTITION_REASSIGNMENTS.key: on_cluster(_DESCRIBE),
    a.OFFSET_DELETE.key: groups.offset_delete,
    a.DESCRIBE_CLIENT_QUOTAS.key: on_cluster(AclOperation.DESCRIBE_CONFIGS),
    a.ALTER_CLIENT_QUOTAS.key: on_cluster(AclOperation.ALTER_CONFIGS),
    a.DESCRIBE_USER_SCRAM_CREDENTIALS.key: cluster.describe_user_scram_credentials,
    a.ALTER_USER_SCRAM_CREDENTIALS.key: on_cluster(_ALTER),
    a.DESCRIBE_QUORUM.key: on_cluster(_DESCRIBE),
    a.UPDATE_FEATURES.key: on_cluster(_ALTER),
    a.DESCRIBE_CLUSTER.key: cluster.describe_cluster,
    a.DESCRIBE_PRODUCERS.key: topics.each_topic(
        _READ, "topics", text=str(TopicAuthorizationFailed("Topic authorization failed."))
    ),
    a.DESCRIBE_TRANSACTIONS.key: transactions.describe_transactions,
    a.LIST_TRANSACTIONS.key: transactions.list_transactions,
    a.CONSUMER_GROUP_HEARTBEAT.key: groups.consumer_group_heartbeat,
    a.CONSUMER_GROUP_DESCRIBE.key: groups.consumer_group_describe,
    a.LIST_CONFIG_RESOURCES.key: on_cluster(AclOperation.DESCRIBE_CONFIGS),
    a.DESCRIBE_TOPIC_PARTITIONS.key: topics.describe_topic_partitions,
}
UNGUARDED: Final = frozenset(
    {
        a.SASL_HANDSHAKE.key,
        a.API_VERSIONS.key,
        a.SASL_AUTHENTICATE.key,
        # The owner and renewers of a token may change it; no entry permits it to others.
        a.RENEW_DELEGATION_TOKEN.key,
        a.EXPIRE_DELEGATION_TOKEN.key,
        a.GET_TELEMETRY_SUBSCRIPTIONS.key,
        a.PUSH_TELEMETRY.key,
    }
)
"""The APIs that everyone may use, as in Apache Kafka."""
_PASSES: Final[dict[int, Passes]] = {a.PRODUCE.key: topics.may_produce, a.FETCH.key: fetching.may_fetch}


_VALUES: Final[Mapping[int, Mapping[str, object]]] = {
    a.PRODUCE.key: {"base_offset": -1},
    a.LIST_OFFSETS.key: {"timestamp": -1, "offset": -1},
    a.OFFSET_FETCH.key: {"committed_offset": -1, "metadata": ""},
    a.JOIN_GROUP.key: {"protocol_type": None},
    a.SYNC_GROUP.key: {"protocol_type": None, "protocol_name": None},
    a.CREATE_TOPICS.key: {"num_partitions": -1, "replication_factor": -1, "configs": []},
    a.DELETE_RECORDS.key: {"low_watermark": -1},
    a.OFFSET_FOR_LEADER_EPOCH.key: {"leader_epoch": -1, "end_offset": -1},
    a.END_TXN.key: {"producer_id": -1, "producer_epoch": -1},
    a.DESCRIBE_CLIENT_QUOTAS.key: {"entries": None},
    a.CONSUMER_GROUP_HEARTBEAT.key: {"member_id": None, "member_epoch": 0},
}
"""Values that fields of refusals have beside the error code, where they are not 0, empty or the request's."""


def guarded(authorization: Authorization, api: KafkaApi, handle: Handler) -> Handler:
    """Return a handler that serves what its client is allowed."""
    guard = _GUARDS.get(api.key)
    if guard is None:
        operations = [need.operation for need in api.needs if need.resource == ResourceType.CLUSTER]
        if not operations:
            return handle
        guard = on_cluster(*operations)
    return GuardedHandler(
        authorization, api, guard, _PASSES.get(api.key), _VALUES.get(api.key, EMPTY), handle
    )
