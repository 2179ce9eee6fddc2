"""LeaveGroup (key 13): remove members before their sessions expire.

Up to version 2 one member leaves; from version 3 on (KIP-345) there are several, with a result for each.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import LEAVE_GROUP
from tidelog.plugins.schema.declare import array, int16, int32, string, struct


@struct()
class MemberIdentity:
    """A member that leaves; a static one may be identified by its instance id alone."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)


@struct(LEAVE_GROUP.versions)
class LeaveGroupRequest:
    """`members` leave (version 3 and later), or `member_id` (before)."""

    group_id: str = string()
    member_id: str = string(versions="0-2", default="")
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+", factory=list)


@struct()
class MemberResponse:
    """Result for one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: int = int16()


@struct(LEAVE_GROUP.versions)
class LeaveGroupResponse:
    """LeaveGroup response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+", factory=list)
