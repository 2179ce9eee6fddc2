"""JoinGroup (key 11): join a classic group; answered when its next generation begins.

Version 1 has a separate rebalance timeout, version 4 requires a member id of new members (KIP-394), version 5
has static members (KIP-345), version 7 the protocol type in the response, version 8 the reason (KIP-800),
version 9 `skip_assignment` for static leaders (KIP-814).
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import JOIN_GROUP
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    byte_string,
    int16,
    int32,
    string,
    struct,
)


@struct()
class JoinGroupRequestProtocol:
    """A protocol that the member supports, and its metadata."""

    name: str = string()
    metadata: bytes = byte_string()


@struct(JOIN_GROUP.versions)
class JoinGroupRequest:
    """Join a group; the member id is empty the first time."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(versions="8+", nullable="8+", default=None, ignorable=True)


@struct()
class JoinGroupResponseMember:
    """A member and its metadata, for the leader."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = byte_string()


@struct(JOIN_GROUP.versions)
class JoinGroupResponse:
    """JoinGroup response; only the leader gets the members."""

    throttle_time_ms: int = int32(versions="2+", default=0, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+", default=False)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
