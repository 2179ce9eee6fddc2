"""DeleteAcls (API 31): refused, since without an authorizer there are no access control entries."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.apis.create_acls import NO_AUTHORIZER
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter, as Apache Kafka without `authorizer.class.name`."""
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER, matching_acls=[]
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
