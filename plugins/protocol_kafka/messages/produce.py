"""Produce (key 0): append record batches to partitions.

Topics go by name up to version 12, by id from 13 on (KIP-516). Versions below 3 carry message sets v0 and v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.schema.declare import (
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    struct,
    uuid,
)
from tidelog.plugins.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class PartitionProduceData:
    """The batches for one partition."""

    index: int = int32()
    records: memoryview | None = records(nullable="0+")


@struct()
class TopicProduceData:
    """The batches for one topic."""

    name: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@struct(PRODUCE.versions)
class ProduceRequest:
    """Append batches; `acks` is 0 (no response), 1 (leader only) or -1 (all in-sync replicas)."""

    transactional_id: str | None = string(versions="3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct()
class BatchIndexAndErrorMessage:
    """The error of one record of a batch (KIP-467)."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="8+", default=None)


@struct(frozen=True)
class ProduceLeaderIdAndEpoch:
    """The current leader (KIP-951); -1 when it is unknown."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct()
class PartitionProduceResponse:
    """Result for one partition's batches; `log_append_time_ms` is -1 for CreateTime."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(versions="2+", default=-1, ignorable=True)
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, versions="8+", factory=list, ignorable=True
    )
    error_message: str | None = string(versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceLeaderIdAndEpoch = nested(
        ProduceLeaderIdAndEpoch, versions="10+", tag=0, default=ProduceLeaderIdAndEpoch()
    )


@struct()
class TopicProduceResponse:
    """Result for one topic's batches."""

    name: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct()
class ProduceNodeEndpoint:
    """Address of a broker that `current_leader` names."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="10+", default=None)


@struct(PRODUCE.versions)
class ProduceResponse:
    """Produce response, unless `acks` was 0."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    node_endpoints: list[ProduceNodeEndpoint] = array(
        ProduceNodeEndpoint, versions="10+", tag=0, factory=list
    )
