"""PLAIN and SCRAM keep the contract of mechanisms, and the suite finds those that do not."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

import pytest

from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.config import Config, declared_keys
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramMechanism
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.sasl import (
    Authenticated,
    AuthenticationFailed,
    SaslContext,
    SaslExchange,
    SaslMechanism,
)
from tidelog.kernel.seams.wire import Peer
from tidelog.kernel.testing import sasl
from tidelog.kernel.testing.sasl import SECRETS, SaslMechanismConformance, Tokens
from tidelog.plugins.credentials import scram
from tidelog.plugins.sasl import keys
from tidelog.plugins.sasl.plain import Plain
from tidelog.plugins.sasl.scram import Scram

SALT = b"4711"


def context(image: MetadataImage | None = None) -> SaslContext:
    """What a mechanism gets of a broker with both users."""
    line = " ".join(f'user_{user}="{secret}"' for user, secret in SECRETS.items())
    config = Config.from_mapping(
        {"storage": "memory", "sasl.jaas.config": f"PlainLoginModule required {line};"}, declared_keys(keys)
    )
    return SaslContext(config, "SASL_PLAINTEXT", lambda: image or MetadataImage(), wall_clock_ms)


def with_credentials(mechanism: ScramMechanism) -> MetadataImage:
    """An image with the credentials of both users."""
    credentials = {
        CredentialKey(user, mechanism): scram.credential_of(
            mechanism, scram.salted_password(mechanism, secret, SALT, 4096), SALT, 4096
        )
        for user, secret in SECRETS.items()
    }
    return MetadataDelta(credentials=credentials).apply(MetadataImage())


def plain_tokens(user: str, secret: str) -> Tokens:
    """A client of PLAIN."""
    yield f"\0{user}\0{secret}".encode()


def scram_tokens(mechanism: ScramMechanism, user: str, secret: str) -> Tokens:
    """A client of SCRAM."""
    bare = f"n={scram.escaped(user)},r={scram.new_nonce()}"
    answer = yield f"n,,{bare}".encode()
    first = scram.parse_server_first(answer)
    without_proof = f"c=biws,r={first.nonce}"
    salted = scram.salted_password(mechanism, secret, first.salt, first.iterations)
    signed = f"{bare},{answer.decode()},{without_proof}".encode()
    yield f"{without_proof},p={scram.encoded(scram.client_proof(mechanism, salted, signed))}".encode()


class TestPlain(SaslMechanismConformance):
    """It keeps the contract."""

    replayable = True

    def mechanism(self) -> SaslMechanism:
        return Plain(context())

    def tokens(self, user: str, secret: str) -> Tokens:
        return plain_tokens(user, secret)


class TestScram256(SaslMechanismConformance):
    """It keeps the contract."""

    kind = ScramMechanism.SCRAM_SHA_256

    def mechanism(self) -> SaslMechanism:
        return Scram(self.kind, context(with_credentials(self.kind)))

    def tokens(self, user: str, secret: str) -> Tokens:
        return scram_tokens(self.kind, user, secret)


class TestScram512(TestScram256):
    """It keeps the contract."""

    kind = ScramMechanism.SCRAM_SHA_512


Decide = Callable[[str, str], Authenticated]


class Wrong(SaslMechanism, SaslExchange):
    """A mechanism like PLAIN that decides by a function."""

    def __init__(self, decide: Decide) -> None:
        self.decide = decide

    def start(self, peer: Peer) -> SaslExchange:
        return self

    def respond(self, token: bytes) -> Authenticated:
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed("malformed")
        return self.decide(parts[1], parts[2])


def let_in(user: str) -> Authenticated:
    return Authenticated(Principal("User", user))


def allows_all(user: str, secret: str) -> Authenticated:
    return let_in(user)


def allows_empty_secrets(user: str, secret: str) -> Authenticated:
    return let_in(user) if secret == SECRETS.get(user, "") else refuse()


def allows_prefixes(user: str, secret: str) -> Authenticated:
    return let_in(user) if user in SECRETS and SECRETS[user].startswith(secret) else refuse()


def ignores_case(user: str, secret: str) -> Authenticated:
    return let_in(user) if SECRETS.get(user.lower()) == secret else refuse()


def forgets_whose_it_is(user: str, secret: str) -> Authenticated:
    return let_in(user) if secret in SECRETS.values() else refuse()


def says_who_there_is(user: str, secret: str) -> Authenticated:
    if user not in SECRETS:
        raise AuthenticationFailed("no such user")
    return let_in(user) if SECRETS[user] == secret else refuse()


def fails(user: str, secret: str) -> Authenticated:
    return let_in(user) if SECRETS[user] == secret else refuse()


def is_someone_else(user: str, secret: str) -> Authenticated:
    return let_in("admin") if SECRETS.get(user) == secret else refuse()


def refuse() -> Authenticated:
    raise AuthenticationFailed("no")


async def faults(suite: SaslMechanismConformance) -> list[str]:
    """The tests that fail."""
    failed: list[str] = []
    for name, test in inspect.getmembers(suite, inspect.iscoroutinefunction):
        if name.startswith("test_"):
            try:
                await test()
            except (AssertionError, KeyError):
                failed.append(name)
    return failed


@pytest.mark.parametrize(
    "decide",
    [
        allows_all,
        allows_empty_secrets,
        allows_prefixes,
        ignores_case,
        forgets_whose_it_is,
        says_who_there_is,
        fails,
        is_someone_else,
    ],
)
async def test_the_suite_finds_mechanisms_that_are_wrong(decide: Decide) -> None:
    class Suite(TestPlain):
        def mechanism(self) -> SaslMechanism:
            return Wrong(decide)

    assert await faults(Suite())


async def test_the_suite_finds_a_mechanism_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks(user: str, secret: str) -> Authenticated:
        time.sleep(0.02)
        return let_in(user)

    class Suite(TestPlain):
        def mechanism(self) -> SaslMechanism:
            return Wrong(blocks)

    monkeypatch.setattr(sasl, "MOST_TOKEN_SECONDS", 0.01)
    with pytest.raises(AssertionError, match="belongs in a thread"):
        await Suite().test_no_token_blocks_the_event_loop()


async def test_the_suite_finds_a_mechanism_whose_tokens_can_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scram, "new_nonce", lambda: "same")
    assert await faults(TestScram256()) == ["test_tokens_of_another_exchange_let_no_one_in_again"]
