"""OffsetCommit (key 8): commit offsets of a group, as a member or without membership.

Versions 2 to 4 have a retention time, version 1 a commit timestamp; version 10 identifies topics by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages.api import OFFSET_COMMIT
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct, uuid
from tidelog.plugins.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Uuid


@struct()
class OffsetCommitRequestPartition:
    """The next offset to read in one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="6+", default=-1, ignorable=True)
    commit_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct()
class OffsetCommitRequestTopic:
    """Offsets in one topic."""

    name: str = string(versions="0-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@struct(OFFSET_COMMIT.versions)
class OffsetCommitRequest:
    """Commit offsets; an empty member id and generation -1 commit without membership."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(versions="1+", default=-1, ignorable=True)
    member_id: str = string(versions="1+", default="", ignorable=True)
    group_instance_id: str | None = string(versions="7+", nullable="7+", default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct()
class OffsetCommitResponsePartition:
    """Result for one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct()
class OffsetCommitResponseTopic:
    """Result for one topic's offsets."""

    name: str = string(versions="0-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@struct(OFFSET_COMMIT.versions)
class OffsetCommitResponse:
    """OffsetCommit response."""

    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
