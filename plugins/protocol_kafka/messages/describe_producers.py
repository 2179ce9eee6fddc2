"""DescribeProducers (key 61): the active producers and open transactions of partitions (KIP-664)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_PRODUCERS
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class DescribeProducersTopic:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(INT32)


@struct(DESCRIBE_PRODUCERS.versions)
class DescribeProducersRequest:
    """Request the producers of these partitions."""

    topics: list[DescribeProducersTopic] = array(DescribeProducersTopic)


@struct()
class ProducerState:
    """State of a producer; -1 for values that it does not have."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@struct()
class PartitionResponse:
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@struct()
class TopicResponse:
    """The producers of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@struct(DESCRIBE_PRODUCERS.versions)
class DescribeProducersResponse:
    """DescribeProducers response."""

    throttle_time_ms: int = int32(default=0)
    topics: list[TopicResponse] = array(TopicResponse)
