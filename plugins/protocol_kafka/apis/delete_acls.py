"""DeleteAcls (API 31): delete the access control entries that match filters."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.metadata.acls import AclEntry
from tidelog.plugins.protocol_kafka.apis.create_acls import NO_AUTHORIZER
from tidelog.plugins.protocol_kafka.apis.describe_acls import acl_filter, goes_by_acls, refuse_code_0
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


async def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete what each filter matches; SECURITY_DISABLED without an authorizer that goes by entries."""
    filters = [acl_filter(each) for each in request.filters]
    refuse_code_0("DeleteAcls", filters)
    if not goes_by_acls(context):
        refused = DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[]
        )
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
    results = await context.broker.controller.delete_acls(filters)
    return DeleteAclsResponse(filter_results=[_result(context, each) for each in results])


def _result(context: RequestContext, result: Sequence[AclEntry] | BrokerError) -> DeleteAclsFilterResult:
    if isinstance(result, BrokerError):
        return DeleteAclsFilterResult(
            error_code=error_code(result), error_message=context.error_message(result), matching_acls=[]
        )
    return DeleteAclsFilterResult(
        error_code=0,
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_code=0,
                error_message=None,
                resource_type=entry.resource_type,
                resource_name=entry.resource_name,
                pattern_type=entry.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
            for entry in result
        ],
    )
