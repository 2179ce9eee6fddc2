"""DescribeTopicPartitions (key 75): topics page by page, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_TOPIC_PARTITIONS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int16,
    int32,
    nested,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import INT32, ZERO_UUID, Uuid


@struct()
class DescribeTopicPartitionsTopic:
    """Name of a topic."""

    name: str = string()


@struct()
class Cursor:
    """The first partition of the next page."""

    topic_name: str = string()
    partition_index: int = int32()


@struct(DESCRIBE_TOPIC_PARTITIONS.versions)
class DescribeTopicPartitionsRequest:
    """Request topics by name, all of them with an empty list, from `cursor` on."""

    topics: list[DescribeTopicPartitionsTopic] = array(DescribeTopicPartitionsTopic)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)


@struct()
class DescribeTopicPartitionsResponsePartition:
    """A partition; the eligible leader replicas are null when the cluster has no such feature."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    eligible_leader_replicas: list[int] | None = array(INT32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(INT32, nullable="0+", default=None)
    offline_replicas: list[int] = array(INT32, ignorable=True)


@struct()
class DescribeTopicPartitionsResponseTopic:
    """A topic and those of its partitions that are on this page."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: Uuid = uuid(default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-(2**31))


@struct(DESCRIBE_TOPIC_PARTITIONS.versions)
class DescribeTopicPartitionsResponse:
    """A page; `next_cursor` is null on the last one."""

    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)
