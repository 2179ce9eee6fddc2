"""OffsetForLeaderEpoch (key 23): the end offsets of leader epochs (KIP-279, KIP-320).

Consumers and followers detect truncation of the leader's log by them.
"""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import OFFSET_FOR_LEADER_EPOCH
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct

DEBUGGING_CONSUMER: Final = -2


@struct()
class OffsetForLeaderPartition:
    """The requested epoch, and the leader epoch that the sender knows as current."""

    partition: int = int32()
    current_leader_epoch: int = int32(versions="2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


@struct()
class OffsetForLeaderTopic:
    """Request for one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@struct(OFFSET_FOR_LEADER_EPOCH.versions)
class OffsetForLeaderEpochRequest:
    """Request the ends of epochs; `replica_id` is -1 for consumers and that of the broker for followers."""

    replica_id: int = int32(versions="3+", default=DEBUGGING_CONSUMER, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct()
class EpochEndOffset:
    """The newest epoch that is at most the requested one, and its end offset; -1 if unknown."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(versions="1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@struct()
class OffsetForLeaderTopicResult:
    """Response for one topic."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@struct(OFFSET_FOR_LEADER_EPOCH.versions)
class OffsetForLeaderEpochResponse:
    """OffsetForLeaderEpoch response."""

    throttle_time_ms: int = int32(versions="2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
