"""DescribeAcls (API 29): the access control entries that match a filter, by resource."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from tidelog.kernel.metadata.acls import AclEntry, AclFilter
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.delete_acls import DeleteAclsFilter
from tidelog.plugins.protocol_kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


@in_steps
def handle(
    context: RequestContext, request: DescribeAclsRequest
) -> Generator[None, None, DescribeAclsResponse]:
    """List the entries, in steps; SECURITY_DISABLED without an authorizer that goes by them.

    As with Apache Kafka a filter with a code that stands for nothing matches none.
    """
    wanted = acl_filter(request)
    refuse_code_0("DescribeAcls", [wanted])
    if not goes_by_acls(context):
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    found: dict[tuple[int, str, int], list[AclEntry]] = {}
    for number, entry in enumerate(context.broker.image.acls.values()):
        if wanted.matches(entry):
            found.setdefault(entry[:3], []).append(entry)
        if number % ITEMS_PER_STEP == 0:
            yield
    resources: list[DescribeAclsResource] = []
    for entries in found.values():
        resources.append(_described(entries))
        yield
    return DescribeAclsResponse(error_code=0, error_message="", resources=resources)


def goes_by_acls(context: RequestContext) -> bool:
    """Return whether access control entries have an effect."""
    authorization = context.broker.authorization
    return authorization is not None and authorization.authorizer.has_acls


def refuse_code_0(api: str, items: Iterable[AclFilter] | Iterable[AclEntry]) -> None:
    """Refuse entries and filters with the code of UNKNOWN, as Apache Kafka does while it reads the request.

    Raises:
        ProtocolViolation: there is one; the connection is closed.
    """
    for each in items:
        if 0 in (each.resource_type, each.pattern_type, each.operation, each.permission_type):
            raise ProtocolViolation(f"the {api} request has the code 0, which stands for nothing: {each}")


def acl_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _described(entries: list[AclEntry]) -> DescribeAclsResource:
    first = entries[0]
    return DescribeAclsResource(
        resource_type=first.resource_type,
        resource_name=first.resource_name,
        pattern_type=first.pattern_type,
        acls=[
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
            for entry in entries
        ],
    )
