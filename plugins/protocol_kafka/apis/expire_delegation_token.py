"""ExpireDelegationToken (API 40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.apis.delegation_tokens import with_new_expiry
from tidelog.plugins.protocol_kafka.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.context import RequestContext


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Have a token expire at another time, or remove it."""
    expire = context.broker.controller.expire_delegation_token
    code, expires_ms = await with_new_expiry(context, expire, request.hmac, request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expires_ms)
