"""Access control entries: DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import Outcomes, retrying, send_request
from tidelog.plugins.protocol_kafka.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.client.steps import Session, Steps

AclResource = Literal["topic", "group", "cluster", "transactional-id", "delegation-token", "user"]
AclPattern = Literal["literal", "prefixed"]
AclOperationName = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
]
AclPermission = Literal["deny", "allow"]

RESOURCES: Final[tuple[str, ...]] = get_args(AclResource)
PATTERNS: Final[tuple[str, ...]] = get_args(AclPattern)
OPERATIONS: Final[tuple[str, ...]] = get_args(AclOperationName)
PERMISSIONS: Final[tuple[str, ...]] = get_args(AclPermission)
CLUSTER_NAME: Final = "kafka-cluster"
_ANY: Final = 1
_MATCH: Final = 2
_FIRST_CODES: Final = {RESOURCES: 2, PATTERNS: 3, OPERATIONS: 2, PERMISSIONS: 2}
_UNKNOWN: Final = "unknown"


@attrs.frozen
class AclBinding:
    """What a principal is allowed, or denied: an operation on the resources of a name, a prefix, or `*`.

    `principal` is `Type:name`, `User:*` for any user; `host` is an address, or `*`.
    """

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str = "literal"
    host: str = "*"
    permission: str = "allow"

    def __str__(self) -> str:
        names = f"{self.name}*" if self.pattern == "prefixed" else self.name
        return f"{self.permission} {self.principal} {self.operation} {self.resource} {names} from {self.host}"


@attrs.frozen
class AclBindingFilter:
    """Which entries are meant; None means any. Pattern `match`: those about a resource of that name."""

    principal: str | None = None
    operation: str | None = None
    resource: str | None = None
    name: str | None = None
    pattern: str | None = None
    host: str | None = None
    permission: str | None = None

    @classmethod
    def of(cls, acl: AclBinding) -> AclBindingFilter:
        """Return the filter that means this entry alone."""
        return cls(**attrs.asdict(acl))


def _code(names: tuple[str, ...], name: str | None) -> int:
    """Return the code of a name.

    Raises:
        ValueError: there is no such name.
    """
    if name is None:
        return _ANY
    if name == "match" and names is PATTERNS:
        return _MATCH
    if name not in names:
        raise ValueError(f"{name!r} is none of {', '.join(names)}")
    return names.index(name) + _FIRST_CODES[names]


def _name(names: tuple[str, ...], code: int) -> str:
    index = code - _FIRST_CODES[names]
    return names[index] if 0 <= index < len(names) else _UNKNOWN


def describe_acls(session: Session, matching: AclBindingFilter | None = None) -> Steps[list[AclBinding]]:
    """Return the entries that match, all without a filter.

    Raises:
        ValueError: the filter has a name that stands for nothing.
        UnsupportedByBroker: the broker does not serve DescribeAcls (Kafka before 0.11).
        ErrorResponse: the broker refuses, or has no authorizer that goes by entries (SECURITY_DISABLED).
        ClientError: no broker answered.
    """
    wanted = matching or AclBindingFilter()
    request = DescribeAclsRequest(
        resource_type_filter=_code(RESOURCES, wanted.resource),
        resource_name_filter=wanted.name,
        pattern_type_filter=_code(PATTERNS, wanted.pattern),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=_code(OPERATIONS, wanted.operation),
        permission_type=_code(PERMISSIONS, wanted.permission),
    )

    def attempt() -> Steps[list[AclBinding]]:
        answer: DescribeAclsResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(
                ErrorCode.of(answer.error_code), "access control entries", answer.error_message
            )
        return [
            AclBinding(
                each.principal,
                _name(OPERATIONS, each.operation),
                _name(RESOURCES, resource.resource_type),
                resource.resource_name,
                _name(PATTERNS, resource.pattern_type),
                each.host,
                _name(PERMISSIONS, each.permission_type),
            )
            for resource in answer.resources
            for each in resource.acls
        ]

    return (yield from retrying(session, attempt))


def create_acls(session: Session, acls: Sequence[AclBinding]) -> Steps[Outcomes[AclBinding, None]]:
    """Add entries; return the outcome of each, None for success. One that is there already is a success.

    The request is idempotent, so that it is always retried.

    Raises:
        ValueError: an entry has a name that stands for nothing.
        UnsupportedByBroker: the broker does not serve CreateAcls (Kafka before 0.11).
        ClientError: the outcome of every entry is unknown.
    """
    wanted = list(dict.fromkeys(acls))
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=_code(RESOURCES, each.resource),
                resource_name=each.name,
                resource_pattern_type=_code(PATTERNS, each.pattern),
                principal=each.principal,
                host=each.host,
                operation=_code(OPERATIONS, each.operation),
                permission_type=_code(PERMISSIONS, each.permission),
            )
            for each in wanted
        ]
    )
    answer: CreateAclsResponse = yield from retrying(session, lambda: send_request(session, request))
    outcomes: Outcomes[AclBinding, None] = {
        acl: ErrorResponse(ErrorCode.of(result.error_code), str(acl), result.error_message)
        if result.error_code
        else None
        for acl, result in zip(wanted, answer.results, strict=False)
    }
    return {acl: outcomes.get(acl, ErrorResponse.missing(str(acl))) for acl in wanted}


def delete_acls(
    session: Session, filters: Sequence[AclBindingFilter]
) -> Steps[Outcomes[AclBindingFilter, list[AclBinding]]]:
    """Delete the entries that match; return those of each filter, or its error.

    The request is retried: a filter whose entries are gone already has none.

    Raises:
        ValueError: a filter has a name that stands for nothing.
        UnsupportedByBroker: the broker does not serve DeleteAcls (Kafka before 0.11).
        ClientError: the outcome of every filter is unknown.
    """
    wanted = list(dict.fromkeys(filters))
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=_code(RESOURCES, each.resource),
                resource_name_filter=each.name,
                pattern_type_filter=_code(PATTERNS, each.pattern),
                principal_filter=each.principal,
                host_filter=each.host,
                operation=_code(OPERATIONS, each.operation),
                permission_type=_code(PERMISSIONS, each.permission),
            )
            for each in wanted
        ]
    )
    answer: DeleteAclsResponse = yield from retrying(session, lambda: send_request(session, request))
    outcomes: Outcomes[AclBindingFilter, list[AclBinding]] = {}
    for each, result in zip(wanted, answer.filter_results, strict=False):
        if result.error_code:
            outcomes[each] = ErrorResponse(
                ErrorCode.of(result.error_code), "access control entries", result.error_message
            )
        else:
            outcomes[each] = [
                AclBinding(
                    found.principal,
                    _name(OPERATIONS, found.operation),
                    _name(RESOURCES, found.resource_type),
                    found.resource_name,
                    _name(PATTERNS, found.pattern_type),
                    found.host,
                    _name(PERMISSIONS, found.permission_type),
                )
                for found in result.matching_acls
            ]
    return {each: outcomes.get(each, ErrorResponse.missing("access control entries")) for each in wanted}
