"""SaslAuthenticate (key 36): send a token of the mechanism (KIP-152, KIP-368)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import SASL_AUTHENTICATE
from tidelog.plugins.schema.declare import byte_string, int16, int64, string, struct


@struct(SASL_AUTHENTICATE.versions)
class SaslAuthenticateRequest:
    """Send a token, which may be a password: it is in no representation."""

    auth_bytes: bytes = byte_string()

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest([hidden])"


@struct(SASL_AUTHENTICATE.versions)
class SaslAuthenticateResponse:
    """SaslAuthenticate response; the session ends after its lifetime, 0 means that it does not."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = byte_string()
    session_lifetime_ms: int = int64(versions="1+", default=0, ignorable=True)
