"""SyncGroup (key 14): the leader sends the group's assignment, each member gets its own."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import SYNC_GROUP
from tidelog.plugins.schema.declare import array, byte_string, int16, int32, string, struct


@struct()
class SyncGroupRequestAssignment:
    """A member's assignment."""

    member_id: str = string()
    assignment: bytes = byte_string()


@struct(SYNC_GROUP.versions)
class SyncGroupRequest:
    """Request the member's assignment; only the leader sends assignments."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@struct(SYNC_GROUP.versions)
class SyncGroupResponse:
    """SyncGroup response, with the member's assignment."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = byte_string()
