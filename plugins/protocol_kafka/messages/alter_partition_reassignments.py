"""AlterPartitionReassignments (key 45): give partitions other replicas (KIP-455, KIP-860)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ALTER_PARTITION_REASSIGNMENTS
from tidelog.plugins.schema.declare import array, boolean, int16, int32, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class ReassignablePartition:
    """The new replicas of a partition; None cancels a reassignment."""

    partition_index: int = int32()
    replicas: list[int] | None = array(INT32, nullable="0+", default=None)


@struct()
class ReassignableTopic:
    """A topic's partitions."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@struct(ALTER_PARTITION_REASSIGNMENTS.versions)
class AlterPartitionReassignmentsRequest:
    """Reassign partitions."""

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@struct()
class ReassignablePartitionResponse:
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct()
class ReassignableTopicResponse:
    """A topic's partitions."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@struct(ALTER_PARTITION_REASSIGNMENTS.versions)
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments response."""

    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
