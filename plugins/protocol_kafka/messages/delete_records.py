"""DeleteRecords (key 21): raise the log start offset of partitions."""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import DELETE_RECORDS
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct

HIGH_WATERMARK: Final = -1
"""In place of an offset: the high watermark."""


@struct()
class DeleteRecordsPartition:
    """A partition and its new log start offset."""

    partition_index: int = int32()
    offset: int = int64()


@struct()
class DeleteRecordsTopic:
    """A topic's partitions."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@struct(DELETE_RECORDS.versions)
class DeleteRecordsRequest:
    """Delete records below offsets."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct()
class DeleteRecordsPartitionResult:
    """The partition's log start offset, -1 if the request was refused."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct()
class DeleteRecordsTopicResult:
    """A topic's partitions."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@struct(DELETE_RECORDS.versions)
class DeleteRecordsResponse:
    """DeleteRecords response."""

    throttle_time_ms: int = int32(default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
