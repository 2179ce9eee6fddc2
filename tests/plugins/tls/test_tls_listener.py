"""Listeners with TLS: who gets in, as whom, and how each of the others ends."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.kernel.network.line_protocol import RunningServer, running_server_over
from tests.plugins.tls.raw_records import RawRecords
from tests.tls_certificates import authority, broker_entry, client_context, client_entry, hello, tls_settings
from tidelog.kernel.config import Config
from tidelog.kernel.config.key import declared_keys
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.transport import ListenerTransport
from tidelog.plugins.keystores.stores import certificates_pem
from tidelog.plugins.tls import keys, listener
from tidelog.plugins.tls.listener import TlsListener
from tidelog.plugins.tls.transport import PIECE_BYTES, RECORDS_AT_ONCE, TlsTransport

BIG = 3_000_000
THREADS_END_S = 0.06
"""A clock that jumps knows nothing of the threads of handshakes, which a busy machine lets wait."""


class Backend:
    """TLS of a server that has no plugins."""

    name = "SSL"

    def __init__(self, settings: dict[str, str]) -> None:
        self.config = Config.from_mapping({"storage": "memory", **settings}, declared_keys(keys))
        self.created: list[TlsListener] = []

    def create(self, config: Config, listener: str) -> ListenerTransport:
        """The TLS of a listener."""
        self.created.append(TlsListener(self.config, listener))
        return self.created[-1]


@asynccontextmanager
async def tls_server(folder: Path, **more: str) -> AsyncGenerator[RunningServer]:
    """A server of the protocol of lines with TLS on its one listener."""
    async with running_server_over(Backend(tls_settings(folder, None, **more))) as server:
        yield server


async def connect(
    server: RunningServer, context: ssl.SSLContext, host: str = "localhost"
) -> trio.SSLStream[trio.SocketStream]:
    """A client's connection, after its handshake."""
    stream = trio.SSLStream(await server.connect(), context, server_hostname=host, https_compatible=True)
    with trio.fail_after(5):
        await stream.do_handshake()
    return stream


async def ask(stream: trio.SSLStream[trio.SocketStream], request: bytes, size: int) -> bytes:
    """Send, and receive so many bytes."""
    data = bytearray()
    with trio.fail_after(5):
        await stream.send_all(request)
        while len(data) < size:
            some = await stream.receive_some(65536)
            assert some, "the connection has ended"
            data += some
    return bytes(data)


def peer_of(server: RunningServer) -> Principal:
    """Who the last connection is of."""
    return server.protocol.connections[-1].peer.principal


async def refused(server: RunningServer, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Wait until the log has the reason, and no connection is left."""
    with trio.fail_after(5):
        while reason not in caplog.text or server.connection_count:  # noqa: ASYNC110
            await trio.sleep(0.01)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls_listener_serves_requests_and_files(tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = client_context(tmp_path)
    context.minimum_version = context.maximum_version = version
    async with tls_server(tmp_path) as server:
        client = await connect(server, context)
        for _ in range(2):
            assert await ask(client, b"echo one\necho two\n", 8) == b"one\ntwo\n"
            assert await ask(client, b"big %d\n" % BIG, BIG) == bytes(BIG)
            assert await ask(client, b"file %d\necho tail\n" % BIG, BIG + 5) == bytes(BIG) + b"tail\n"
        assert peer_of(server) == ANONYMOUS


async def test_tls_listener_serves_a_quiet_client_whose_record_is_longer_than_the_buffer(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = THREADS_END_S
    async with tls_server(tmp_path) as server:
        client = await connect(server, client_context(tmp_path))
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        # A buffer of one request: what OpenSSL has decrypted beyond it makes no descriptor readable.
        server.protocol.connections[-1].use_buffer(len(b"echo one\n"))
        for _ in range(3):
            await trio.sleep(2.5)
            assert await ask(client, b"echo one\n" * 5, 20) == b"one\n" * 5
            await trio.sleep(2.5)
            assert await ask(client, b"echo one\n", 4) == b"one\n"


async def test_tls_listener_ends_both_sides_in_order(tmp_path: Path) -> None:
    async with tls_server(tmp_path) as server:
        client = await connect(server, client_context(tmp_path))
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        await server.finish()
        # A clean end (close_notify).
        with trio.fail_after(5):
            assert await client.receive_some() == b""


@pytest.mark.parametrize(
    ("client_auth", "has_certificate", "principal"),
    [
        ("none", True, "ANONYMOUS"),
        ("requested", False, "ANONYMOUS"),
        ("requested", True, "CN=alice,O=Tide"),
        ("required", True, "CN=alice,O=Tide"),
    ],
)
async def test_the_principal_is_that_of_the_certificate(
    tmp_path: Path, client_auth: str, has_certificate: bool, principal: str
) -> None:
    context = client_context(tmp_path, client_entry("alice") if has_certificate else None)
    async with tls_server(tmp_path, ssl_client_auth=client_auth) as server:
        client = await connect(server, context)
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        assert peer_of(server) == Principal("User", principal)


async def test_mapping_rules_make_the_name_of_the_principal(tmp_path: Path) -> None:
    context = client_context(tmp_path, client_entry("Alice"))
    rules = "RULE:^CN=(.*?),O=Tide$/$1/L,DEFAULT"
    async with tls_server(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules) as server:
        client = await connect(server, context)
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        assert peer_of(server) == Principal("User", "alice")


REFUSED_CLIENTS: list[tuple[str, Callable[[Path], ssl.SSLContext], str]] = [
    ("no certificate", client_context, "the client presents no certificate"),
    (
        "of another authority",
        lambda folder: client_context(folder, client_entry("alice", signed_by="others")),
        "certificate is refused: self-signed certificate in certificate chain",
    ),
    (
        "expired",
        lambda folder: client_context(folder, client_entry("alice", timedelta(seconds=-5))),
        "the client's certificate is refused: certificate has expired",
    ),
]


@pytest.mark.parametrize(
    ("make", "reason"), [case[1:] for case in REFUSED_CLIENTS], ids=[case[0] for case in REFUSED_CLIENTS]
)
async def test_a_client_without_a_valid_certificate_is_refused_at_both_ends(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Path], ssl.SSLContext],
    reason: str,
) -> None:
    async with tls_server(tmp_path, ssl_client_auth="required") as server:
        with pytest.raises((trio.BrokenResourceError, ssl.SSLError)) as raised:  # noqa: PT012
            # With TLS 1.3 the client is done before the broker has looked at the certificate.
            client = await connect(server, make(tmp_path))
            await ask(client, b"echo one\n", 4)
        assert "alert" in str(raised.value.__cause__ or raised.value).lower()
        await refused(server, caplog, reason)


REFUSED_BROKERS = [
    ("wrong host", "elsewhere.example", "tests", broker_entry),
    ("unknown authority", "localhost", "others", broker_entry),
    ("expired", "localhost", "tests", lambda: broker_entry(valid=timedelta(seconds=-5))),
]


@pytest.mark.parametrize(
    ("host", "trusted", "make"),
    [case[1:] for case in REFUSED_BROKERS],
    ids=[case[0] for case in REFUSED_BROKERS],
)
async def test_a_broker_without_a_valid_certificate_is_refused_at_both_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, trusted: str, make: Callable[[], object]
) -> None:
    settings = tls_settings(tmp_path, make())  # type: ignore[arg-type]
    async with running_server_over(Backend(settings)) as server:
        context, address = client_context(tmp_path, trusted=trusted), server.bound["PLAINTEXT"]

        # Not a stream of trio, which does not send its alert.
        def attempt() -> None:
            with socket.create_connection(address) as plain:
                context.wrap_socket(plain, server_hostname=host)

        with pytest.raises(ssl.SSLCertVerificationError):
            await trio.to_thread.run_sync(attempt)
        await refused(server, caplog, "the client refuses the broker's certificate")


OLD_HELLO = bytes.fromhex(f"16 03 00 00 2d 01 00 00 29 03 00 {'5a' * 32} 00 00 02 00 2f 01 00")
HOSTILE = [
    ("plain bytes", b"\0\0\0\x10\0\x12\0\3", "this listener needs TLS, and what the client sends is none"),
    ("http", b"GET / HTTP/1.1\r\n\r\n", "this listener needs TLS"),
    ("no handshake", bytes.fromhex("16 03 01 00 05 ff 00 00 01 00"), "its TLS failed"),
    ("a record that is too long", bytes.fromhex("16 03 01 ff ff") + bytes(200), "its TLS failed"),
    ("ssl 3", OLD_HELLO, "no version of TLS"),
    ("an empty hello", bytes.fromhex("16 03 01 00 04 01 00 00 00"), "its TLS failed"),
]


@pytest.mark.parametrize(
    ("data", "reason"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
async def test_what_is_no_handshake_ends_in_a_clear_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    async with tls_server(tmp_path) as server:
        client = await server.connect()
        await client.send_all(data)
        await refused(server, caplog, reason)
        with suppress(trio.BrokenResourceError):
            while await client.receive_some():
                pass


@pytest.mark.parametrize("begun", [b"", b"\x16", bytes.fromhex("16 03 01 02 00 01 00 01 fc 03 03")])
async def test_a_handshake_that_does_not_end_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock, begun: bytes
) -> None:
    autojump_clock.autojump_threshold = THREADS_END_S
    async with tls_server(tmp_path) as server:
        client = await server.connect()
        if begun:
            await client.send_all(begun)
        with suppress(trio.BrokenResourceError):
            while await client.receive_some():
                pass
        assert "no TLS handshake ended within 10 s" in caplog.text
        assert trio.current_time() < 30


async def test_of_too_many_handshakes_the_oldest_ends_and_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MOST_HANDSHAKES", 5)
    monkeypatch.setattr(listener, "LEAST_SECONDS", 0.0)
    async with tls_server(tmp_path) as server:
        begun = [await server.connect() for _ in range(6)]
        for each in begun:
            await each.send_all(hello(client_context(tmp_path)))
        client = await connect(server, client_context(tmp_path))
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        await refused_count(caplog, "newer TLS handshakes began", 1)


async def test_however_many_handshakes_come_each_peer_has_its_time_to_answer(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    autojump_clock.autojump_threshold = THREADS_END_S
    monkeypatch.setattr(listener, "MOST_HANDSHAKES", 2)
    monkeypatch.setattr(listener, "LEAST_SECONDS", 5.0)
    async with tls_server(tmp_path) as server:
        began = trio.current_time()
        clients = [await server.connect() for _ in range(3)]
        # The next one comes when this one is answered, and nobody leaves.
        for client in clients:
            await client.send_all(hello(client_context(tmp_path)))
            assert await client.receive_some()
        assert 4.9 < trio.current_time() - began < listener.HANDSHAKE_SECONDS
        await refused_count(caplog, "newer TLS handshakes began", 1)


async def refused_count(caplog: pytest.LogCaptureFixture, text: str, least: int) -> None:
    """Wait until the log has a text so many times."""
    with trio.fail_after(5):
        while caplog.text.count(text) < least:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_of_records_of_one_byte_64_are_decrypted_before_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    receive = TlsTransport.recv_into

    def seen(self: TlsTransport, *arguments: Any) -> int:
        taken.append(receive(self, *arguments))
        return taken[-1]

    context = client_context(tmp_path)
    context.keylog_filename = str(tmp_path / "secrets")
    async with tls_server(tmp_path) as server:
        client = await connect(server, context)
        records = RawRecords(tmp_path / "secrets")
        line = b"echo " + b"x" * 194 + b"\n"
        # One packet, so that they are there at once.
        packet = b"".join(records.record(bytes([byte])) for byte in line)
        monkeypatch.setattr(TlsTransport, "recv_into", seen)
        await client.transport_stream.send_all(packet)
        assert await ask(client, b"", 195) == line[5:]
    assert max(taken) == RECORDS_AT_ONCE


async def test_of_a_file_only_pieces_are_read_for_a_peer_that_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    read = os.pread

    def seen(file: int, count: int, position: int) -> bytes:
        sizes.append(count)
        return read(file, count, position)

    async with tls_server(tmp_path) as server:
        client = await connect(server, client_context(tmp_path))
        monkeypatch.setattr(os, "pread", seen)
        await client.send_all(b"file %d\n" % (10 * BIG))
        await trio.testing.wait_all_tasks_blocked(0.05)
        # What the sockets take, and a piece.
        assert 0 < sum(sizes) < 5 * BIG
        assert max(sizes) <= PIECE_BYTES
        assert len(await ask(client, b"", 10 * BIG)) == 10 * BIG
    assert max(sizes) <= PIECE_BYTES


@pytest.mark.parametrize(
    ("allowed", "version"), [("TLSv1.3", ssl.TLSVersion.TLSv1_2), ("TLSv1.2", ssl.TLSVersion.TLSv1_3)]
)
async def test_a_version_that_is_not_enabled_is_refused(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    allowed: str,
    version: ssl.TLSVersion,
) -> None:
    other = client_context(tmp_path)
    other.minimum_version = other.maximum_version = version
    async with tls_server(tmp_path, ssl_enabled_protocols=allowed) as server:
        with pytest.raises(trio.BrokenResourceError):
            await connect(server, other)
        await refused(server, caplog, "no version of TLS that ssl.enabled.protocols allows")
        assert (await connect(server, client_context(tmp_path))).version() == allowed


async def test_a_trust_store_in_a_file_is_replaced_while_the_server_runs(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = THREADS_END_S
    context = client_context(tmp_path, client_entry("alice", signed_by="others"))
    async with tls_server(tmp_path, ssl_client_auth="required") as server:
        with pytest.raises((trio.BrokenResourceError, AssertionError)):
            await ask(await connect(server, context), b"echo one\n", 4)
        (tmp_path / "ca-tests.pem").write_bytes(certificates_pem(authority("others").entry.chain))
        await trio.sleep(25)
        assert await ask(await connect(server, context), b"echo one\n", 4) == b"one\n"
        assert peer_of(server) == Principal("User", "CN=alice,O=Tide")


async def test_bytes_that_are_no_record_end_the_connection_in_a_clear_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with tls_server(tmp_path) as server:
        client = await connect(server, client_context(tmp_path))
        assert await ask(client, b"echo one\n", 4) == b"one\n"
        raw = client.transport_stream
        await raw.send_all(b"echo in the clear\n" * 20)
        await refused(server, caplog, "closing the connection of")
        assert "what the client sends is no TLS" in caplog.text


async def test_a_suite_of_1_3_that_is_not_allowed_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    suites = "TLS_CHACHA20_POLY1305_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    older = client_context(tmp_path)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    async with tls_server(tmp_path, ssl_cipher_suites=suites) as server:
        client = await connect(server, older)
        assert (client.cipher() or ("",))[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
        with suppress(trio.BrokenResourceError, AssertionError):
            newer = await connect(server, client_context(tmp_path))
            await ask(newer, b"echo one\n", 4)
        await refused(
            server_without(server, 1), caplog, "ssl.cipher.suites does not allow TLS_AES_256_GCM_SHA384"
        )


def server_without(server: RunningServer, count: int) -> RunningServer:
    """The server, once its own clients are closed."""
    assert server.connection_count <= count
    server.close_clients()
    return server


async def test_a_certificate_in_a_file_is_replaced_while_the_server_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.INFO)
    autojump_clock.autojump_threshold = THREADS_END_S
    async with tls_server(tmp_path) as server:
        first = await connect(server, client_context(tmp_path))
        replaced = broker_entry()
        (tmp_path / "broker.pem").write_bytes(replaced.pem())
        await trio.sleep(25)
        await refused_count(caplog, "its keys and certificates were replaced", 1)
        second = await connect(server, client_context(tmp_path))
        serials = [(each.getpeercert() or {})["serialNumber"] for each in (first, second)]
        assert int(str(serials[1]), 16) == replaced.certificate.serial_number
        assert serials[0] != serials[1]
        # Connections that are open stay.
        assert await ask(first, b"echo one\n", 4) == b"one\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: b"rubbish", "has no private key"),
        (lambda: broker_entry(name="other").pem(), "has the distinguished name CN=other"),
        (lambda: broker_entry(hosts=("localhost",)).pem(), "lacks alternative names of the present one"),
        (
            lambda: broker_entry().key + certificates_pem(broker_entry().chain),
            "a certificate that is not that of its private key",
        ),
    ],
)
async def test_a_file_that_does_not_match_is_not_used(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
    content: Callable[[], bytes],
    reason: str,
) -> None:
    autojump_clock.autojump_threshold = THREADS_END_S
    async with tls_server(tmp_path) as server:
        (tmp_path / "broker.pem").write_bytes(content())
        await trio.sleep(25)
        await refused_count(caplog, "the listener keeps the certificate that it has", 1)
        assert reason in caplog.text
        client = await connect(server, client_context(tmp_path))
        assert await ask(client, b"echo one\n", 4) == b"one\n"


@pytest.mark.parametrize(
    ("days", "text"),
    [(20, "its certificate expires in 19 days"), (-1, "its certificate has expired at"), (31, "")],
)
async def test_the_end_of_a_certificate_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, days: int, text: str
) -> None:
    settings = tls_settings(tmp_path, broker_entry(valid=timedelta(days=days)))
    async with running_server_over(Backend(settings)):
        await trio.testing.wait_all_tasks_blocked()
    assert (text in caplog.text) if text else not caplog.text
