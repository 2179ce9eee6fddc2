"""Table of the built-in APIs: what each needs to be allowed to, and whatever else is special about it.

Keys, names, versions and messages are those of `messages/api.py`; the handler is the function `handle` in the
module of this folder that has the same name as that of the messages. Messages and handlers are given by name,
so that a broker starts without them. The docs, ApiVersions and the routes are made from this table.

Source of the permissions: `KafkaApis`, `AclApis`, `ControllerApis`, `ConfigHelper` and
`DescribeTopicPartitionsRequestHandler` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from tidelog.kernel.errors import CoordinatorNotAvailable
from tidelog.kernel.seams.requests import AclOperation, Permission, ResourceType
from tidelog.kernel.seams.wire import WireContext
from tidelog.plugins.protocol_kafka import messages
from tidelog.plugins.protocol_kafka.apis import KafkaApi
from tidelog.plugins.protocol_kafka.messages import api as a

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
DELEGATION_TOKEN, USER = ResourceType.DELEGATION_TOKEN, ResourceType.USER
READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
ALTER_CONFIGS, DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE

FIRST_WITH_BATCHES: Final = 3
"""The first version of Produce in which there are no message sets."""
FOR_MESSAGE_SETS: Final = ("tidelog.kernel.log.message_sets", "zlib_ng.zlib_ng")


def import_coordinator(broker: WireContext, version: int) -> None:
    """Import the services of the coordinator; without one, requests are refused by themselves."""
    with suppress(CoordinatorNotAvailable):
        broker.coordinator.import_services()


def import_for_message_sets(broker: WireContext, version: int) -> None:
    """Import what converts message sets."""
    if version < FIRST_WITH_BATCHES:
        for module in FOR_MESSAGE_SETS:
            import_module(module)


def expects_produced(request: Any) -> bool:
    """Return whether the client of a Produce request reads its response."""
    return bool(request.acks)


def _built_in(
    api: a.Api,
    *needs: tuple[ResourceType, AclOperation],
    abandonable: bool = False,
    prepare: Callable[[WireContext, int], None] | None = None,
    unsupported: str | None = None,
    has_response: Callable[[Any], bool] | None = None,
    refuse: str | None = None,
    for_client_metrics: bool = False,
) -> KafkaApi:
    handlers = f"{__package__}.{api.module}"
    declared_in = f"{messages.__name__}.{api.module}"
    return KafkaApi(
        api.key,
        api.name,
        f"{declared_in}:{api.name}Request",
        f"{declared_in}:{api.name}Response",
        f"{handlers}:handle",
        api.versions,
        tuple(Permission(*each) for each in needs),
        abandonable,
        prepare,
        unsupported and f"{handlers}:{unsupported}",
        has_response,
        refuse and f"{handlers}:{refuse}",
        for_client_metrics,
        keeps_responses=False,
    )


BUILT_IN: Final = (
    _built_in(
        a.PRODUCE,
        (TOPIC, WRITE),
        (TRANSACTIONAL_ID, WRITE),
        prepare=import_for_message_sets,
        has_response=expects_produced,
    ),
    _built_in(a.FETCH, (TOPIC, READ), (CLUSTER, CLUSTER_ACTION), abandonable=True),
    _built_in(a.LIST_OFFSETS, (TOPIC, DESCRIBE), abandonable=True),
    _built_in(a.METADATA, (TOPIC, DESCRIBE), (TOPIC, CREATE), (CLUSTER, CREATE), (CLUSTER, DESCRIBE)),
    _built_in(a.OFFSET_COMMIT, (GROUP, READ), (TOPIC, READ), prepare=import_coordinator),
    _built_in(a.OFFSET_FETCH, (GROUP, DESCRIBE), (TOPIC, DESCRIBE), prepare=import_coordinator),
    _built_in(a.FIND_COORDINATOR, (GROUP, DESCRIBE), (TRANSACTIONAL_ID, DESCRIBE)),
    _built_in(a.JOIN_GROUP, (GROUP, READ), abandonable=True, prepare=import_coordinator),
    _built_in(a.HEARTBEAT, (GROUP, READ), prepare=import_coordinator),
    _built_in(a.LEAVE_GROUP, (GROUP, READ), prepare=import_coordinator),
    _built_in(a.SYNC_GROUP, (GROUP, READ), abandonable=True, prepare=import_coordinator),
    _built_in(a.DESCRIBE_GROUPS, (GROUP, DESCRIBE), prepare=import_coordinator),
    _built_in(a.LIST_GROUPS, (CLUSTER, DESCRIBE), (GROUP, DESCRIBE), prepare=import_coordinator),
    _built_in(a.SASL_HANDSHAKE),
    _built_in(a.API_VERSIONS, unsupported="handle_unsupported_version"),
    _built_in(a.CREATE_TOPICS, (CLUSTER, CREATE), (TOPIC, CREATE), (TOPIC, DESCRIBE_CONFIGS)),
    _built_in(a.DELETE_TOPICS, (TOPIC, DELETE), (TOPIC, DESCRIBE)),
    _built_in(a.DELETE_RECORDS, (TOPIC, DELETE)),
    _built_in(a.INIT_PRODUCER_ID, (TRANSACTIONAL_ID, WRITE), (CLUSTER, IDEMPOTENT_WRITE), (TOPIC, WRITE)),
    _built_in(a.OFFSET_FOR_LEADER_EPOCH, (TOPIC, DESCRIBE), (CLUSTER, CLUSTER_ACTION)),
    _built_in(
        a.ADD_PARTITIONS_TO_TXN,
        (TRANSACTIONAL_ID, WRITE),
        (TOPIC, WRITE),
        (CLUSTER, CLUSTER_ACTION),
        prepare=import_coordinator,
    ),
    _built_in(a.ADD_OFFSETS_TO_TXN, (TRANSACTIONAL_ID, WRITE), (GROUP, READ), prepare=import_coordinator),
    _built_in(a.END_TXN, (TRANSACTIONAL_ID, WRITE), prepare=import_coordinator),
    _built_in(a.WRITE_TXN_MARKERS, (CLUSTER, ALTER), (CLUSTER, CLUSTER_ACTION), prepare=import_coordinator),
    _built_in(
        a.TXN_OFFSET_COMMIT,
        (TRANSACTIONAL_ID, WRITE),
        (GROUP, READ),
        (TOPIC, READ),
        prepare=import_coordinator,
    ),
    _built_in(a.DESCRIBE_ACLS, (CLUSTER, DESCRIBE)),
    _built_in(a.CREATE_ACLS, (CLUSTER, ALTER)),
    _built_in(a.DELETE_ACLS, (CLUSTER, ALTER)),
    _built_in(
        a.DESCRIBE_CONFIGS, (TOPIC, DESCRIBE_CONFIGS), (GROUP, DESCRIBE_CONFIGS), (CLUSTER, DESCRIBE_CONFIGS)
    ),
    _built_in(a.ALTER_CONFIGS, (TOPIC, ALTER_CONFIGS), (GROUP, ALTER_CONFIGS), (CLUSTER, ALTER_CONFIGS)),
    _built_in(a.ALTER_REPLICA_LOG_DIRS, (CLUSTER, ALTER), refuse="refuse"),
    _built_in(a.DESCRIBE_LOG_DIRS, (CLUSTER, DESCRIBE), abandonable=True),
    _built_in(a.SASL_AUTHENTICATE, abandonable=True),
    _built_in(a.CREATE_PARTITIONS, (TOPIC, ALTER)),
    _built_in(a.CREATE_DELEGATION_TOKEN, (USER, AclOperation.CREATE_TOKENS)),
    _built_in(a.RENEW_DELEGATION_TOKEN),
    _built_in(a.EXPIRE_DELEGATION_TOKEN),
    _built_in(
        a.DESCRIBE_DELEGATION_TOKEN, (DELEGATION_TOKEN, DESCRIBE), (USER, AclOperation.DESCRIBE_TOKENS)
    ),
    _built_in(a.DELETE_GROUPS, (GROUP, DELETE), prepare=import_coordinator),
    _built_in(a.ELECT_LEADERS, (CLUSTER, ALTER)),
    _built_in(
        a.INCREMENTAL_ALTER_CONFIGS, (TOPIC, ALTER_CONFIGS), (GROUP, ALTER_CONFIGS), (CLUSTER, ALTER_CONFIGS)
    ),
    _built_in(a.ALTER_PARTITION_REASSIGNMENTS, (CLUSTER, ALTER)),
    _built_in(a.LIST_PARTITION_REASSIGNMENTS, (CLUSTER, DESCRIBE)),
    _built_in(a.OFFSET_DELETE, (GROUP, DELETE), (TOPIC, READ), prepare=import_coordinator),
    _built_in(a.DESCRIBE_CLIENT_QUOTAS, (CLUSTER, DESCRIBE_CONFIGS), abandonable=True),
    _built_in(a.ALTER_CLIENT_QUOTAS, (CLUSTER, ALTER_CONFIGS)),
    _built_in(a.DESCRIBE_USER_SCRAM_CREDENTIALS, (CLUSTER, DESCRIBE), abandonable=True),
    _built_in(a.ALTER_USER_SCRAM_CREDENTIALS, (CLUSTER, ALTER), refuse="refuse"),
    _built_in(a.DESCRIBE_QUORUM, (CLUSTER, DESCRIBE)),
    _built_in(a.UPDATE_FEATURES, (CLUSTER, ALTER)),
    _built_in(a.DESCRIBE_CLUSTER, (CLUSTER, DESCRIBE)),
    _built_in(a.DESCRIBE_PRODUCERS, (TOPIC, READ), prepare=import_coordinator),
    _built_in(
        a.DESCRIBE_TRANSACTIONS, (TRANSACTIONAL_ID, DESCRIBE), (TOPIC, DESCRIBE), prepare=import_coordinator
    ),
    _built_in(
        a.LIST_TRANSACTIONS, (TRANSACTIONAL_ID, DESCRIBE), abandonable=True, prepare=import_coordinator
    ),
    _built_in(a.CONSUMER_GROUP_HEARTBEAT, (GROUP, READ), prepare=import_coordinator),
    _built_in(a.CONSUMER_GROUP_DESCRIBE, (GROUP, DESCRIBE), prepare=import_coordinator),
    _built_in(a.GET_TELEMETRY_SUBSCRIPTIONS, for_client_metrics=True),
    _built_in(a.PUSH_TELEMETRY, for_client_metrics=True),
    _built_in(a.LIST_CONFIG_RESOURCES, (CLUSTER, DESCRIBE_CONFIGS)),
    _built_in(a.DESCRIBE_TOPIC_PARTITIONS, (TOPIC, DESCRIBE)),
)
"""By key."""
