"""DeleteGroups (key 42): delete groups without members, with their offsets."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DELETE_GROUPS
from tidelog.plugins.schema.declare import array, int16, int32, string, struct
from tidelog.plugins.schema.types import STRING


@struct(DELETE_GROUPS.versions)
class DeleteGroupsRequest:
    """Delete these groups."""

    groups_names: list[str] = array(STRING)


@struct()
class DeletableGroupResult:
    """Result for one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)


@struct(DELETE_GROUPS.versions)
class DeleteGroupsResponse:
    """DeleteGroups response."""

    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
