"""RenewDelegationToken (API 39)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.apis.delegation_tokens import with_new_expiry
from tidelog.plugins.protocol_kafka.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.context import RequestContext


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Have a token expire later."""
    renew = context.broker.controller.renew_delegation_token
    code, expires_ms = await with_new_expiry(context, renew, request.hmac, request.renew_period_ms)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)
