"""DescribeQuorum (key 55): leader, voters and observers of the metadata log (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_QUORUM
from tidelog.plugins.schema.declare import (
    array,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)
from tidelog.plugins.schema.types import ZERO_UUID, Uuid


@struct()
class DescribedPartition:
    """Index of a partition."""

    partition_index: int = int32()


@struct()
class DescribedTopic:
    """Partitions of a topic."""

    topic_name: str = string()
    partitions: list[DescribedPartition] = array(DescribedPartition)


@struct(DESCRIBE_QUORUM.versions)
class DescribeQuorumRequest:
    """Request the state of partitions; there is one that a quorum keeps, `__cluster_metadata`-0."""

    topics: list[DescribedTopic] = array(DescribedTopic)


@struct()
class DescribeQuorumReplica:
    """A replica and how far it is; times are in milliseconds, -1 when they are unknown."""

    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(versions="2+", default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(versions="1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64(versions="1+", default=-1, ignorable=True)


@struct()
class QuorumPartition:
    """State of a partition; `leader_id` is -1 when it is unknown."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable="2+", default=None, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[DescribeQuorumReplica] = array(DescribeQuorumReplica)
    observers: list[DescribeQuorumReplica] = array(DescribeQuorumReplica)


@struct()
class QuorumTopic:
    """Partitions of a topic."""

    topic_name: str = string()
    partitions: list[QuorumPartition] = array(QuorumPartition)


@struct()
class DescribeQuorumListener:
    """An address of a controller."""

    name: str = string(versions="2+")
    host: str = string(versions="2+")
    port: int = uint16(versions="2+")


@struct()
class QuorumNode:
    """A voter and its addresses."""

    node_id: int = int32(versions="2+")
    listeners: list[DescribeQuorumListener] = array(DescribeQuorumListener, versions="2+")


@struct(DESCRIBE_QUORUM.versions)
class DescribeQuorumResponse:
    """DescribeQuorum response."""

    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable="2+", default=None, ignorable=True)
    topics: list[QuorumTopic] = array(QuorumTopic)
    nodes: list[QuorumNode] = array(QuorumNode, versions="2+", factory=list)
