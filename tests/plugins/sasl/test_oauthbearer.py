"""OAUTHBEARER: which tokens are taken, where keys come from, and what a broker has to have configured."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Awaitable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from trio.testing import MockClock

from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider, unsecured, usual_claims
from tests.tables import for_each
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.sasl import Authenticated, AuthenticationFailed, SaslContext, SaslMechanism
from tidelog.kernel.testing.sasl import PEER, SECRETS, SaslMechanismConformance, Tokens
from tidelog.plugins.credentials.oauthbearer import (
    GIVEN_UP,
    BadOAuthMessage,
    client_first,
    parse_oauth_client_first,
)
from tidelog.plugins.sasl import jwks
from tidelog.plugins.sasl.jwks import KeySet, UnreadableKeys
from tidelog.plugins.sasl.oauthbearer import OAuthBearer

LISTENER = "SASL_PLAINTEXT"
OF_MECHANISM = f"listener.name.{LISTENER.lower()}.oauthbearer."
EXPECTED = {
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
}
UNSECURED = {
    f"{OF_MECHANISM}sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
    "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
}
INVALID = '{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


def mechanism(values: Mapping[str, object]) -> OAuthBearer:
    """The mechanism with these settings."""
    config, _ = configure(Sources().over(settings_from_mapping({"storage": "memory", **values})))
    return OAuthBearer(SaslContext(config, LISTENER, MetadataImage, wall_clock_ms))


@pytest.fixture
def signed(provider: Provider, tmp_path: Path) -> OAuthBearer:
    """The mechanism with the keys of the provider."""
    url = provider.write(tmp_path / "keys.json")
    return mechanism({**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": url})


async def outcome(oauth: OAuthBearer, message: bytes) -> Authenticated | tuple[str, str]:
    """Who a client is, or with what message and for what reason it is refused."""
    exchange = oauth.start(PEER)
    try:
        answer = exchange.respond(message)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, Authenticated):
            return answer
        shown = answer.decode()
        exchange.respond(GIVEN_UP)
    except AuthenticationFailed as error:
        return str(error), error.reason
    raise AssertionError(f"{shown} was no end")


async def refused(oauth: OAuthBearer, message: bytes) -> tuple[str, str]:
    """With what message and for what reason a client is refused."""
    found = await outcome(oauth, message)
    assert not isinstance(found, Authenticated), found
    return found


async def refusal(oauth: OAuthBearer, token: str) -> str:
    """Why a token is not taken; the client gets the same each time."""
    shown, reason = await refused(oauth, client_first(token, {}))
    assert shown == INVALID
    return reason.removeprefix("the access token is not taken: ")


class TestOAuthBearer(SaslMechanismConformance):
    """It keeps the contract of mechanisms: a secret is what a provider signs with."""

    replayable = True

    @pytest.fixture(autouse=True)
    def _keys(self, provider: Provider, tmp_path: Path) -> None:
        self.right, self.wrong = provider, Provider()
        self.values = {**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": provider.write(tmp_path / "k")}

    def mechanism(self) -> SaslMechanism:
        return mechanism(self.values)

    def tokens(self, user: str, secret: str) -> Tokens:
        signer = self.right if SECRETS.get(user) == secret else self.wrong
        yield client_first(signer.token(user), {})
        yield GIVEN_UP


async def test_who_has_a_token_is_its_subject_until_it_ends(signed: OAuthBearer, provider: Provider) -> None:
    ends = int(time.time()) + 100
    token = provider.token(exp=ends, aud=["x", AUDIENCE])
    taken = Authenticated(Principal("User", "alice"), b"", ends * 1000)
    for message in (
        client_first(token, {}),
        client_first(token, {"traceId": "4711", "logicalCluster": "a b"}),
        client_first(token, {}, "alice"),
        f"n,,\x01auth=bearer  {token}\x01\x01".encode(),
    ):
        assert await outcome(signed, message) == taken
    shown, _ = await refused(signed, client_first(token, {}, "bo,b="))
    assert shown == (
        "Authentication failed: Client requested an authorization id (bo,b=) that is different from the "
        "token's principal name (alice)"
    )


@for_each(
    ("claims", "reason"),
    [
        ({"exp": time.time() - 31}, "it has expired"),
        ({"exp": None}, "it has no end (exp)"),
        ({"exp": "tomorrow"}, "its claim exp is no time"),
        ({"exp": True}, "its claim exp is no time"),
        ({"exp": 10**400}, "its claim exp is no time"),
        ({"exp": 1e300}, "its claim exp is no time"),
        ({"iat": None}, "it has no time at which it was issued (iat)"),
        ({"iat": time.time() + 86_400}, "it is of the future (iat or nbf)"),
        ({"nbf": time.time() + 86_400}, "it is of the future (iat or nbf)"),
        ({"nbf": "x"}, "its claim nbf is no time"),
        ({"iss": "https://id.example/"}, "its issuer (iss) is another one"),
        ({"iss": None}, "its issuer (iss) is another one"),
        ({"aud": "kafk"}, "its audience (aud) has none"),
        ({"aud": ["x", {"kafka": 1}]}, "its audience (aud) has none"),
        ({"aud": None}, "its audience (aud) has none"),
        ({"sub": None}, "its claim sub is no name of a user"),
        ({"sub": " "}, "its claim sub is no name of a user"),
        ({"sub": "a" * 1025}, "its claim sub is no name of a user"),
    ],
)
async def test_claims_that_are_not_taken(
    signed: OAuthBearer, provider: Provider, claims: dict[str, Any], reason: str
) -> None:
    assert (await refusal(signed, provider.token(**claims))).startswith(reason)


async def test_the_clock_of_the_provider_may_differ(signed: OAuthBearer, provider: Provider) -> None:
    now = time.time()
    near: tuple[dict[str, Any], ...] = (
        {"exp": now - 15, "iat": now - 60},
        {"iat": now + 15},
        {"nbf": now + 15},
    )
    for claims in near:
        assert isinstance(await outcome(signed, client_first(provider.token(**claims), {})), Authenticated)


async def test_tokens_that_no_key_has_signed(signed: OAuthBearer, provider: Provider) -> None:
    good = provider.token()
    head, body, signature = good.split(".")
    claims = usual_claims("alice")
    for token, reason in (
        (unsecured(claims), "its algorithm 'none' is none with a public key"),
        (unsecured(claims, {"alg": "None", "kid": "first"}), "its algorithm 'None'"),
        (unsecured(claims, {"typ": "JWT"}), "its algorithm 'None'"),
        (f"{head}.{body}.", "its signature is wrong"),
        (f"{head}.{body}.{signature[:-4]}AAAA", "its signature is wrong"),
        (f"{head}.{good.split('.')[1][:-2]}xx.{signature}", "its signature is wrong"),
        (Provider().token(), "its signature is wrong"),
        (provider.token(header={"crit": "x"}), "its signature is wrong"),
        (f"{head}.{body}", "it is no JWT"),
        ("a.b.c.d.e", "it is no JWT"),
        ("a.b.c", "a part of it is no base64"),
        ("YQ.YQ.YQ", "a part of it is no JSON"),
        (_encoded("[1]", "{}"), "a part of it is no JSON object"),
        (_encoded("[" * 100_000, "{}"), "a part of it is no JSON"),
        (_encoded('{"alg": ["RS256"]}', "{}"), "its algorithm"),
        (_encoded('{"alg": "RS256", "kid": {"a": 1}}', "{}"), "no key of file:"),
    ):
        found = await refusal(signed, token)
        assert found.startswith(reason), (found, reason)


async def test_a_public_key_is_no_shared_secret(signed: OAuthBearer, provider: Provider) -> None:
    public = provider.keys["first"][0].public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    unsigned = unsecured(usual_claims("alice"), {"alg": "HS256", "kid": "first"}).rstrip(".")
    forged = (
        base64.urlsafe_b64encode(hmac.digest(pem, unsigned.encode(), hashlib.sha256)).decode().rstrip("=")
    )
    assert "'HS256' is none with a public key" in await refusal(signed, f"{unsigned}.{forged}")


@pytest.mark.parametrize("algorithm", ["RS512", "PS256", "ES256", "EdDSA"])
async def test_algorithms_with_public_keys(algorithm: str, tmp_path: Path) -> None:
    provider = Provider(algorithm=algorithm)
    keys = json.loads(provider.key_set())["keys"]
    # Most providers leave `alg` out, and a set has keys that sign nothing, or that are of no use.
    del keys[0]["alg"]
    keys += [
        {"kty": "oct", "k": "AAAA", "kid": "x"},
        {"kty": "new"},
        {"use": "enc", **keys[0], "kid": "y"},
        7,
    ]
    (tmp_path / "k").write_text(json.dumps({"keys": keys}))
    values = {**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": f"file://{tmp_path}/k"}
    found = await outcome(mechanism(values), client_first(provider.token(), {}))
    assert isinstance(found, Authenticated)
    assert "no key of" in await refusal(mechanism(values), Provider(key_id="x").token())


async def test_scopes_that_are_required(provider: Provider, tmp_path: Path) -> None:
    oauth = mechanism(
        {
            **EXPECTED,
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(tmp_path / "k"),
            f"{OF_MECHANISM}oauthbearer.required.scope": "read,write",
            f"{OF_MECHANISM}sasl.oauthbearer.scope.claim.name": "scp",
            f"{OF_MECHANISM}sasl.oauthbearer.sub.claim.name": "client_id",
        }
    )
    for scopes in ("write read x", ["x", "read", "write"]):
        found = await outcome(oauth, client_first(provider.token(scp=scopes, client_id="app"), {}))
        assert isinstance(found, Authenticated)
        assert found.principal == Principal("User", "app")
    for missing in ("read", "readwrite", ["read write"], None, 7):
        message, reason = await refused(oauth, client_first(provider.token(scp=missing, client_id="app"), {}))
        assert message == '{"status":"insufficient_scope","scope":"read write"}'
        assert "its claim scp has not all of read write" in reason


async def test_tokens_without_signature_only_where_configured(caplog: pytest.LogCaptureFixture) -> None:
    oauth = mechanism({**UNSECURED, f"{OF_MECHANISM}oauthbearer.required.scope": "a"})
    assert "takes tokens without a signature" in caplog.text
    claims = {"sub": "alice", "exp": time.time() + 60, "scope": "a"}
    found = await outcome(oauth, client_first(unsecured(claims), {}))
    assert isinstance(found, Authenticated)
    assert found.principal == Principal("User", "alice")
    assert "it has a signature" in await refusal(oauth, Provider().token())
    assert "it has a signature" in await refusal(oauth, unsecured(claims, signature="YQ"))
    assert "it has expired" in await refusal(oauth, unsecured({**claims, "exp": time.time() - 1}))


async def test_options_of_tokens_without_signature() -> None:
    line = (
        "OAuthBearerLoginModule required unsecuredValidatorPrincipalClaimName=user "
        "unsecuredValidatorRequiredScope=s unsecuredValidatorScopeClaimName=scopes "
        'unsecuredValidatorAllowableClockSkewMs="60000";'
    )
    oauth = mechanism({**UNSECURED, f"{OF_MECHANISM}sasl.jaas.config": line})
    claims = {"user": "alice", "exp": time.time() - 30, "scopes": ["s"]}
    assert isinstance(await outcome(oauth, client_first(unsecured(claims), {})), Authenticated)


@for_each(
    ("values", "problem"),
    [
        ({}, "OAUTHBEARER needs sasl.oauthbearer.expected.audience, so that tokens for other services"),
        (
            {"sasl.oauthbearer.expected.audience": "a"},
            "needs sasl.oauthbearer.expected.issuer, .* or sasl.oauthbearer.allow.unverified.issuer=true",
        ),
        (EXPECTED, "needs listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"),
        ({**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": "ftp://x/y"}, "none of the schemes"),
        ({**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": "file:///no/such"}, "cannot be read"),
        ({**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": "file:///dev/zero"}, "more than 1048576 bytes"),
        ({"sasl.server.callback.handler.class": "com.example.Mine"}, "it has no Java"),
        (
            {**UNSECURED, "sasl.jaas.config": "M required unsecuredValidatorAllowableClockSkewMs=x;"},
            "is no number",
        ),
    ],
)
def test_configurations_that_cannot_be_used(values: Mapping[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        mechanism(values)


async def test_unverified_audience_and_issuer_are_a_choice(provider: Provider, tmp_path: Path) -> None:
    oauth = mechanism(
        {
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(tmp_path / "k"),
            "sasl.oauthbearer.allow.unverified.audience": True,
            "sasl.oauthbearer.allow.unverified.issuer": True,
        }
    )
    token = provider.token(aud="x", iss=None)
    assert isinstance(await outcome(oauth, client_first(token, {})), Authenticated)


async def test_a_key_that_was_added_is_read_when_a_token_names_it(
    provider: Provider, tmp_path: Path, autojump_clock: MockClock
) -> None:
    turned = Provider()
    url = turned.write(tmp_path / "k")
    oauth = mechanism({**EXPECTED, "sasl.oauthbearer.jwks.endpoint.url": url})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(oauth.run)
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(jwks.MIN_INTERVAL_S)
        turned.add("second")
        (tmp_path / "k").write_text(turned.key_set("second"))
        assert isinstance(await outcome(oauth, client_first(turned.token(), {})), Authenticated)
        # The one before is no more.
        assert "no key of" in await refusal(oauth, turned.token(key_id="first"))
        # Tokens are of anyone: they cannot have the keys read more often.
        turned.add("third")
        turned.write(tmp_path / "k")
        began = trio.current_time()
        assert "no key of" in await refusal(oauth, turned.token())
        assert trio.current_time() == began
        await trio.sleep(jwks.MIN_INTERVAL_S)
        assert isinstance(await outcome(oauth, client_first(turned.token(), {})), Authenticated)
        # What cannot be read leaves the keys as they are.
        (tmp_path / "k").write_text("{}")
        await trio.sleep(4000)
        assert isinstance(await outcome(oauth, client_first(turned.token(exp=2e9), {})), Authenticated)
        nursery.cancel_scope.cancel()


class _Answers(BaseHTTPRequestHandler):
    """Answers by its path."""

    body = b""
    released = threading.Event()

    def do_GET(self) -> None:
        match self.path:
            case "/hangs":
                # Each byte comes within the timeout of the socket.
                while not self.released.wait(0.02):
                    self.wfile.write(b"x")
                    self.wfile.flush()
            case "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
            case "/large":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b" " * (jwks.MAX_BYTES + 1))
            case "/keys":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(self.body)
            case _:
                self.send_error(404)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing."""


@contextmanager
def provider_over_http(provider: Provider) -> Generator[str]:
    """The address of an HTTP server with the keys."""
    _Answers.body = provider.key_set().encode()
    _Answers.released.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        _Answers.released.set()
        server.shutdown()
        thread.join()


def test_keys_are_read_by_http_within_limits(provider: Provider) -> None:
    with provider_over_http(provider) as address:
        assert jwks.read_key_set(f"{address}/keys")[0]["kid"] == "first"
        for path, problem in (
            ("large", "have more than"),
            ("elsewhere", "302"),
            ("absent", "404"),
        ):
            with pytest.raises(UnreadableKeys, match=problem):
                jwks.read_key_set(f"{address}/{path}")
    with pytest.raises(UnreadableKeys, match="refused"):
        jwks.read_key_set(f"{address}/keys")


async def test_a_provider_that_hangs_holds_one_thread_and_no_login(
    provider: Provider, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr(jwks, "WAIT_FOR_KEY_S", 0.1)
    with provider_over_http(provider) as address:
        keys = KeySet(f"{address}/hangs", refresh_s=1, backoff_s=0.01, max_backoff_s=0.02)
        threads = threading.active_count()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keys.run)
            with trio.fail_after(10):
                while caplog.text.count("no keys within") < 3:
                    await trio.testing.wait_all_tasks_blocked(0.01)
            # The server has a thread of its own for the connection.
            assert threading.active_count() <= threads + 2
            nursery.cancel_scope.cancel()


async def test_keys_of_http_are_used(provider: Provider) -> None:
    with provider_over_http(provider) as address:
        oauth = mechanism(
            {**EXPECTED, f"{OF_MECHANISM}sasl.oauthbearer.jwks.endpoint.url": f"{address}/keys"}
        )
        assert "no key of" in await refusal(oauth, provider.token(key_id="first"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(oauth.run)
            with trio.fail_after(10):
                found: object = None
                while not isinstance(found, Authenticated):
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    found = await outcome(oauth, client_first(provider.token(), {}))
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01x",
        b"n,,auth=Bearer t\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=x=y,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer t t\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01a1=x\x01\x01",
        b"n,,\x01auth=Bearer t\x01a=\x01\x01",
        b"n,,\x01x=y\x01\x01",
        "n,,\x01auth=Bearer ü\x01\x01".encode(),
    ],
)
async def test_messages_that_are_malformed(signed: OAuthBearer, message: bytes) -> None:
    with pytest.raises(BadOAuthMessage):
        parse_oauth_client_first(message)
    shown, reason = await refused(signed, message)
    assert shown == "Invalid OAUTHBEARER client first message"
    assert reason.startswith("a malformed message: ")


def test_messages_are_read_as_they_were_written() -> None:
    written = client_first("a.b.c", {"one": "1", "two": "2 3"}, "x=,y")
    assert parse_oauth_client_first(written) == ("x=,y", "a.b.c", {"one": "1", "two": "2 3"})
    for token, extensions in (("a b", {}), ("a", {"auth": "x"}), ("a", {"a": "\x01"}), ("a", {"": "x"})):
        with pytest.raises(BadOAuthMessage):
            client_first(token, extensions)


def _encoded(header: str, claims: str) -> str:
    parts = (base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in (header, claims))
    return ".".join([*parts, "YQ"])
