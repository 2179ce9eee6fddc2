"""Users and passwords by HTTP's Basic authentication, where the listener has SASL."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator

import pytest
import trio
import trio.testing

from tests.plugins.protocol_http.http_client import BROKER, PEER, HttpClient
from tests.tables import for_each
from tidelog.kernel import Broker
from tidelog.kernel.request.authentication import SaslSession
from tidelog.kernel.seams.wire import ConnectionFinished, Peer
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_http.plugin import HttpCodec

SETTINGS = {
    **BROKER,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.http.plain.sasl.jaas.config": 'PlainLoginModule required user_ada="a:b" user_bob="é";',
    "authorizer.class.name": "standard",
    "super.users": "User:ada",
}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ADA, BOB = basic("ada", "a:b"), basic("bob", "é")


@pytest.fixture
async def guarded() -> AsyncGenerator[Broker]:
    async with running_broker(SETTINGS) as broker:
        yield broker


async def test_each_request_is_of_the_principal_of_its_credentials(guarded: Broker) -> None:
    http = HttpClient(guarded)
    assert HttpCodec().awaits_authentication(http.connection)
    assert (await http.send("GET", "/health")).status == 200
    assert HttpCodec().awaits_authentication(http.connection)
    answer = await http.send("POST", "/topics", {"topic_name": "t"}, Authorization=ADA)
    assert answer.status == 201
    assert not HttpCodec().awaits_authentication(http.connection)
    assert await http.get("/topics", Authorization=BOB) == []
    assert await http.get("/topics", Authorization=ADA) == ["t"]
    answer = await http.send("GET", "/topics/t", Authorization=BOB)
    assert (answer.status, answer.json["error_code"]) == (403, 40301)


@for_each(
    "credentials",
    [
        "",
        "Bearer x",
        "Basic",
        "Basic ?",
        basic("ada", "wrong"),
        basic("ada", ""),
        basic("eve", "a:b"),
        basic("ada\0ada", "a:b"),
        "Basic " + base64.b64encode(b"ada").decode(),
        basic("ada", "x" * 20_000),
    ],
)
async def test_wrong_credentials_are_refused_and_end_the_connection(
    guarded: Broker, credentials: str
) -> None:
    http = HttpClient(guarded)
    await http.get("/topics", Authorization=BOB)
    answer = await http.send("GET", "/topics", Authorization=credentials)
    assert (answer.status, answer.json["error_code"]) == (401, 40101)
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert isinstance(http.driver.ended, ConnectionFinished)


async def test_a_session_that_has_ended_is_proven_again(
    guarded: Broker, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    authentication = guarded.authentication_of(PEER.listener_name)
    assert authentication is not None
    authentication.max_session_ms = {"PLAIN": 5_000, "SCRAM-SHA-256": 0}
    http = HttpClient(guarded)
    await http.get("/topics", Authorization=BOB)
    started = authentication.session
    sessions: list[Peer] = []

    def session(peer: Peer) -> SaslSession:
        sessions.append(peer)
        return started(peer)

    monkeypatch.setattr(authentication, "session", session)
    await http.get("/topics", Authorization=BOB)
    assert not sessions
    await trio.sleep(6)
    await http.get("/topics", Authorization=BOB)
    assert len(sessions) == 1


async def test_a_listener_without_the_mechanism_plain_lets_no_one_in() -> None:
    settings = {**SETTINGS, "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    del settings["listener.name.http.plain.sasl.jaas.config"]
    async with running_broker(settings) as broker:
        answer = await HttpClient(broker).send("GET", "/topics", Authorization=ADA)
        assert (answer.status, "PLAIN" in answer.json["message"]) == (401, True)
