"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms that users have credentials of (KIP-554)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_USER_SCRAM_CREDENTIALS
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct


@struct()
class UserName:
    """A user."""

    name: str = string()


@struct(DESCRIBE_USER_SCRAM_CREDENTIALS.versions)
class DescribeUserScramCredentialsRequest:
    """Request the credentials of users; null or an empty list means all."""

    users: list[UserName] | None = array(UserName, nullable="0+")


@struct()
class CredentialInfo:
    """What is public of a credential."""

    mechanism: int = int8()
    iterations: int = int32()


@struct()
class DescribeUserScramCredentialsResult:
    """One user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@struct(DESCRIBE_USER_SCRAM_CREDENTIALS.versions)
class DescribeUserScramCredentialsResponse:
    """DescribeUserScramCredentials response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
