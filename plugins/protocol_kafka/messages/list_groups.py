"""ListGroups (key 16): the broker's groups; version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import LIST_GROUPS
from tidelog.plugins.schema.declare import array, int16, int32, string, struct
from tidelog.plugins.schema.types import STRING


@struct(LIST_GROUPS.versions)
class ListGroupsRequest:
    """Request groups in one of these states and of one of these types; no names mean any."""

    states_filter: list[str] = array(STRING, versions="4+", factory=list)
    types_filter: list[str] = array(STRING, versions="5+", factory=list)


@struct()
class ListGroupsGroup:
    """A group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+", default="", ignorable=True)
    group_type: str = string(versions="5+", default="", ignorable=True)


@struct(LIST_GROUPS.versions)
class ListGroupsResponse:
    """ListGroups response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16()
    groups: list[ListGroupsGroup] = array(ListGroupsGroup)
