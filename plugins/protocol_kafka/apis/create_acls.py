"""CreateAcls (API 30): refused, since no authorizer would use the access control entries."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

NO_AUTHORIZER = "No Authorizer is configured."


def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each entry, as Apache Kafka without `authorizer.class.name`."""
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
