"""The guards of the APIs of delegation tokens, as `KafkaApis` of Apache Kafka 4.4 has them."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.plugins.protocol_kafka.authorization.guarding import Access
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.create_delegation_token import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )
    from tidelog.plugins.protocol_kafka.messages.describe_delegation_token import (
        DescribedDelegationToken,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )


def create(
    access: Access, request: CreateDelegationTokenRequest
) -> Generator[Any, CreateDelegationTokenResponse, CreateDelegationTokenResponse]:
    """Need CREATE_TOKENS on another owner; the client's own are for everyone."""
    from tidelog.plugins.protocol_kafka.apis.create_delegation_token import not_created, owner_of
    from tidelog.plugins.protocol_kafka.apis.delegation_tokens import is_allowed

    context = access.context
    owner = owner_of(context, request)
    # Who may request no tokens at all is refused by the handler.
    if (
        not is_allowed(context)
        or owner == context.principal
        or access.allows(ResourceType.USER, AclOperation.CREATE_TOKENS, str(owner))
    ):
        return (yield request)
    return not_created(context, request, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def describe(
    access: Access, request: DescribeDelegationTokenRequest
) -> Generator[Any, DescribeDelegationTokenResponse, DescribeDelegationTokenResponse]:
    """Leave out tokens that do not concern the client, unless it may describe them or those of the owner."""
    response = yield request
    seen: list[DescribedDelegationToken] = []
    for number, token in enumerate(response.tokens, 1):
        if _may_see(access, token):
            seen.append(token)
        if number % ITEMS_PER_STEP == 0:
            yield
    response.tokens = seen
    return response


def _may_see(access: Access, token: DescribedDelegationToken) -> bool:
    principal = access.context.principal
    owner = Principal(token.principal_type, token.principal_name)
    requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
    renewers = [Principal(each.principal_type, each.principal_name) for each in token.renewers]
    return (
        principal in (owner, requester, *renewers)
        or access.allows(ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE, token.token_id, audited=False)
        or access.allows(ResourceType.USER, AclOperation.DESCRIBE_TOKENS, str(owner), audited=False)
    )
