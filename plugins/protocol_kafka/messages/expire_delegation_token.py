"""ExpireDelegationToken (key 40): have a token expire at another time, or remove it (KIP-48)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import EXPIRE_DELEGATION_TOKEN
from tidelog.plugins.schema.declare import byte_string, int16, int32, int64, struct


@struct(EXPIRE_DELEGATION_TOKEN.versions)
class ExpireDelegationTokenRequest:
    """Change the token with this secret, which is in no representation; a negative period removes it."""

    hmac: bytes = byte_string()
    expiry_time_period_ms: int = int64()

    def __repr__(self) -> str:
        period = self.expiry_time_period_ms
        return f"ExpireDelegationTokenRequest(expiry_time_period_ms={period}, [hidden])"


@struct(EXPIRE_DELEGATION_TOKEN.versions)
class ExpireDelegationTokenResponse:
    """ExpireDelegationToken response."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)
