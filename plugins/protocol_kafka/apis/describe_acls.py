"""DescribeAcls (API 29): without an authorizer there are no access control entries to describe."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Answer as Apache Kafka without `authorizer.class.name`."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
