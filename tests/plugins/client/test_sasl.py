"""Clients that log in, with each driver, at tidelog and at Apache Kafka; what is refused, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest
import trio

from tests.plugins.client.fakes import ALL_VERSIONS, FakeBroker, drain, split_frames
from tests.secured_brokers import PASSWORD, USER, SecuredBroker, jaas, secured_kafka, secured_tidelog
from tidelog.client import Admin, AsyncAdmin, Consumer, Producer, TopicPartition
from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.plugins.client import BlockingClient, ClientSettings, TrioClient
from tidelog.plugins.client.connection import ClientConnection
from tidelog.plugins.client.errors import AuthenticationRefused, SaslRefused, UnsupportedByBroker
from tidelog.plugins.client.sasl import SaslLogin, plain_tokens, scram_tokens
from tidelog.plugins.client.security import SecuritySettings
from tidelog.plugins.client.security_keys import security_of_keys
from tidelog.plugins.credentials import scram
from tidelog.plugins.protocol_kafka.messages.api import SASL_HANDSHAKE
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeResponse

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[SecuredBroker]:
    """Each broker, with sessions of three seconds."""
    run = secured_tidelog if request.param == "tidelog" else secured_kafka
    with run(tmp_path_factory.mktemp(request.param), connections_max_reauth_ms="3000") as running:
        yield running


def options(broker: SecuredBroker, mechanism: str = "SCRAM-SHA-512", **more: Any) -> dict[str, Any]:
    """Options of a client that get it in."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": broker.keys()["ssl.truststore.location"],
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": "p" if mechanism == "PLAIN" else PASSWORD,
        **more,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_threads_log_in(broker: SecuredBroker, mechanism: str) -> None:
    secured = options(broker, mechanism)
    with Producer(broker.bootstrap, **secured) as producer:
        producer.send_and_wait(f"of-{mechanism}", b"x")
    with Consumer(broker.bootstrap, auto_offset_reset="earliest", **secured) as consumer:
        consumer.assign([TopicPartition(f"of-{mechanism}", 0)])
        assert next(iter(consumer)).value == b"x"


def test_clients_of_every_driver_log_in(broker: SecuredBroker) -> None:
    settings = ClientSettings(security=SecuritySettings(**options(broker)))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        assert client.metadata().brokers

    async def with_trio() -> None:
        async with TrioClient(broker.bootstrap, settings=settings) as client:
            assert (await client.metadata()).brokers

    async def with_asyncio() -> None:
        async with AsyncAdmin(broker.bootstrap, **options(broker)) as admin:
            await admin.list_topics()

    trio.run(with_trio)
    asyncio.run(with_asyncio())


def test_the_keys_of_kafkas_clients_log_in(broker: SecuredBroker) -> None:
    settings = ClientSettings(security=security_of_keys(broker.keys()))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        assert client.metadata().brokers


def test_a_connection_is_replaced_before_its_session_ends(broker: SecuredBroker) -> None:
    clock = [0.0]
    settings = ClientSettings(security=SecuritySettings(**options(broker)))
    with BlockingClient(broker.bootstrap, settings=settings) as client:
        client.metadata()
        engine = vars(client)["_engine"]
        started = engine.clock()
        engine.clock = lambda: started + clock[0]
        channels = vars(engine)["_channels"][""]
        (before,) = [each for each in channels.values() if each.is_open]
        client.metadata()
        assert [each for each in channels.values() if each.is_open] == [before]
        clock[0] = 2.9
        client.metadata()
        assert before.is_released
        assert before not in channels.values()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sasl_plain_password": "wrong"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ({"sasl_plain_username": "nobody"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_plain_password": "wrong"},
            "Authentication failed: Invalid username or password",
        ),
    ],
)
def test_a_login_that_is_refused_fails_at_once_with_the_brokers_words(
    broker: SecuredBroker, changes: dict[str, Any], reason: str
) -> None:
    with (
        Admin(f"{broker.bootstrap},127.0.0.1:1", **options(broker, **changes)) as admin,
        pytest.raises(AuthenticationRefused, match=reason) as refused,
    ):
        admin.list_topics()
    assert "wrong" not in str(refused.value)


def test_a_listener_without_sasl_is_named(broker: SecuredBroker) -> None:
    secured = options(broker, security_protocol="SASL_PLAINTEXT", ssl_cafile=None)
    with (
        Admin(broker.plain, **secured) as admin,
        pytest.raises(
            AuthenticationRefused, match="its listener has no SASL: use the security protocol PLAINTEXT"
        ),
    ):
        admin.list_topics()


PLAIN = SaslLogin("PLAIN", lambda: plain_tokens("a", "secret"))


def test_tokens_have_no_headers_after_a_handshake_of_version_0() -> None:
    connection = ClientConnection("b:1", login=PLAIN)
    ranges = {**ALL_VERSIONS, SASL_HANDSHAKE.key: (0, 0)}
    versions = FakeBroker(ranges=ranges).receive(drain(connection))
    connection.receive_data(versions)
    assert connection.next_response() is None
    accepted = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
    connection.receive_data(FakeBroker({"SaslHandshake": accepted}, ranges).receive(drain(connection)))
    assert connection.next_response() is None
    assert list(split_frames(drain(connection))) == [b"\0a\0secret"]
    assert not connection.ready
    connection.receive_data(bytes(4))
    assert connection.next_response() is None
    assert connection.ready


def test_a_broker_without_the_handshake_is_not_asked_further() -> None:
    connection = ClientConnection("b:1", login=PLAIN)
    ranges = {key: found for key, found in ALL_VERSIONS.items() if key != SASL_HANDSHAKE.key}
    connection.receive_data(FakeBroker(ranges=ranges).receive(drain(connection)))
    with pytest.raises(UnsupportedByBroker, match="SaslHandshake"):
        connection.next_response()


def exchanged(answers: list[Callable[[str], str]], password: str = "secret") -> None:
    """Have a client of SCRAM-SHA-256 get these answers, made of its last token."""
    tokens = scram_tokens(ScramMechanism.SCRAM_SHA_256, "a", password)
    token = next(tokens)
    try:
        for answer in answers:
            token = tokens.send(answer(token.decode()).encode())
    except StopIteration:
        return
    raise AssertionError("the client waits for another answer")


def first(token: str, nonce: str = "", iterations: int = 4096) -> str:
    """The first answer of a broker."""
    own = token.partition(",r=")[2]
    return f"r={nonce or own + 'x'},s={scram.encoded(b'salt')},i={iterations}"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([lambda token: first(token, nonce="other")], "nonce does not continue"),
        ([lambda token: first(token, nonce=token.partition(",r=")[2])], "nonce does not continue"),
        ([lambda token: first(token, iterations=100)], "asks for 100 iterations"),
        ([lambda token: first(token, iterations=2**31)], "asks for 2147483648 iterations"),
        ([lambda _token: "nonsense"], "malformed"),
        ([first, lambda _token: "v=AAAA"], "has not proven that it knows this user"),
        ([first, lambda _token: "e=other-error"], "other-error"),
    ],
)
def test_a_broker_that_does_not_know_the_user_is_refused(
    answers: list[Callable[[str], str]], reason: str
) -> None:
    with pytest.raises(SaslRefused, match=reason):
        exchanged(answers)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism has no effect with security_protocol='PLAINTEXT'"),
        ({"security_protocol": "SASL_SSL"}, "set one of 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "needs a user and a password"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas()},
            "PLAIN needs PlainLoginModule",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "secret"},
            "sasl_jaas_config is not of the form",
        ),
    ],
)
def test_settings_of_a_login_that_cannot_be_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        Admin("127.0.0.1:1", **settings)
    assert "secret" not in str(refused.value)


def test_no_password_is_in_a_representation() -> None:
    settings = SecuritySettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="a",
        sasl_plain_password="secret",
    )
    assert "secret" not in repr(settings)
    assert "secret" not in repr(ClientSettings(security=settings))
