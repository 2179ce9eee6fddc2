"""CreatePartitions (key 37): add partitions to topics."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import CREATE_PARTITIONS
from tidelog.plugins.schema.declare import array, boolean, int16, int32, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class CreatePartitionsAssignment:
    """The replicas of a new partition."""

    broker_ids: list[int] = array(INT32)


@struct()
class CreatePartitionsTopic:
    """A topic and its new number of partitions; without assignments the cluster chooses the replicas."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@struct(CREATE_PARTITIONS.versions)
class CreatePartitionsRequest:
    """Add partitions; with `validate_only`, nothing is changed."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct()
class CreatePartitionsTopicResult:
    """Result for one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct(CREATE_PARTITIONS.versions)
class CreatePartitionsResponse:
    """CreatePartitions response."""

    throttle_time_ms: int = int32(default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
