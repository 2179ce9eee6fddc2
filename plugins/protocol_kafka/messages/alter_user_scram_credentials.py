"""AlterUserScramCredentials (key 51): set and delete the SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ALTER_USER_SCRAM_CREDENTIALS
from tidelog.plugins.schema.declare import (
    array,
    byte_string,
    int8,
    int16,
    int32,
    string,
    struct,
)


@struct()
class ScramCredentialDeletion:
    """Delete a credential."""

    name: str = string()
    mechanism: int = int8()


@struct()
class ScramCredentialUpsertion:
    """Set a credential; the client has salted the password, which is in no representation."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = byte_string()
    salted_password: bytes = byte_string()

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion({self.name!r}, mechanism={self.mechanism}, [hidden])"


@struct(ALTER_USER_SCRAM_CREDENTIALS.versions)
class AlterUserScramCredentialsRequest:
    """Change credentials."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct()
class AlterUserScramCredentialsResult:
    """Result for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct(ALTER_USER_SCRAM_CREDENTIALS.versions)
class AlterUserScramCredentialsResponse:
    """AlterUserScramCredentials response."""

    throttle_time_ms: int = int32(default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
