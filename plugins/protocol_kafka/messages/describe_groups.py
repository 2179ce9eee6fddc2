"""DescribeGroups (key 15): state, protocol and members of classic groups.

Version 6 (KIP-1043) reports an unknown group by an error instead of the state Dead.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_GROUPS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    byte_string,
    int16,
    int32,
    string,
    struct,
)
from tidelog.plugins.schema.types import STRING

OPERATIONS_NOT_ASKED_FOR = -(2**31)


@struct(DESCRIBE_GROUPS.versions)
class DescribeGroupsRequest:
    """Request descriptions of groups."""

    groups: list[str] = array(STRING)
    include_authorized_operations: bool = boolean(versions="3+", default=False)


@struct()
class DescribedGroupMember:
    """A member; metadata and assignment are opaque to the broker."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = byte_string()
    member_assignment: bytes = byte_string()


@struct()
class DescribeGroupsGroup:
    """A group."""

    error_code: int = int16()
    error_message: str | None = string(versions="6+", nullable="6+", default=None, ignorable=True)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(versions="3+", default=OPERATIONS_NOT_ASKED_FOR)


@struct(DESCRIBE_GROUPS.versions)
class DescribeGroupsResponse:
    """DescribeGroups response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    groups: list[DescribeGroupsGroup] = array(DescribeGroupsGroup)
