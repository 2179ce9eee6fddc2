"""SCRAM: users of the metadata, and what a client that cheats gets."""

from __future__ import annotations

import pytest

from tests.plugins.sasl.test_conformance import SALT, context, scram_tokens, with_credentials
from tests.tables import for_each
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramMechanism
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed
from tidelog.kernel.testing.sasl import ALICE, PEER, SECRETS
from tidelog.plugins.credentials import scram
from tidelog.plugins.sasl.scram import Scram

KIND = ScramMechanism.SCRAM_SHA_256
REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)


def mechanism(image: MetadataImage | None = None) -> Scram:
    """SCRAM-SHA-256 with both users."""
    return Scram(KIND, context(image or with_credentials(KIND)))


def with_user(user: str, password: str, iterations: int = 4096) -> MetadataImage:
    """An image with one user."""
    salted = scram.salted_password(KIND, password, SALT, iterations)
    credential = scram.credential_of(KIND, salted, SALT, iterations)
    return MetadataDelta(credentials={CredentialKey(user, KIND): credential}).apply(MetadataImage())


def log_in(at: Scram, user: str, password: str) -> Authenticated:
    """Run an exchange."""
    exchange, client = at.start(PEER), scram_tokens(KIND, user, password)
    answer = exchange.respond(next(client))
    assert isinstance(answer, bytes)
    done = exchange.respond(client.send(answer))
    assert isinstance(done, Authenticated)
    return done


@for_each("user", ["a,b=c", "ünï", "=2C", ",", "User:x", "a b", "'; drop"])
def test_odd_names(user: str) -> None:
    assert log_in(mechanism(with_user(user, "p,=ü")), user, "p,=ü").principal.name == user


def test_the_broker_proves_that_it_knows_the_user() -> None:
    exchange, client = mechanism().start(PEER), scram_tokens(KIND, ALICE, SECRETS[ALICE])
    first = next(client)
    answer = exchange.respond(first)
    assert isinstance(answer, bytes)
    final = client.send(answer)
    done = exchange.respond(final)
    assert isinstance(done, Authenticated)
    bare, without_proof = first[3:].decode(), final.rpartition(b",p=")[0].decode()
    salted = scram.salted_password(KIND, SECRETS[ALICE], SALT, 4096)
    signed = f"{bare},{answer.decode()},{without_proof}".encode()
    expected = scram.server_signature(KIND, scram.server_key_of(KIND, salted), signed)
    assert scram.parse_server_final(done.token) == (expected, "")


def test_an_unknown_user_gets_a_salt_that_stays_and_looks_like_others() -> None:
    at = mechanism(with_user(ALICE, "x", 8192))

    def shown(user: str) -> tuple[bytes, int]:
        answer = at.start(PEER).respond(f"n,,n={user},r=x".encode())
        assert isinstance(answer, bytes)
        first = scram.parse_server_first(answer)
        return first.salt, first.iterations

    assert shown("carol") == shown("carol") != shown("dave")
    assert shown("carol")[1] == shown(ALICE)[1] == 8192
    assert shown("carol")[0].isalnum()
    assert len(shown("carol")[0]) == 26


def own_nonce(token: bytes) -> bytes:
    """The part of a final message's nonce that the client has made."""
    return token.split(b",r=")[1].split(b",p=")[0][: -len(scram.new_nonce())]


@for_each(
    ("change", "reason"),
    [
        (lambda token: token.replace(b"c=biws", b"c=eSws"), "another header than that of its first message"),
        (lambda token: token.replace(b",r=", b",r=x"), "another nonce than that of this exchange"),
        (
            lambda token: token.replace(b",r=", b",r=" + own_nonce(token)),
            "its own nonce comes twice, as of librdkafka",
        ),
        (lambda token: token.replace(b",p=", b",x=1,p="), "wrong password"),
        (lambda token: token[: token.index(b",p=") + 3] + b"AAAA", "wrong password"),
        (lambda token: token[: token.index(b",p=")], "a malformed message: it needs c=, r= and p="),
    ],
)
def test_final_messages_that_are_changed_are_refused(change, reason: str) -> None:  # type: ignore[no-untyped-def]
    exchange, client = mechanism().start(PEER), scram_tokens(KIND, ALICE, SECRETS[ALICE])
    answer = exchange.respond(next(client))
    assert isinstance(answer, bytes)
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.respond(change(client.send(answer)))
    assert str(raised.value) == REFUSED
    assert raised.value.reason.startswith(reason)


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="authorization id that is different from username"):
        mechanism().start(PEER).respond(b"n,a=bob,n=alice,r=x")
    assert isinstance(mechanism().start(PEER).respond(b"n,a=alice,n=alice,r=x"), bytes)


def test_credentials_with_few_iterations_are_refused() -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        log_in(mechanism(with_user(ALICE, "p", 4095)), ALICE, "p")
    assert raised.value.reason == "a credential with fewer than 4096 iterations (user 'alice')"


def test_a_credential_is_of_one_mechanism() -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        log_in(mechanism(with_credentials(ScramMechanism.SCRAM_SHA_512)), ALICE, SECRETS[ALICE])
    assert raised.value.reason == "unknown user (user 'alice')"
