"""SaslHandshake and SaslAuthenticate: what is served before, between and after them."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.protocol_kafka.apis.client import Client, framed, joined, versions_of
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.request import SessionState
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.wire import Peer, ProtocolViolation
from tidelog.kernel.testing.broker import new_broker, running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    APIS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.plugins.protocol_kafka.sasl_connection import SaslConnection
from tidelog.plugins.sasl.plain import Plain

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="a" '
    'user_bob="b";',
    "socket.request.max.bytes": 1_000_000,
}
PEER = Peer("127.0.0.1", 4711, "SASL_PLAINTEXT")
ALICE, BOB = b"\0alice\0a", b"\0bob\0b"
TOO_EARLY = (
    "came before the client was authenticated with SASL; "
    "set security.protocol and sasl.mechanism in the client"
)
REFUSED = "Authentication failed: Invalid username or password"


class SaslClient(Client):
    """A connection to a listener with SASL."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, PEER)
        authentication = broker.authentication_of(PEER.listener_name)
        assert authentication is not None
        self.session = authentication.session(PEER)
        self.sasl = SaslConnection(broker, PEER, self.routes, fetch_sessions=self.fetch_sessions)
        self.sasl.authenticate_by(self.session, authentication.max_token_bytes)
        self.wire = self.sasl

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        step = self.start(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
        answer: SaslHandshakeResponse = await self.finish(SASL_HANDSHAKE, version, step)
        return answer

    async def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        step = self.start(SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))
        answer: SaslAuthenticateResponse = await self.finish(SASL_AUTHENTICATE, version, step)
        return answer

    async def log_in(self, token: bytes = ALICE) -> SaslAuthenticateResponse:
        assert (await self.handshake()).error_code == 0
        return await self.authenticate(token)

    def principal(self) -> Principal:
        """Who a request comes from now."""
        assert self.wire.next_step() is None
        return self.sasl._context.principal  # pyright: ignore[reportPrivateUsage]

    def closes(self) -> str:
        """Why the connection is closed now."""
        with pytest.raises(ProtocolViolation) as raised:
            self.wire.next_step()
        return str(raised.value)


@asynccontextmanager
async def sasl_client(**more: object) -> AsyncGenerator[SaslClient]:
    """A client of a broker with these settings, `_` for `.`."""
    settings = {name.replace("_", "."): value for name, value in more.items()}
    async with running_broker({**SETTINGS, **settings}) as broker:
        yield SaslClient(broker)


@pytest.mark.parametrize("version", versions_of(SASL_AUTHENTICATE))
async def test_sasl_authenticate_lets_a_client_in(version: int) -> None:
    async with sasl_client() as client:
        software = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        for asked in (0, 3):
            versions = await client.ask(API_VERSIONS, asked, software)
            served = {each.api_key for each in versions.api_keys}
            assert {SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key} <= served
        answer = await client.handshake()
        assert (answer.error_code, answer.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
        done = await client.authenticate(ALICE, version)
        assert (done.error_code, done.error_message, done.auth_bytes) == (0, None, b"")
        assert done.session_lifetime_ms == 0
        assert client.principal() == Principal("User", "alice")
        assert (await client.ask(METADATA, 13, MetadataRequest(topics=[]))).brokers


async def test_sasl_handshake_0_is_followed_by_tokens_without_headers() -> None:
    async with sasl_client() as client:
        assert (await client.handshake(version=0)).error_code == 0
        client.receive(struct.pack(">i", len(BOB)) + BOB)
        step = client.wire.next_step()
        assert step is not None
        assert not isinstance(step, list)
        assert joined(await step) == b"\0\0\0\0"
        assert client.principal() == Principal("User", "bob")
        assert (await client.ask(METADATA, 13, MetadataRequest(topics=[]))).brokers


async def test_a_token_without_a_header_that_is_refused_closes_without_an_answer() -> None:
    async with sasl_client() as client:
        await client.handshake(version=0)
        client.receive(struct.pack(">i", 5) + b"\0a\0\0b")
        step = client.wire.next_step()
        assert step is not None
        assert not isinstance(step, list)
        assert await step == []
        assert client.closes() == "authentication with PLAIN failed: a malformed token"


async def test_any_other_request_before_authentication_closes() -> None:
    async with sasl_client() as client:
        for key in sorted(APIS.keys() - {API_VERSIONS.key, SASL_HANDSHAKE.key}):
            for has_chosen in (False, True):
                api, client = APIS[key], SaslClient(client.broker)
                if has_chosen and api is not SASL_AUTHENTICATE:
                    await client.handshake()
                header = struct.pack(">hhihb", key, api.versions.high, 1, 1, ord("t"))
                client.receive(struct.pack(">i", len(header) + 1) + header + b"\0")
                assert client.closes() == f"a {api.name} request {TOO_EARLY}"


async def test_unknown_apis_and_malformed_headers_before_authentication_close() -> None:
    async with sasl_client() as client:
        client.receive(struct.pack(">ihhih", 10, 9999, 0, 1, -1))
        assert client.closes() == f"a request of API key 9999 {TOO_EARLY}"
        client = SaslClient(client.broker)
        client.receive(struct.pack(">ih", 2, 17))
        assert client.closes().startswith("a request header cannot be read")
        client = SaslClient(client.broker)
        await client.handshake()
        client.receive(framed(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")))
        assert client.closes().startswith("a SaslHandshake request came before")


@pytest.mark.parametrize(
    ("token", "message", "reason"),
    [
        (b"\0alice\0x", REFUSED, "wrong password of user 'alice'"),
        (b"\0alice\0aa", REFUSED, "wrong password of user 'alice'"),
        (b"\0carol\0a", REFUSED, "unknown user 'carol'"),
        (b"\0car\nol\0a", REFUSED, r"unknown user 'car\nol'"),
        (b"\0\xff\0a", REFUSED, "user or password is no UTF-8"),
        (b"\0alice\0", "Authentication failed: password not specified", ""),
        (b"\0\0a", "Authentication failed: username not specified", ""),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens", "a malformed token"),
        (b"alice\0a", "Invalid SASL/PLAIN response: expected 3 tokens", "a malformed token"),
        (b"\0alice\0a\0", "Invalid SASL/PLAIN response: expected 3 tokens", "a malformed token"),
        (
            b"bob\0alice\0a",
            "Authentication failed: Client requested an authorization id that is different from username",
            "",
        ),
    ],
)
async def test_sasl_authenticate_refuses(token: bytes, message: str, reason: str) -> None:
    async with sasl_client(connection_failed_authentication_delay_ms=0) as client:
        answer = await client.log_in(token)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == message
        assert answer.auth_bytes == b""
        assert client.closes() == f"authentication with PLAIN failed: {reason or message}"
        assert client.session.state is SessionState.FAILED


async def test_who_authorizes_as_itself_is_let_in() -> None:
    async with sasl_client() as client:
        assert (await client.log_in(b"alice\0alice\0a")).error_code == 0


async def test_a_failure_is_answered_later(autojump_clock: MockClock) -> None:
    async with sasl_client(connection_failed_authentication_delay_ms=700) as client:
        began = trio.current_time()
        await client.log_in()
        assert trio.current_time() == began
        await SaslClient(client.broker).log_in(b"\0alice\0b")
        assert trio.current_time() - began == pytest.approx(0.7)


async def test_a_mechanism_that_raises_lets_no_one_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object) -> bytes:
        raise ZeroDivisionError("a fault of the mechanism")

    async with sasl_client(connection_failed_authentication_delay_ms=0) as client:
        monkeypatch.setattr(Plain, "respond", failing)
        answer = await client.log_in()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        # What went wrong is for the log alone.
        assert "fault" not in (answer.error_message or "")
        with pytest.raises(ProtocolViolation):
            client.principal()
    assert "the SASL mechanism PLAIN failed inside the broker" in caplog.text
    assert "a fault of the mechanism" in caplog.text


async def test_sasl_handshake_names_the_mechanisms_and_closes() -> None:
    async with sasl_client() as client:
        for asked in ("GSSAPI", "plain", "", "PLAIN "):
            client = SaslClient(client.broker)
            answer = await client.handshake(asked)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
            assert client.closes() == (
                f"it asks for the SASL mechanism {asked!r}; sasl.enabled.mechanisms has PLAIN, SCRAM-SHA-256"
            )


async def test_sasl_where_none_is_expected_is_an_illegal_state() -> None:
    async with sasl_client() as client:
        await client.log_in()
        for each in (client, Client(client.broker)):
            for version in versions_of(SASL_HANDSHAKE):
                chosen = await each.ask(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism="PLAIN"))
                assert (chosen.error_code, chosen.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
            for version in versions_of(SASL_AUTHENTICATE):
                answer = await each.ask(SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=BOB))
                assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.principal() == Principal("User", "alice")


async def test_frames_are_small_until_a_client_is_authenticated() -> None:
    async with sasl_client(sasl_server_max_receive_size=2000) as client:
        large = MetadataRequest(topics=None)
        client.receive(struct.pack(">i", 2001))
        assert client.closes() == "a request of 2001 bytes is announced, sasl.server.max.receive.size=2000"
        client = SaslClient(client.broker)
        await client.log_in()
        assert (await client.ask(METADATA, 12, large)).brokers
        client.receive(struct.pack(">i", 500_000))
        assert client.wire.next_step() is None
        client = SaslClient(client.broker)
        await client.log_in()
        client.receive(struct.pack(">i", 1_000_001))
        assert client.closes() == "a request of 1000001 bytes is announced, socket.request.max.bytes=1000000"


async def test_a_session_ends_and_goes_on_as_the_same_user_alone(autojump_clock: MockClock) -> None:
    settings = {"connections_max_reauth_ms": 10_000, "connection_failed_authentication_delay_ms": 0}
    async with sasl_client(**settings) as client:
        assert (await client.log_in()).session_lifetime_ms == 10_000
        await trio.sleep(9)
        assert (await client.log_in()).session_lifetime_ms == 10_000
        # At most once a second.
        assert (await client.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
        await trio.sleep(9)
        assert (await client.ask(METADATA, 13, MetadataRequest(topics=[]))).brokers
        await trio.sleep(2)
        client.receive(framed(METADATA, 13, MetadataRequest(topics=[])))
        assert client.closes() == (
            "its session has ended, and a Metadata request came (connections.max.reauth.ms)"
        )
        # What has expired may still be renewed.
        client = SaslClient(client.broker)
        await client.log_in()
        await trio.sleep(11)
        answer = await client.log_in(BOB)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User:alice to User:bob"
        )
        assert "failed: Cannot change principals" in client.closes()
        client = SaslClient(client.broker)
        await client.log_in()
        await trio.sleep(1)
        assert (await client.handshake("SCRAM-SHA-256")).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert client.closes() == "it changes the SASL mechanism from PLAIN to SCRAM-SHA-256"


async def test_a_session_has_its_end_by_mechanism_and_listener() -> None:
    settings = {
        "connections.max.reauth.ms": 1,
        "listener.name.sasl_plaintext.connections.max.reauth.ms": 5_000,
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": 7_000,
    }
    async with running_broker({**SETTINGS, **settings}) as broker:
        assert (await SaslClient(broker).log_in()).session_lifetime_ms == 7_000
        authentication = broker.authentication_of("SASL_PLAINTEXT")
        assert authentication is not None
        assert authentication.max_session_ms["SCRAM-SHA-256"] == 5_000


async def test_within_reauthentication_nothing_else_is_served(autojump_clock: MockClock) -> None:
    async with sasl_client(connections_max_reauth_ms=10_000) as client:
        await client.log_in()
        await trio.sleep(2)
        await client.handshake()
        client.receive(framed(METADATA, 13, MetadataRequest(topics=[])))
        assert "a Metadata request came before" in client.closes()


@pytest.mark.parametrize("authenticates", [True, False])
async def test_a_client_has_30_seconds_to_authenticate(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, *, authenticates: bool
) -> None:
    async with running_broker(SETTINGS) as broker:
        host, _, port = broker.listeners["SASL_PLAINTEXT"].rpartition(":")
        began = trio.current_time()
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            if authenticates:
                await stream.send_all(
                    framed(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
                    + framed(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=ALICE))
                )
            with trio.move_on_after(100):
                while await stream.receive_some():
                    pass
            waited = trio.current_time() - began
        if authenticates:
            assert waited >= 100
        else:
            assert 30 <= waited < 35
            assert "it did not authenticate within 30 s" in caplog.text


def test_listeners_need_mechanisms_that_are_there() -> None:
    for enabled, problem in (
        ("", "sasl.enabled.mechanisms is empty"),
        ("GSSPI", "There is no SASL mechanism named 'GSSPI'"),
    ):
        broker = new_broker({**SETTINGS, "sasl.enabled.mechanisms": enabled})
        with pytest.raises(ConfigError, match=problem):
            broker.server.bind()
        broker.server.close_listeners()


def test_tokens_are_in_no_representation() -> None:
    assert "secret" not in repr(SaslAuthenticateRequest(auth_bytes=b"secret"))
    assert ANONYMOUS.name in repr(ANONYMOUS)
