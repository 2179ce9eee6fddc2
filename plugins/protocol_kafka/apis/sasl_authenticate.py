"""SaslAuthenticate (API 36): a token of the mechanism that SaslHandshake has chosen."""

from __future__ import annotations

from tidelog.kernel.request import SessionState
from tidelog.kernel.seams.sasl import AuthenticationFailed
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


async def handle(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Return the answer of the mechanism; after an error the connection is closed."""
    session = context.sasl
    if session is None or session.state is not SessionState.EXCHANGE:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
            auth_bytes=b"",
        )
    try:
        token = await session.respond(bytes(request.auth_bytes))
    except AuthenticationFailed as error:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error), auth_bytes=b""
        )
    return SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=session.lifetime_ms
    )
