"""Clients that an identity provider knows by what they have signed, and whose authority they name."""

from __future__ import annotations

import ssl
import time
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.peers import find_kafka
from tests.plugins.client.token_endpoint import CLIENT, SECRET, TokenEndpoint, running_endpoint
from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider
from tests.tables import for_each
from tests.tls_certificates import broker_entry, ca_file
from tidelog.client import OAuthAssertion, OAuthSettings
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.oauth import JWT_BEARER, AccessTokens, NoAccessToken
from tidelog.plugins.client.oauth_keys import oauth_of_keys
from tidelog.plugins.client.security_keys import security_of_keys
from tidelog.plugins.keystores.contexts import load_key

URL = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
HANDLER = "sasl.login.callback.handler.class"
ASSERTION = "sasl.oauthbearer.assertion."
CREDENTIALS = "sasl.oauthbearer.client.credentials.client."
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PASSPHRASE = "a passphrase"


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """The client's key for RS256."""
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    """The client's key for ES256."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of the client, and the authority of the provider's certificate."""
    made = tmp_path_factory.mktemp("assertions")
    ca_file(made)
    none, passphrase = (
        serialization.NoEncryption(),
        serialization.BestAvailableEncryption(PASSPHRASE.encode()),
    )
    for name, key, encryption in (
        ("rsa", rsa_key(), none),
        ("ec", ec_key(), none),
        ("encrypted", rsa_key(), passphrase),
    ):
        (made / f"{name}.pem").write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
    (made / "template.json").write_text(
        '{"header": {"kid": "k", "alg": "none"}, "payload": {"sub": "t", "x": 1}}'
    )
    (made / "none.json").write_text("[]")
    return made


@pytest.fixture(scope="module")
def endpoint(folder: Path) -> Generator[TokenEndpoint]:
    """An identity provider with TLS, which knows the client by both keys."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key(context, broker_entry("id"))
    with running_endpoint(Provider(), context) as running:
        running.client_keys = {"RS256": rsa_key().public_key(), "ES256": ec_key().public_key()}
        yield running


@pytest.fixture
def fresh(endpoint: TokenEndpoint) -> TokenEndpoint:
    """The identity provider, of which nothing was asked."""
    endpoint.reset()
    return endpoint


def keys(endpoint: TokenEndpoint, folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Kafka's keys; the line of JAAS names the authority, and `{}` in values is the folder."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": (
            f"{PACKAGE}.OAuthBearerLoginModule required ssl.truststore.type=PEM "
            f'ssl.truststore.location="{folder}/ca-tests.pem";'
        ),
        HANDLER: f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        URL: endpoint.url,
        f"{ASSERTION}claim.aud": endpoint.url,
        **{name: value.replace("{}", str(folder)) for name, value in more.items()},
    }


BEARER = {RETRIEVER: f"{PACKAGE}.JwtBearerJwtRetriever"}
OF_RSA = {f"{ASSERTION}private.key.file": "{}/rsa.pem"}
OF_EC = {f"{ASSERTION}private.key.file": "{}/ec.pem", f"{ASSERTION}algorithm": "ES256"}
OF_ENCRYPTED = {
    f"{ASSERTION}private.key.file": "{}/encrypted.pem",
    f"{ASSERTION}private.key.passphrase": PASSPHRASE,
}
CLAIMS = {f"{ASSERTION}claim.iss": "app", f"{ASSERTION}claim.sub": "alice"}
TIMES = {f"{ASSERTION}claim.exp.seconds": "30", f"{ASSERTION}claim.nbf.seconds": "10"}
TEMPLATE = {f"{ASSERTION}template.file": "{}/template.json", f"{ASSERTION}claim.jti.include": "true"}
GRANTS = [
    {**BEARER, **OF_RSA, **CLAIMS, "sasl.oauthbearer.scope": "a b"},
    {**BEARER, **OF_EC, **TIMES, f"{CREDENTIALS}id": CLIENT},
    {**BEARER, **OF_ENCRYPTED, **CLAIMS, **TEMPLATE},
    {**OF_RSA, **CLAIMS},
    {**OF_EC, **CLAIMS, f"{CREDENTIALS}id": CLIENT, f"{CREDENTIALS}secret": SECRET},
]


def parts(form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
    """The form without its assertion, and what is in that: header and claims, without times and ids."""
    rest = dict(form)
    (name,) = (each for each in rest if each in ("assertion", "client_assertion"))
    text = rest.pop(name)
    claims = jwt.decode(text, options={"verify_signature": False})
    periods = {"lifetime": claims["exp"] - claims["iat"], "before": claims["iat"] - claims["nbf"]}
    others = {each: value for each, value in claims.items() if each not in ("exp", "iat", "nbf", "jti")}
    return (
        {**rest, "form": name},
        jwt.get_unverified_header(text),
        {**others, **periods, "jti": "jti" in claims},
    )


def asked(endpoint: TokenEndpoint, values: Mapping[str, str]) -> dict[str, str]:
    """The form by which such keys have a token requested."""
    endpoint.reset()
    AccessTokens(oauth_of_keys(values)).refresh()
    (form,) = endpoint.asked
    return form


def test_the_forms_and_assertions_of_each_grant(fresh: TokenEndpoint, folder: Path) -> None:
    found = [parts(asked(fresh, keys(fresh, folder, more))) for more in GRANTS]
    bearer, usual = (
        {"grant_type": JWT_BEARER, "form": "assertion"},
        {"lifetime": 300, "before": 60, "jti": False},
    )
    client = {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "form": "client_assertion",
    }
    rs256, es256 = {"alg": "RS256", "typ": "JWT"}, {"alg": "ES256", "typ": "JWT"}
    claims = {"aud": fresh.url, "iss": "app", "sub": "alice"}
    assert found == [
        ({**bearer, "scope": "a b"}, rs256, {**claims, **usual}),
        (bearer, es256, {"aud": fresh.url, "lifetime": 30, "before": 10, "jti": False}),
        (bearer, {**rs256, "kid": "k"}, {**claims, **usual, "sub": "t", "x": 1, "jti": True}),
        (client, rs256, {**claims, **usual}),
        ({**client, "client_id": CLIENT}, es256, {**claims, **usual}),
    ]


def test_an_assertion_that_is_made_already_is_read_again(fresh: TokenEndpoint, folder: Path) -> None:
    file, now = folder / "assertion", int(time.time())
    made = [jwt.encode({"aud": fresh.url, "exp": now + each}, rsa_key(), "RS256") for each in (100, 200)]
    for text in made:
        file.write_text(f"{text}\n")
        values = keys(fresh, folder, {f"{ASSERTION}file": "{}/assertion", **CLAIMS})
        assert asked(fresh, values)["client_assertion"] == text


@for_each(
    ("more", "reason"),
    [
        (
            {**OF_RSA, f"{ASSERTION}private.key.file": "{}/none"},
            "no assertion: .*/none cannot be read: No such",
        ),
        ({**OF_RSA, f"{ASSERTION}private.key.file": "{}/ca-tests.pem"}, "ca-tests.pem has no private key"),
        ({**OF_ENCRYPTED, f"{ASSERTION}private.key.passphrase": "wrong"}, "encrypted.pem has no private key"),
        ({**OF_EC, f"{ASSERTION}algorithm": "RS256"}, "ec.pem has a private key that is not for RS256"),
        ({**OF_RSA, f"{ASSERTION}algorithm": "ES256"}, "rsa.pem has a private key that is not for ES256"),
        ({**OF_RSA, f"{ASSERTION}template.file": "{}/none.json"}, "none.json is not of the form"),
        ({f"{ASSERTION}file": "{}/none.json"}, "none.json has no assertion"),
        ({**OF_RSA, f"{ASSERTION}claim.aud": "another"}, "answers 401"),
    ],
)
def test_without_an_assertion_there_is_no_token(
    endpoint: TokenEndpoint, folder: Path, more: Mapping[str, str], reason: str
) -> None:
    tokens = AccessTokens(oauth_of_keys(keys(endpoint, folder, {**BEARER, **more})))
    with pytest.raises(NoAccessToken, match=reason) as raised:
        tokens.refresh()
    assert not raised.value.may_pass
    assert PASSPHRASE not in str(raised.value)


@for_each(
    ("line", "reason"),
    [
        (None, "the certificate of .* is refused: "),
        (
            "ssl.truststore.type=PEM ssl.truststore.location=/no/such",
            "the stores for https://localhost.*: /no/such cannot be read",
        ),
        ("ssl.enabled.protocols=TLSv1.2", "the certificate of .* is refused: "),
    ],
)
def test_a_provider_that_is_not_trusted_gets_nothing(
    endpoint: TokenEndpoint, folder: Path, line: str | None, reason: str
) -> None:
    values = keys(endpoint, folder, {f"{CREDENTIALS}id": CLIENT, f"{CREDENTIALS}secret": SECRET})
    del values[f"{ASSERTION}claim.aud"]
    endpoint.reset()
    AccessTokens(oauth_of_keys(values)).refresh()
    assert len(endpoint.asked) == 1
    changed = f"OAuthBearerLoginModule required {line or ''};"
    with pytest.raises(NoAccessToken, match=reason) as raised:
        AccessTokens(oauth_of_keys({**values, "sasl.jaas.config": changed})).refresh()
    assert not raised.value.may_pass
    assert len(endpoint.asked) == 1


@for_each(
    ("more", "reason"),
    [
        (BEARER, "JwtBearerJwtRetriever needs sasl.oauthbearer.assertion.private.key.file or"),
        ({**BEARER, **OF_RSA, f"{ASSERTION}algorithm": "HS256"}, "assertion: .*algorithm"),
        ({**BEARER, **OF_RSA, f"{ASSERTION}claim.exp.seconds": "86401"}, "assertion: .*lifetime_s"),
        ({**BEARER, **OF_RSA, f"{ASSERTION}claim.jti.include": "yes"}, "'yes' is neither true nor false"),
        ({**BEARER, **OF_RSA, URL: "file:///x"}, "JwtBearerJwtRetriever needs another .*: https://"),
        ({RETRIEVER: "FileJwtRetriever"}, "FileJwtRetriever needs another .*: file://"),
        ({HANDLER: "x.Y"}, "Y is not OAuthBearerLoginCallbackHandler"),
        ({RETRIEVER: "x.Y"}, "Y is none of DefaultJwtRetriever"),
        (OF_RSA, "has no effect without sasl.oauthbearer.assertion.file or"),
        ({f"{ASSERTION}claim.iss": "x"}, "assertion: an assertion needs private_key_file, or file"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    endpoint: TokenEndpoint, folder: Path, more: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        oauth_of_keys(keys(endpoint, folder, more))


@for_each(
    ("changes", "reason"),
    [
        ({"grant": JWT_BEARER}, "needs an assertion"),
        ({"grant": "password"}, "grant"),
        ({"assertion": OAuthAssertion(file="/x"), "client_secret": "s"}, "client_secret has no effect"),
        ({"assertion": OAuthAssertion(file="/x"), "grant": JWT_BEARER, "client_id": "a"}, "client_id has no"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        OAuthSettings(token_endpoint_url="https://id.example/token", **changes)


def test_a_passphrase_is_in_no_representation() -> None:
    assertion = OAuthAssertion(private_key_file="/x", private_key_passphrase=PASSPHRASE)
    settings = OAuthSettings(token_endpoint_url="https://id.example/token", assertion=assertion)
    assert PASSPHRASE not in repr(settings)


@pytest.mark.long
def test_kafkas_client_asks_with_the_same_forms_and_assertions(
    endpoint: TokenEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = find_kafka()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url}"
    names = ",".join(f"{folder}/{name}" for name in ("rsa.pem", "ec.pem", "template.json"))
    files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={names}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed} {files}")
    settings = {
        "listeners": "USERS://127.0.0.1:0",
        "listener.security.protocol.map": "USERS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": endpoint.provider.write(folder / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with broker_in_thread(settings) as broker:
        for more in ({**BEARER, **OF_RSA, **CLAIMS, **TEMPLATE, "sasl.oauthbearer.scope": "a b"}, GRANTS[4]):
            values = keys(endpoint, folder, more)
            own = parts(asked(endpoint, values))
            with BlockingClient(
                broker.bootstrap, settings=ClientSettings(security=security_of_keys(values))
            ) as client:
                assert client.metadata().brokers
            file = folder / "client.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            endpoint.reset()
            ended = kafka.run_tool(
                "org.apache.kafka.tools.TopicCommand",
                ["--bootstrap-server", broker.bootstrap, "--command-config", str(file), "--list"],
                stdin="",
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert parts(endpoint.asked[0]) == own
