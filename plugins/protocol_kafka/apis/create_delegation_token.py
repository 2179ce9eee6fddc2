"""CreateDelegationToken (API 38)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, DelegationTokenAuthDisabled
from tidelog.kernel.metadata.delegation_tokens import NewDelegationToken, secret_key_of, token_hmac
from tidelog.kernel.seams.requests import Principal
from tidelog.plugins.protocol_kafka.apis.delegation_tokens import NO_TIME, is_allowed
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.context import RequestContext


def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | Awaitable[CreateDelegationTokenResponse]:
    """Create a token."""
    if not is_allowed(context):
        return not_created(context, request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if any(each.principal_type != "User" for each in request.renewers):
        return not_created(context, request, ErrorCode.INVALID_PRINCIPAL_TYPE)
    return _create(context, request)


def owner_of(context: RequestContext, request: CreateDelegationTokenRequest) -> Principal:
    """Return whose token is requested."""
    if not request.owner_principal_name:
        return context.principal
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


async def _create(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    owner, requester, broker = owner_of(context, request), context.principal, context.broker
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    new = NewDelegationToken(str(owner), str(requester), renewers, request.max_lifetime_ms)
    try:
        token_id, token = await broker.controller.create_delegation_token(new)
        secret = secret_key_of(broker.config)
        if secret is None:
            raise DelegationTokenAuthDisabled("delegation.token.secret.key is not set")
    except BrokerError as error:
        context.warn("refusing to create a delegation token:", error)
        return not_created(context, request, error_code(error), at_ms=0)
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token_id,
        hmac=token_hmac(secret, token_id),
    )


def not_created(
    context: RequestContext, request: CreateDelegationTokenRequest, code: int, *, at_ms: int = NO_TIME
) -> CreateDelegationTokenResponse:
    """Return the response to a request that is refused; its times are those of Kafka's."""
    owner, requester = owner_of(context, request), context.principal
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=at_ms,
        expiry_timestamp_ms=at_ms,
        max_timestamp_ms=at_ms,
        token_id="",
        hmac=b"",
    )
