"""DescribeAcls (key 29): access control entries that match a filter (KIP-140)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_ACLS
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct

LITERAL = 3


@struct(DESCRIBE_ACLS.versions)
class DescribeAclsRequest:
    """Request the entries that match; null matches any."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(versions="1+", default=LITERAL)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@struct()
class AclDescription:
    """An entry."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct()
class DescribeAclsResource:
    """A resource pattern with its entries."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(versions="1+", default=LITERAL)
    acls: list[AclDescription] = array(AclDescription)


@struct(DESCRIBE_ACLS.versions)
class DescribeAclsResponse:
    """DescribeAcls response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
