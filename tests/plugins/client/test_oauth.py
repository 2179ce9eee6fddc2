"""Clients with access tokens: where these are from, when they are read again, and what lets no one in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK, free_ports
from tests.plugins.client.token_endpoint import CLIENT, SECRET, TokenEndpoint, running_endpoint
from tests.plugins.sasl.identity_provider import AUDIENCE, ISSUER, Provider
from tests.tables import for_each
from tidelog.client import Admin, AsyncAdmin, Consumer, OAuthSettings, Producer, TopicPartition
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, ClientSettings
from tidelog.plugins.client.errors import AuthenticationRefused
from tidelog.plugins.client.oauth import AccessTokens, NoAccessToken
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client.security_keys import security_of_keys

URL = "sasl.oauthbearer.token.endpoint.url"
OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def endpoint() -> Generator[TokenEndpoint]:
    """An identity provider."""
    with running_endpoint(Provider()) as running:
        yield running


@pytest.fixture
def fresh(endpoint: TokenEndpoint) -> TokenEndpoint:
    """The identity provider, with nothing wrong and nothing asked."""
    endpoint.reset()
    return endpoint


@attrs.frozen
class OAuthBroker:
    """A broker that takes tokens of the provider."""

    name: str
    bootstrap: str


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def broker(
    request: pytest.FixtureRequest, endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> Generator[OAuthBroker]:
    """Each broker, whose sessions end with their tokens."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": endpoint.provider.write(folder / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connections.max.reauth.ms": "3000",
        "listener.security.protocol.map": "USERS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    if request.param == "tidelog":
        with broker_in_thread({**settings, "listeners": f"USERS://{LOOPBACK}:0"}) as running:
            yield OAuthBroker("tidelog", running.bootstrap)
        return
    plain, users, controller = free_ports(3)
    addresses = f"PLAINTEXT://{LOOPBACK}:{plain},USERS://{LOOPBACK}:{users}"
    settings |= {
        "listeners": f"{addresses},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.name.users.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "listener.name.users.oauthbearer.sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
    }
    url = settings["sasl.oauthbearer.jwks.endpoint.url"]
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"{allowed} -Dorg.apache.kafka.sasl.oauthbearer.allowed.files=/")
        with running_kafka(folder / "kafka", settings=settings, port=plain):
            patch.undo()
            yield OAuthBroker("kafka", f"{LOOPBACK}:{users}")


def oauth(endpoint: TokenEndpoint, **more: Any) -> OAuthSettings:
    """Settings for tokens of the provider; each has a scope of its own, so that none is known already."""
    given: dict[str, Any] = {"client_id": CLIENT, "client_secret": SECRET, "scope": str(time.monotonic_ns())}
    return OAuthSettings(token_endpoint_url=endpoint.url, **{**given, **more})


def options(settings: OAuthSettings) -> dict[str, Any]:
    """Options of a client that has such tokens."""
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth": settings}


def test_clients_of_every_driver_log_in_with_one_token(broker: OAuthBroker, fresh: TokenEndpoint) -> None:
    secured = options(oauth(fresh))
    with Producer(broker.bootstrap, **secured) as producer:
        producer.send_and_wait("of-oauth", b"x")
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", **secured) as consumer:
        consumer.assign([TopicPartition("of-oauth", 0)])
        assert next(iter(consumer)).value == b"x"
    settings = ClientSettings(security=SecuritySettings(**secured))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        assert client.metadata().brokers

    async def with_admin() -> None:
        async with AsyncAdmin(broker.bootstrap, **secured) as admin:
            assert "of-oauth" in await admin.list_topics()

    trio.run(with_admin)
    asyncio.run(with_admin())
    assert [each["grant_type"] for each in fresh.asked] == ["client_credentials"]


def test_a_login_is_renewed_before_it_ends(broker: OAuthBroker, fresh: TokenEndpoint) -> None:
    clock = [0.0]
    settings = ClientSettings(security=SecuritySettings(**options(oauth(fresh))))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        client.metadata()
        engine = vars(client)["_engine"]
        started = engine.clock()
        engine.clock = lambda: started + clock[0]
        (before,) = [each for each in vars(engine)["_channels"][""].values() if each.is_open]
        clock[0] = 2.9
        client.metadata()
        assert before.is_released


def test_the_keys_of_kafkas_clients_log_in(broker: OAuthBroker, fresh: TokenEndpoint, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(fresh.provider.token() + "\n")
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    line = (
        f'OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{SECRET}" scope="{broker.name}";'
    )
    for keys in (
        {URL: f"file://{tmp_path}/token"},
        {URL: fresh.url, "sasl.jaas.config": line},
        {
            URL: fresh.url,
            "sasl.oauthbearer.client.credentials.client.id": CLIENT,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "sasl.login.read.timeout.ms": "5000",
        },
    ):
        settings = ClientSettings(security=security_of_keys({**common, **keys}))
        with BlockingClient(broker.bootstrap, settings=settings) as client:
            assert client.metadata().brokers
    assert fresh.asked[0]["scope"] == broker.name


def test_a_token_that_is_not_taken_is_read_again_by_the_next_connection(
    broker: OAuthBroker, fresh: TokenEndpoint
) -> None:
    given = [Provider().token(), fresh.provider.token()]
    secured = options(OAuthSettings(token_provider=lambda: given.pop(0)))
    with Admin(broker.bootstrap, **secured) as admin:
        with pytest.raises(AuthenticationRefused) as refused:
            admin.list_topics()
        assert "invalid_token" in str(refused.value)
        admin.list_topics()


@for_each(
    ("trouble", "may_pass", "reason"),
    [
        (lambda it: setattr(it, "failures", [401]), False, "answers 401 Unauthorized"),
        (lambda it: setattr(it, "failures", [302]), False, "answers 302 Found"),
        (lambda it: setattr(it, "failures", [500] * 99), True, "answers 500 Internal Server Error"),
        (lambda it: setattr(it, "answer", b"[" * 9999), False, "without an access_token"),
        (lambda it: setattr(it, "answer", b'{"access_token":"a b"}'), False, "other characters"),
        (lambda it: setattr(it, "answer", b'{"access_token":"a"}'), False, "claim exp"),
        (lambda it: setattr(it, "answer", b"x" * (2**20 + 1)), True, "more than 1048576 bytes"),
        (lambda it: setattr(it, "claims", {"exp": 1}), False, "has expired"),
    ],
)
def test_what_is_no_token_is_refused_with_the_reason(
    fresh: TokenEndpoint, trouble: Callable[[TokenEndpoint], None], may_pass: bool, reason: str
) -> None:
    fresh.reset()
    trouble(fresh)
    tokens = AccessTokens(oauth(fresh, retry_backoff_max_s=0.0))
    with pytest.raises(NoAccessToken, match=reason) as raised:
        tokens.refresh()
    assert raised.value.may_pass is may_pass
    assert not tokens.is_fresh
    assert SECRET not in str(raised.value)


def test_a_provider_that_refuses_the_client_ends_its_operations_at_once(fresh: TokenEndpoint) -> None:
    secured = options(oauth(fresh, client_secret="wrong"))
    with Admin("127.0.0.1:1", **secured) as admin, pytest.raises(AuthenticationRefused, match="answers 401"):
        admin.list_topics()


def test_an_error_that_passes_is_tried_again(fresh: TokenEndpoint) -> None:
    fresh.failures = [503, 500]
    tokens = AccessTokens(oauth(fresh, retry_backoff_s=0.001))
    tokens.refresh()
    assert tokens.is_fresh


def test_a_token_is_read_again_before_it_expires_and_used_until_then(fresh: TokenEndpoint) -> None:
    clock = [time.time()]
    settings = oauth(fresh, refresh_window_jitter=0.0, refresh_min_period_s=0.0, refresh_buffer_s=0.0)
    tokens = AccessTokens(settings, lambda: clock[0])
    tokens.refresh()
    clock[0] += 0.7 * 600
    tokens.refresh()
    assert len(fresh.asked) == 1
    clock[0] += 0.15 * 600
    assert not tokens.is_fresh
    fresh.failures = [401]
    tokens.refresh()
    next(tokens.tokens())
    clock[0] += 0.2 * 600
    fresh.failures = [401]
    with pytest.raises(NoAccessToken):
        tokens.refresh()


@for_each(
    ("changes", "reason"),
    [
        ({}, "token_endpoint_url or token_provider"),
        ({"token_endpoint_url": "ftp://x"}, "none of the schemes"),
        ({"token_endpoint_url": "https://x"}, "client_id and client_secret"),
        ({"token_endpoint_url": "file:///x", "token_provider": str}, "no effect with token_provider"),
        ({"token_endpoint_url": "file:///x", "refresh_window_factor": 2.0}, "refresh_window_factor"),
        ({"token_endpoint_url": "file:///x", "extensions": (("auth", "x"),)}, "the extension 'auth'"),
    ],
)
def test_settings_that_give_no_token_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        OAuthSettings(**changes)


@for_each(
    ("keys", "reason"),
    [
        ({}, f"{URL}: OAUTHBEARER needs where"),
        ({URL: "https://x"}, "client_id and client_secret"),
        (
            {URL: "file:///x", "sasl.login.read.timeout.ms": "soon"},
            "sasl.login.read.timeout.ms: 'soon' is no",
        ),
        (
            {URL: "file:///x", "sasl.jaas.config": "ScramLoginModule required;"},
            "needs OAuthBearerLoginModule",
        ),
        ({URL: "file:///x", "sasl.oauthbearer.header.urlencode": "yes"}, "neither true nor false"),
    ],
)
def test_keys_that_give_no_token_are_refused(keys: dict[str, str], reason: str) -> None:
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with pytest.raises(ValueError, match=reason.replace(".", r"\.")):
        security_of_keys({**common, **keys})


def test_secrets_are_in_no_representation(fresh: TokenEndpoint) -> None:
    settings = SecuritySettings(**options(oauth(fresh)))
    assert SECRET not in repr(settings)
    with pytest.raises(ValueError, match="sasl_oauth has no effect"):
        SecuritySettings(sasl_oauth=oauth(fresh))
