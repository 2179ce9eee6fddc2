"""OffsetDelete (key 47): delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import OFFSET_DELETE
from tidelog.plugins.schema.declare import array, int16, int32, string, struct


@struct()
class OffsetDeleteRequestPartition:
    """A partition whose offset is to be deleted."""

    partition_index: int = int32()


@struct()
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@struct(OFFSET_DELETE.versions)
class OffsetDeleteRequest:
    """Delete committed offsets."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct()
class OffsetDeleteResponsePartition:
    """Result for one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct()
class OffsetDeleteResponseTopic:
    """Result for one topic's offsets."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@struct(OFFSET_DELETE.versions)
class OffsetDeleteResponse:
    """OffsetDelete response; an error of the whole request leaves `topics` empty."""

    error_code: int = int16()
    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, factory=list)
