"""DescribeDelegationToken (API 41): with an authorizer, its guard leaves out what the client may not see."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from tidelog.kernel.metadata.delegation_tokens import secret_key_of, token_hmac
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.apis.delegation_tokens import as_principal, is_allowed
from tidelog.plugins.protocol_kafka.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribedTokenRenewer,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage
    from tidelog.plugins.protocol_kafka.context import RequestContext


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse | Awaitable[DescribeDelegationTokenResponse]:
    """Describe the tokens of some principals, of all with null."""
    if not is_allowed(context):
        return _refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret = secret_key_of(context.broker.config)
    if secret is None:
        return _refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return _describe(context, request, secret)


async def _describe(
    context: RequestContext, request: DescribeDelegationTokenRequest, secret: str
) -> DescribeDelegationTokenResponse:
    owners = request.owners
    wanted = None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in owners}
    pace = Pace()
    tokens: list[DescribedDelegationToken] = []
    for token_id, token in context.broker.image.tokens.items() if wanted != set() else ():
        if wanted is None or not wanted.isdisjoint((token.owner, token.requester, *token.renewers)):
            tokens.append(_described(token_id, token, token_hmac(secret, token_id)))
        await pace.turn()
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=tokens)


def _described(token_id: str, token: DelegationTokenImage, hmac: bytes) -> DescribedDelegationToken:
    owner, requester = as_principal(token.owner), as_principal(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token_id,
        hmac=hmac,
        renewers=[
            DescribedTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(as_principal, token.renewers)
        ],
    )


def _refused(code: ErrorCode) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, tokens=[])
