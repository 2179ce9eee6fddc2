"""CreateDelegationToken (key 38): request a token that logs its holder in (KIP-48, KIP-373)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import CREATE_DELEGATION_TOKEN
from tidelog.plugins.schema.declare import array, byte_string, int16, int32, int64, string, struct


@struct()
class CreatableRenewer:
    """A principal that may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


@struct(CREATE_DELEGATION_TOKEN.versions)
class CreateDelegationTokenRequest:
    """Create a token; without the name of an owner it is the client's own."""

    owner_principal_type: str | None = string(versions="3+", nullable="3+", default=None)
    owner_principal_name: str | None = string(versions="3+", nullable="3+", default=None)
    renewers: list[CreatableRenewer] = array(CreatableRenewer)
    max_lifetime_ms: int = int64()


@struct(CREATE_DELEGATION_TOKEN.versions)
class CreateDelegationTokenResponse:
    """CreateDelegationToken response; the secret is in no representation."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+", default="", ignorable=True)
    token_requester_principal_name: str = string(versions="3+", default="", ignorable=True)
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = byte_string()
    throttle_time_ms: int = int32(default=0)

    def __repr__(self) -> str:
        return f"CreateDelegationTokenResponse(error_code={self.error_code}, {self.token_id!r}, [hidden])"
