"""DeleteAcls (key 31): delete the access control entries that match filters (KIP-140)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DELETE_ACLS
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct

LITERAL = 3


@struct()
class DeleteAclsFilter:
    """Entries to delete; null matches any."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(versions="1+", default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@struct(DELETE_ACLS.versions)
class DeleteAclsRequest:
    """Delete entries."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@struct()
class DeleteAclsMatchingAcl:
    """An entry that a filter matched."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(versions="1+", default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct()
class DeleteAclsFilterResult:
    """Result for one filter."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@struct(DELETE_ACLS.versions)
class DeleteAclsResponse:
    """DeleteAcls response."""

    throttle_time_ms: int = int32(default=0)
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
