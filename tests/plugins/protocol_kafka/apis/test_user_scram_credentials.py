"""AlterUserScramCredentials and DescribeUserScramCredentials: what is kept, reported and refused."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.metadata.scram import CredentialKey
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
)
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client

SHA_256, SHA_512 = 1, 2


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salted_password: bytes = b"p" * 32
) -> ScramCredentialUpsertion:
    """Set a credential."""
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted_password
    )


async def alter(
    client: Client, *upsertions: ScramCredentialUpsertion, deletions: Sequence[tuple[str, int]] = ()
) -> dict[str, int]:
    """The error code of each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions],
        upsertions=list(upsertions),
    )
    answer = await client.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    assert all(bool(result.error_message) == bool(result.error_code) for result in answer.results)
    return {result.user: result.error_code for result in answer.results}


async def describe(client: Client, *users: str) -> dict[str, Any]:
    """The mechanisms and iterations of each user, or its error code."""
    names = [UserName(name=user) for user in users] if users else None
    request = DescribeUserScramCredentialsRequest(users=names)
    answer = await client.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        result.user: result.error_code
        or {info.mechanism: info.iterations for info in result.credential_infos}
        for result in answer.results
    }


async def test_alter_user_scram_credentials_sets_and_deletes_credentials(client: Client) -> None:
    assert await alter(client, upsertion("alice"), upsertion("bob", SHA_512, 16384)) == {"alice": 0, "bob": 0}
    await alter(client, upsertion("alice", SHA_512, 5000))
    assert await describe(client) == {"alice": {SHA_256: 4096, SHA_512: 5000}, "bob": {SHA_512: 16384}}
    assert await describe(client, "bob") == {"bob": {SHA_512: 16384}}
    assert await alter(client, upsertion("bob", SHA_512, 4096), deletions=[("alice", SHA_256)]) == {
        "alice": 0,
        "bob": 0,
    }
    assert await describe(client) == {"alice": {SHA_512: 5000}, "bob": {SHA_512: 4096}}


@pytest.mark.parametrize(("mechanism", "name"), [(SHA_256, "sha256"), (SHA_512, "sha512")])
async def test_alter_user_scram_credentials_keeps_the_keys_of_rfc_5802(
    client: Client, broker: Broker, mechanism: int, name: str
) -> None:
    """A client proves the password with its client key, whose hash alone is kept."""
    salted = hashlib.pbkdf2_hmac(name, b"password", b"salt", 4096)
    await alter(client, upsertion("alice", mechanism, salted_password=salted))
    kept = broker.image.credentials[CredentialKey("alice", mechanism)]
    proof = hmac.digest(salted, b"Client Key", name)
    assert kept.stored_key == hashlib.new(name, proof).digest()
    assert kept.server_key == hmac.digest(salted, b"Server Key", name)
    assert (kept.salt, kept.iterations) == (b"salt", 4096)
    assert "salt" not in repr(kept)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (upsertion("u", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", SHA_512, iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", salted_password=b"p" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("u", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("u", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
async def test_alter_user_scram_credentials_refuses_one_user_and_changes_the_others(
    client: Client, refused: ScramCredentialUpsertion, code: ErrorCode
) -> None:
    assert await alter(client, refused, upsertion("other")) == {refused.name: code, "other": 0}
    assert await describe(client) == {"other": {SHA_256: 4096}}


@pytest.mark.parametrize(
    ("deletion", "code"),
    [
        (("nobody", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
        (("alice", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
        (("alice", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
async def test_alter_user_scram_credentials_refuses_to_delete_what_is_not_there(
    client: Client, deletion: tuple[str, int], code: ErrorCode
) -> None:
    await alter(client, upsertion("alice"))
    assert await alter(client, deletions=[deletion]) == {deletion[0]: code}
    assert await describe(client) == {"alice": {SHA_256: 4096}}


async def test_alter_user_scram_credentials_refuses_to_change_a_user_twice(client: Client) -> None:
    await alter(client, upsertion("alice"))
    twice = ErrorCode.DUPLICATE_RESOURCE
    assert await alter(client, upsertion("alice", SHA_512), deletions=[("alice", SHA_256)]) == {
        "alice": twice
    }
    assert await alter(client, deletions=[("alice", SHA_256)] * 3) == {"alice": twice}
    assert await describe(client) == {"alice": {SHA_256: 4096}}


async def test_alter_user_scram_credentials_reports_a_disk_that_refuses(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(changes: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(broker.metadata, "commit", refuse)
    assert await alter(client, upsertion("alice")) == {"alice": ErrorCode.KAFKA_STORAGE_ERROR}


async def test_describe_user_scram_credentials_refuses_unknown_and_repeated_users(client: Client) -> None:
    await alter(client, upsertion("alice"), upsertion("bob"))
    assert await describe(client, "bob", "alice", "alice", "nobody") == {
        "bob": {SHA_256: 4096},
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
    }
