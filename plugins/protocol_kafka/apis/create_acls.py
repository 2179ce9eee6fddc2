"""CreateAcls (API 30): add access control entries."""

from __future__ import annotations

from tidelog.kernel.metadata.acls import ANY, MATCH, AclEntry
from tidelog.plugins.protocol_kafka.apis.describe_acls import goes_by_acls, refuse_code_0
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

NO_AUTHORIZER = "No Authorizer is configured."


async def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add the entries that can be; SECURITY_DISABLED without an authorizer that goes by them.

    As with Apache Kafka none is added if one has a code that only filters may have.
    """
    entries = [
        AclEntry(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    refuse_code_0("CreateAcls", entries)
    if not goes_by_acls(context):
        refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        return CreateAclsResponse(results=[refused] * len(entries))
    if any(map(_is_of_a_filter, entries)):
        refused = AclCreationResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None)
        return CreateAclsResponse(results=[refused] * len(entries))
    results = await context.broker.controller.create_acls(entries)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=0, error_message="")
            if error is None
            else AclCreationResult(error_code=error_code(error), error_message=context.error_message(error))
            for error in results
        ]
    )


def _is_of_a_filter(entry: AclEntry) -> bool:
    return entry.pattern_type == MATCH or ANY in (
        entry.resource_type,
        entry.pattern_type,
        entry.operation,
        entry.permission_type,
    )
