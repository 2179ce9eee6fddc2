"""Fields that several APIs have.

They are topics by name or id, leaders and replicas, the isolation level and authorized operations (KIP-430).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.requests import AclOperation
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.schema import Uuid

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic, Topics


P = TypeVar("P")

NO_LEADER: Final = -1

# Calling the enumeration would take two Python functions for each request.
_LEVELS = {int(isolation): isolation for isolation in Isolation}


def find_topic(topics: Topics, name: str | None, topic_id: Uuid, *, by_id: bool) -> Topic:
    """Return the topic that a request names.

    Raises:
        UnknownTopicOrPartition: no topic has that name.
        UnknownTopicId: no topic has that id.
    """
    return topics.get_by_id(topic_id) if by_id else topics.get(name or "")


def is_offline(topic: Topic, index: int) -> bool:
    """Return whether no replica of a partition is available, since its log directory failed."""
    return isinstance(topic.partitions[index].log.offline, StorageError)


def describe_partition(
    make: Callable[..., P], context: RequestContext, topic: Topic, index: int, **others: object
) -> P:
    """Return `make` of the fields in which Metadata and DescribeTopicPartitions describe a partition."""
    partition, offline = topic.partitions[index], is_offline(topic, index)
    cluster = context.broker.cluster
    node_id, leader_id = cluster.node_id, partition.leader_id
    if leader_id == node_id:
        is_led = not offline
    else:
        # As in Kafka, a leader that is no broker of the cluster is none: clients could not reach it.
        is_led = cluster.find(leader_id, context.peer.listener_name) is not None
    return make(
        error_code=0 if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader_id if is_led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[*partition.isr],
        offline_replicas=[node_id] if offline else [],
        **others,
    )


def isolation_of(level: int) -> Isolation:
    """Return the isolation level of a request.

    Raises:
        ProtocolViolation: there is no such level.
    """
    try:
        return _LEVELS[level]
    except KeyError:
        raise ProtocolViolation(f"isolation level {level} is neither 0 nor 1") from None


NOT_ASKED = -(2**31)
"""Value for a client that did not request authorized operations."""


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    *_CONFIGS,
)
CLUSTER_OPERATIONS = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_CONFIGS,
)
GROUP_OPERATIONS = _bits(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIGS)
