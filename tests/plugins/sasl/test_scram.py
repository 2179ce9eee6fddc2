"""SCRAM: users of the metadata, and what a client that cheats gets."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from tests.plugins.sasl.test_conformance import SALT, context, scram_tokens, with_credentials
from tests.plugins.sasl.work import work_of
from tests.tables import for_each
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.config import Config
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage, token_password
from tidelog.kernel.metadata.scram import CredentialKey, ScramMechanism
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed, SaslContext
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


def refused(user: str, password: str) -> None:
    """A login that fails at its end."""
    with pytest.raises(AuthenticationFailed):
        log_in(AT, user, password)


AT = mechanism()


def test_an_unknown_user_costs_the_hashes_and_comparisons_of_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The credentials are counted once for each image, whoever asks first.
    refused("carol", "wrong")
    unknown = work_of(monkeypatch, lambda: refused("carol", "wrong"))
    wrong = work_of(monkeypatch, lambda: refused(ALICE, "wrong"))
    assert [name for name, *_ in unknown] == [name for name, *_ in wrong]
    assert ("compare_digest", 32, 32) in wrong


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


SECRET = "of the broker"
TOKEN = DelegationTokenImage("User:bob", "User:alice", (), 0, 2**62, 2**62)


def with_token(token: DelegationTokenImage = TOKEN, secret: str = SECRET) -> Scram:
    """SCRAM-SHA-256 with a token of that id, and no user."""
    config = Config.from_mapping({"storage": "memory", "delegation.token.secret.key": secret})
    image = MetadataDelta(tokens={"an-id": token}).apply(MetadataImage())
    return Scram(KIND, SaslContext(config, "SASL_PLAINTEXT", lambda: image, wall_clock_ms))


async def log_in_by_token(at: Scram, token_id: str, password: str, extension: str = "true") -> Authenticated:
    """Run an exchange of a client with a token."""
    exchange = at.start(PEER)
    bare = f"n={token_id},r=x,tokenauth={extension}"
    answer = exchange.respond(f"n,,{bare}".encode())
    answer = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(answer, bytes)
    first = scram.parse_server_first(answer)
    salted = scram.salted_password(KIND, password, first.salt, first.iterations)
    without_proof = f"c=biws,r={first.nonce}"
    signed = f"{bare},{answer.decode()},{without_proof}".encode()
    proof = scram.encoded(scram.client_proof(KIND, salted, signed))
    done = exchange.respond(f"{without_proof},p={proof}".encode())
    assert isinstance(done, Authenticated)
    return done


async def test_the_holder_of_a_token_is_its_owner_until_it_expires() -> None:
    done = await log_in_by_token(with_token(), "an-id", token_password(SECRET, "an-id"), "TRUE")
    assert (str(done.principal), done.by_token, done.expires_at_ms) == ("User:bob", True, 2**62)


@for_each(
    ("at", "token_id", "password", "reason"),
    [
        (with_token(), "another", token_password(SECRET, "another"), "unknown token (user 'another')"),
        (with_token(), "an-id", token_password(SECRET, "another"), "wrong password (user 'an-id')"),
        (with_token(TOKEN._replace(expires_ms=1)), "an-id", token_password(SECRET, "an-id"), "unknown token"),
        (with_token(secret=""), "an-id", token_password("", "an-id"), "unknown"),
        (mechanism(), ALICE, SECRETS[ALICE], "unknown token (user 'alice')"),
    ],
)
async def test_what_is_no_token_lets_no_one_in(at: Scram, token_id: str, password: str, reason: str) -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        await log_in_by_token(at, token_id, password)
    assert str(raised.value) == REFUSED
    assert raised.value.reason.startswith(reason)


async def test_a_token_is_no_user() -> None:
    with pytest.raises(AuthenticationFailed) as raised:
        await log_in_by_token(with_token(), "an-id", token_password(SECRET, "an-id"), "false")
    assert raised.value.reason == "unknown user (user 'an-id')"


async def test_a_token_that_is_unknown_gets_an_answer_that_looks_like_others() -> None:
    async def shown(token_id: str) -> tuple[int, int]:
        answer = at.start(PEER).respond(f"n,,n={token_id},r=x,tokenauth=true".encode())
        first = scram.parse_server_first(await answer if isinstance(answer, Awaitable) else answer)  # type: ignore[arg-type]
        return len(first.salt), first.iterations

    at = with_token()
    assert await shown("an-id") == await shown("another") == (26, 4096)
