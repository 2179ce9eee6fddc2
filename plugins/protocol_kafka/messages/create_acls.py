"""CreateAcls (key 30): add access control entries (KIP-140)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import CREATE_ACLS
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct

LITERAL = 3


@struct()
class AclCreation:
    """An entry to add."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(versions="1+", default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct(CREATE_ACLS.versions)
class CreateAclsRequest:
    """Add entries."""

    creations: list[AclCreation] = array(AclCreation)


@struct()
class AclCreationResult:
    """Result for one entry."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct(CREATE_ACLS.versions)
class CreateAclsResponse:
    """CreateAcls response."""

    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult)
