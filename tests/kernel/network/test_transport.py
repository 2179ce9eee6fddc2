"""Transports: a connection has its bytes sent and received by one, whatever it makes of them on their way."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import trio

from tidelog.kernel.network.transport import PlainListeners, PlainTransport
from tidelog.kernel.seams.requests import ANONYMOUS
from tidelog.kernel.seams.transport import Transport
from tidelog.kernel.seams.wire import Peer

from .line_protocol import running_server_over

MASK = 0x5A
TABLE = bytes(byte ^ MASK for byte in range(256))
FILE_BYTES = 700_000


class MaskedTransport:
    """Each byte is masked on its way, so that the system cannot send files."""

    sends_files = False
    holds_bytes = False
    principal = ANONYMOUS

    def __init__(self, accepted: socket.socket) -> None:
        self._plain = PlainTransport.of(accepted)
        self.fileno = self._plain.fileno
        self.wait_readable = self._plain.wait_readable
        self.wait_writable = self._plain.wait_writable
        self.has_left = self._plain.has_left
        self.unsent_bytes = self._plain.unsent_bytes
        self.shutdown = self._plain.shutdown
        self.close = self._plain.close

    def recv_into(self, buffer: bytearray | memoryview, /) -> int:
        """Receive and unmask."""
        view = memoryview(buffer)
        count = self._plain.recv_into(view)
        view[:count] = bytes(view[:count]).translate(TABLE)
        return count

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        """Mask and send."""
        return self._plain.send(bytes(data).translate(TABLE), flags)

    def send_region(self, file: int, position: int, most: int) -> int | None:
        """Never called."""
        raise NotImplementedError


class MaskedListeners(PlainListeners):
    """Their transport."""

    def accept(self, accepted: socket.socket, peer: Peer) -> MaskedTransport:  # type: ignore[override]
        """Take over a socket."""
        return MaskedTransport(accepted)


async def received(stream: trio.SocketStream, size: int) -> bytes:
    """So many bytes, unmasked."""
    data = b""
    while len(data) < size:
        some = await stream.receive_some()
        assert some, "the connection has ended"
        data += some.translate(TABLE)
    return data


@pytest.mark.parametrize(
    ("request_line", "response"),
    [
        (b"echo one\n", b"one\n"),
        (b"echo one\necho two\n", b"one\ntwo\n"),
        (b"big 3000000\n", bytes(3_000_000)),
        (b"file 10\n", bytes(10)),
        (b"echo head\nfile %d\necho tail\n" % FILE_BYTES, b"head\n" + bytes(FILE_BYTES) + b"tail\n"),
    ],
    ids=["one", "pipelined", "more than the socket takes", "a short file", "a long file"],
)
async def test_a_connection_is_served_over_a_transport_that_sends_no_files(
    request_line: bytes, response: bytes
) -> None:
    async with running_server_over(MaskedListeners()) as server, await server.connect() as client:
        for _ in range(2):
            await client.send_all(request_line.translate(TABLE))
            assert await received(client, len(response)) == response


async def test_a_connection_over_another_transport_ends_with_its_peer() -> None:
    async with running_server_over(MaskedListeners()) as server:
        async with await server.connect() as client:
            await client.send_all(b"echo one\n".translate(TABLE))
            assert await received(client, 4) == b"one\n"
        with trio.fail_after(10):
            while server.connection_count:
                await trio.lowlevel.checkpoint()


class FailingListeners(PlainListeners):
    """Fails at its first connection, at once or once it was awaited."""

    def __init__(self, *, later: bool) -> None:
        self._later = later
        self._accepted = 0

    def accept(self, accepted: socket.socket, peer: Peer) -> Any:
        """Fail, or take over a socket."""
        self._accepted += 1
        if self._accepted > 1:
            return super().accept(accepted, peer)
        if self._later:
            return self._fail(accepted)
        raise ZeroDivisionError("a fault of the transport")

    async def _fail(self, accepted: socket.socket) -> Transport:
        with accepted:
            await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("a fault of the transport")


@pytest.mark.parametrize("later", [False, True])
async def test_a_transport_that_fails_ends_its_connection_and_no_other(
    later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    transports = FailingListeners(later=later)
    async with running_server_over(transports, {"max.connections": 1}) as server:
        async with await server.connect() as unlucky:
            assert await unlucky.receive_some() == b""
        # The one that failed counts no more, or this one would be refused.
        async with await server.connect() as client:
            await client.send_all(b"echo one\n")
            assert await client.receive_some() == b"one\n"
    (line,) = [each.message for each in caplog.records if "failed inside the broker" in each.message]
    assert f"in {__name__}:" in line


def test_a_plain_transport_takes_over_a_socket() -> None:
    accepted, theirs = socket.socketpair()
    with PlainTransport.of(accepted) as ours, theirs:
        assert accepted.fileno() == -1
        with pytest.raises(BlockingIOError):
            ours.recv_into(bytearray(1))
        assert ours.unsent_bytes() == 0
