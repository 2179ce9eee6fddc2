"""ListOffsets (key 2): offsets by timestamp.

Version 0 requests up to `max_num_offsets` base offsets of segments, later versions one offset. Special
timestamps are below; the comment has the first version of each.
"""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import LIST_OFFSETS
from tidelog.plugins.schema.declare import array, int8, int16, int32, int64, string, struct
from tidelog.plugins.schema.types import INT64

LATEST_TIMESTAMP: Final = -1  # 0
EARLIEST_TIMESTAMP: Final = -2  # 0
MAX_TIMESTAMP: Final = -3  # 7 (KIP-734)
EARLIEST_LOCAL_TIMESTAMP: Final = -4  # 8 (KIP-405)
LATEST_TIERED_TIMESTAMP: Final = -5  # 9 (KIP-1005)
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6  # 11 (KIP-1023)


@struct()
class ListOffsetsPartition:
    """Request for one partition: a timestamp in milliseconds or a special one."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(versions="4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32(versions="0", default=1)


@struct()
class ListOffsetsTopic:
    """Request for one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@struct(LIST_OFFSETS.versions)
class ListOffsetsRequest:
    """Look up offsets; `replica_id` is -1 for consumers, `isolation_level` 1 is read_committed."""

    replica_id: int = int32()
    isolation_level: int = int8(versions="2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+", default=0, ignorable=True)


@struct()
class ListOffsetsPartitionResponse:
    """Response for one partition: `old_style_offsets` in version 0, later timestamp and offset (-1: none)."""

    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(INT64, versions="0", factory=list)
    timestamp: int = int64(versions="1+", default=-1)
    offset: int = int64(versions="1+", default=-1)
    leader_epoch: int = int32(versions="4+", default=-1)


@struct()
class ListOffsetsTopicResponse:
    """Response for one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@struct(LIST_OFFSETS.versions)
class ListOffsetsResponse:
    """ListOffsets response."""

    throttle_time_ms: int = int32(versions="2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
