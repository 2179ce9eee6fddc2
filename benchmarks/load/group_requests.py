"""Requests of consumers in groups, as frames that can be replayed."""

from __future__ import annotations

import time
from datetime import timedelta

from kio.schema.consumer_group_heartbeat.v0.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v2.response import FindCoordinatorResponse
from kio.schema.heartbeat.v2.request import HeartbeatRequest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_commit.v5.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.offset_fetch.v5.response import OffsetFetchResponse
from kio.schema.sync_group.v2.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from .raw_connection import RawConnection, encode_frame

_SESSION_TIMEOUT = i32Timedelta.parse(timedelta(minutes=2))
_READY_WITHIN_S = 60.0
_PAUSE_S = 0.002
_NOT_YET = {
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
_ASSIGNMENT = bytes(64)
_SUBSCRIPTION = bytes(64)


def await_coordinator(connection: RawConnection, group: str, topic: str) -> None:
    """Return when the broker tells offsets of the group. Raises TimeoutError when it does not get ready."""
    finds = FindCoordinatorRequest(key=group, key_type=i8(0))
    asks = OffsetFetchRequest(
        group_id=GroupId(group),
        topics=(OffsetFetchRequestTopic(name=TopicName(topic), partition_indexes=(i32(0),)),),
    )
    deadline = time.monotonic() + _READY_WITHIN_S
    while (
        connection.call(finds, FindCoordinatorResponse).error_code in _NOT_YET
        or connection.call(asks, OffsetFetchResponse).error_code in _NOT_YET
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the coordinator of {group} is not ready after {_READY_WITHIN_S:g} s")
        time.sleep(_PAUSE_S)


def commit_frame(group: str, topic: str, partitions: int) -> bytearray:
    """A commit for the first `partitions` of a topic, by a consumer that is in no group."""
    offsets = tuple(
        OffsetCommitRequestPartition(
            partition_index=i32(index), committed_offset=i64(1_000_000), committed_metadata=""
        )
        for index in range(partitions)
    )
    topics = (OffsetCommitRequestTopic(name=TopicName(topic), partitions=offsets),)
    return encode_frame(
        OffsetCommitRequest(
            group_id=GroupId(group), generation_id_or_member_epoch=i32(-1), member_id="", topics=topics
        )
    )


def join_frame(group: str) -> bytearray:
    """A new member joins."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)
    return encode_frame(
        JoinGroupRequest(
            group_id=GroupId(group),
            session_timeout=_SESSION_TIMEOUT,
            rebalance_timeout=_SESSION_TIMEOUT,
            member_id="",
            protocol_type="consumer",
            protocols=(protocol,),
        )
    )


def sync_frame(group: str, member: str, generation: int, led: tuple[str, ...]) -> bytearray:
    """A member asks for its share; `led` are the members that it leads."""
    assignments = tuple(SyncGroupRequestAssignment(member_id=each, assignment=_ASSIGNMENT) for each in led)
    return encode_frame(
        SyncGroupRequest(
            group_id=GroupId(group),
            generation_id=i32(generation),
            member_id=member,
            assignments=assignments,
        )
    )


def heartbeat_frame(group: str, member: str, generation: int) -> bytearray:
    """A member is alive."""
    return encode_frame(
        HeartbeatRequest(group_id=GroupId(group), generation_id=i32(generation), member_id=member)
    )


def consumer_join_request(group: str, member: str, topic: str) -> ConsumerGroupHeartbeatRequest:
    """A new member of the consumer protocol joins (KIP-848)."""
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(group),
        member_id=member,
        member_epoch=i32(0),
        rebalance_timeout=_SESSION_TIMEOUT,
        subscribed_topic_names=(TopicName(topic),),
        topic_partitions=(),
    )


def consumer_heartbeat_request(
    group: str, member: str, epoch: int, owned: tuple[TopicPartitions, ...] | None = None
) -> ConsumerGroupHeartbeatRequest:
    """A member of the consumer protocol is alive; `owned` are its partitions, None if they are as before."""
    return ConsumerGroupHeartbeatRequest(
        group_id=GroupId(group), member_id=member, member_epoch=i32(epoch), topic_partitions=owned
    )
