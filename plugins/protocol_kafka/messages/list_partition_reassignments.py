"""ListPartitionReassignments (key 46): the reassignments in progress (KIP-455)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import LIST_PARTITION_REASSIGNMENTS
from tidelog.plugins.schema.declare import array, int16, int32, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class ListPartitionReassignmentsTopics:
    """Partitions of a topic that are requested."""

    name: str = string()
    partition_indexes: list[int] = array(INT32)


@struct(LIST_PARTITION_REASSIGNMENTS.versions)
class ListPartitionReassignmentsRequest:
    """Request some partitions, or with None for all that are on their way."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


@struct()
class OngoingPartitionReassignment:
    """A partition's replicas, those being added and those being removed."""

    partition_index: int = int32()
    replicas: list[int] = array(INT32)
    adding_replicas: list[int] = array(INT32)
    removing_replicas: list[int] = array(INT32)


@struct()
class OngoingTopicReassignment:
    """A topic's partitions."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@struct(LIST_PARTITION_REASSIGNMENTS.versions)
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
