"""RenewDelegationToken (key 39): have a token expire later (KIP-48)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import RENEW_DELEGATION_TOKEN
from tidelog.plugins.schema.declare import byte_string, int16, int32, int64, struct


@struct(RENEW_DELEGATION_TOKEN.versions)
class RenewDelegationTokenRequest:
    """Renew the token with this secret, which is in no representation."""

    hmac: bytes = byte_string()
    renew_period_ms: int = int64()

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(renew_period_ms={self.renew_period_ms}, [hidden])"


@struct(RENEW_DELEGATION_TOKEN.versions)
class RenewDelegationTokenResponse:
    """RenewDelegationToken response."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
