"""DescribeDelegationToken (key 41): the tokens of owners, with their secrets (KIP-48, KIP-373)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_DELEGATION_TOKEN
from tidelog.plugins.schema.declare import array, byte_string, int16, int32, int64, string, struct


@struct()
class DescribedTokenOwner:
    """A principal whose tokens are asked for."""

    principal_type: str = string()
    principal_name: str = string()


@struct(DESCRIBE_DELEGATION_TOKEN.versions)
class DescribeDelegationTokenRequest:
    """Describe the tokens that concern these principals, all that the client may see with null."""

    owners: list[DescribedTokenOwner] | None = array(DescribedTokenOwner, nullable="0+")


@struct()
class DescribedTokenRenewer:
    """A principal that may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


@struct()
class DescribedDelegationToken:
    """A token; its secret is in no representation."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+", default="", ignorable=True)
    token_requester_principal_name: str = string(versions="3+", default="", ignorable=True)
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = byte_string()
    renewers: list[DescribedTokenRenewer] = array(DescribedTokenRenewer)

    def __repr__(self) -> str:
        return f"DescribedDelegationToken({self.token_id!r}, {self.principal_name!r}, [hidden])"


@struct(DESCRIBE_DELEGATION_TOKEN.versions)
class DescribeDelegationTokenResponse:
    """DescribeDelegationToken response."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32(default=0)
