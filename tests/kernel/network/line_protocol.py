"""A protocol of lines for the server: a word a line, so that tests say exactly what a request does.

echo WORD     answered with the word
big COUNT     answered with so many bytes
file COUNT    answered with so many zeros of a file
wait          answered with "done" when `LineProtocol.gate` opens
stream        answered with "more" whenever `LineProtocol.gate` opens, until the client sends another line
bye           answered with "bye", and the connection has ended
records COUNT answered with the count, as a request that brought so many records
silent        not answered
wrong         a violation of the protocol
crash         the handler fails
disk          the handler fails for want of a disk
hog COUNT     takes so many turns of a busy loop, and is not answered
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn, cast

import trio

from tidelog.kernel.config import Config
from tidelog.kernel.metadata import MetadataImage, PersistentMap
from tidelog.kernel.metadata.client_quotas import IP
from tidelog.kernel.network import Server
from tidelog.kernel.network.connection_rates import CONNECTION_CREATION_RATE
from tidelog.kernel.network.server import PeerWarnings
from tidelog.kernel.network.transport import PlainListeners
from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.transport import TransportBackend
from tidelog.kernel.seams.wire import (
    ConnectionFinished,
    Parts,
    Peer,
    ProtocolViolation,
    ReceiveMemory,
    UntilPeerSends,
    WireConnection,
    WireContext,
)

ROOM_BYTES = 64 * 1024


ENDLESS_S = 1000
"""Longer than any connection may idle here, by the clock of the test."""


class ZeroFile:
    """A file of so many zeros, in memory."""

    def __init__(self, size: int) -> None:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            self._descriptor = os.dup(file.fileno())

    def __del__(self) -> None:
        os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def resident(self, position: int, size: int) -> bool:
        """Return whether that is within it: all of it is in memory."""
        return position + size <= os.fstat(self._descriptor).st_size

    def report_error(self, error: OSError) -> None:
        """Ignore it."""

    def prefetch(self, position: int, size: int) -> None:
        """Never needed."""
        raise NotImplementedError


class LineConnection:
    """Protocol state of one client."""

    def __init__(self, protocol: LineProtocol, peer: Peer) -> None:
        self._protocol = protocol
        self.data = bytearray()
        self._room = memoryview(bytearray(ROOM_BYTES))
        self.peer = peer
        self.records_received = 0
        self.current_request = ""
        self.released = 0
        self.closed = 0
        self._streams = self._listens = self._is_over = False

    def receive_buffer(self) -> memoryview:
        """Room for the next bytes."""
        return self._room

    def bytes_received(self, count: int) -> None:
        """So many came."""
        self.data += self._room[:count]

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next line."""
        if self._is_over:
            raise ConnectionFinished
        if self._listens:
            self._listens = False
            return None
        if self._streams and b"\n" not in self.data:
            self._listens = True
            return UntilPeerSends(self._next_of_stream)
        line, newline, rest = bytes(self.data).partition(b"\n")
        if not newline:
            return None
        self.data[:] = rest
        command, _, argument = line.decode().partition(" ")
        self.records_received = 0
        self._streams = command == "stream"
        self._is_over = command == "bye"
        self.current_request = command
        self._protocol.served += 1
        self._protocol.served_by = trio.lowlevel.current_task().name
        match command:
            case "echo":
                return [f"{argument}\n".encode()]
            case "big":
                return [bytes(int(argument))]
            case "file":
                return [FileRegion(ZeroFile(int(argument)), 0, int(argument))]
            case "wait":
                return self._wait()
            case "stream":
                return []
            case "bye":
                return [b"bye\n"]
            case "records":
                self.records_received = int(argument)
                return [f"{argument}\n".encode()]
            case "silent":
                return []
            case "hog":
                sum(range(int(argument)))
                return []
            case "crash":
                raise RuntimeError("the handler failed")
            case "disk":
                raise OSError(errno.EIO, "Input/output error")
            case _:
                raise ProtocolViolation(f"{command!r} is no command")

    async def _wait(self) -> Parts:
        self._protocol.waiting += 1
        try:
            await self._protocol.gate.wait()
        finally:
            self._protocol.waiting -= 1
        return [b"done\n"]

    async def _next_of_stream(self) -> Parts:
        await self._wait()
        if self._protocol.fails_to_stream:
            raise ProtocolViolation("the stream failed")
        self._protocol.gate = trio.Event()
        self._listens = False
        return [b"more\n"]

    def use_buffer(self, size: int) -> None:
        """Receive into a buffer of this size from now on."""
        self._room = memoryview(bytearray(size))

    def release_memory(self) -> None:
        """Counted; another buffer is used from now on."""
        self.released += 1
        self._room = memoryview(bytearray(ROOM_BYTES))

    def close(self) -> None:
        """Counted."""
        self.closed += 1


def address_quotas(addresses: Mapping[str | None, float]) -> MetadataImage:
    """Return an image with quotas of connections of some addresses."""
    return MetadataImage(
        quotas=PersistentMap(
            {frozenset({(IP, name)}): {CONNECTION_CREATION_RATE: rate} for name, rate in addresses.items()}
        )
    )


class LineProtocol:
    """The codec, and the part of a broker that a server asks."""

    name = "lines"

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.config = Config.from_mapping(
            {"storage": "memory", "listeners": "PLAINTEXT://127.0.0.1:0", **settings}
        )
        self.peer_warnings = PeerWarnings({__name__: "lines-plugin"})
        self.image = MetadataImage()
        self.gate = trio.Event()
        self.waiting = 0
        self.served = 0
        self.served_by = ""
        self.fails_to_connect = False
        self.fails_to_stream = False
        self.connections: list[LineConnection] = []

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Protocol state for a new connection."""
        if self.fails_to_connect:
            raise RuntimeError("no connection today")
        self.connections.append(LineConnection(self, peer))
        return self.connections[-1]


class RunningServer:
    """A server of the protocol of lines and its addresses."""

    def __init__(self, protocol: LineProtocol, server: Server) -> None:
        self.protocol = protocol
        self._server = server
        self.bound = server.bind()
        self._all = trio.CancelScope()
        self._clients: list[trio.SocketStream] = []

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `end`."""
        with self._all:
            await self._server.run(task_status=task_status)

    def end(self) -> None:
        """Cancel the server with all its connections, as at the deadline of a stop."""
        self._all.cancel()

    async def connect(self, listener: str = "PLAINTEXT") -> trio.SocketStream:
        """A client's connection; it is closed at the end at the latest."""
        host, port = self.bound[listener]
        self._clients.append(await trio.open_tcp_stream(host, port))
        return self._clients[-1]

    def close_clients(self) -> None:
        """Close those that a test left open."""
        for client in self._clients:
            client.socket.close()

    @property
    def connection_count(self) -> int:
        """How many connections are open on the server's side."""
        return self._server.connection_count

    async def finish(self) -> None:
        """Stop gracefully."""
        await self._server.finish()

    async def wait_connections(self, count: int) -> None:
        """Wait until so many are open on the server's side."""
        while self.connection_count != count:  # noqa: ASYNC110 - the server tells nobody of an end
            await trio.sleep(0.05)


@asynccontextmanager
async def running_server(**settings: object) -> AsyncGenerator[RunningServer]:
    """A server that runs until the block ends; underscores in keys stand for dots."""
    async with running_server_over(PlainListeners(), settings) as running:
        yield running


@asynccontextmanager
async def running_server_over(
    transports: TransportBackend, settings: Mapping[str, object] | None = None
) -> AsyncGenerator[RunningServer]:
    """The same, with the bytes of its connections in such transports."""
    settings = settings or {}
    protocol = LineProtocol({key.replace("_", "."): value for key, value in settings.items()})
    codecs = {listener.name: protocol for listener in protocol.config.served_listeners()}
    transport_of = dict.fromkeys(codecs, transports)
    server = Server(cast("WireContext", protocol), codecs, transport_of, _no_mechanism)
    async with trio.open_nursery() as nursery:
        running = RunningServer(protocol, server)
        await nursery.start(running.run)
        try:
            yield running
        finally:
            server.close_listeners()
            nursery.cancel_scope.cancel()
            running.close_clients()


def _no_mechanism(name: str) -> NoReturn:
    raise AssertionError(f"no listener has {name}")


async def line_from(stream: trio.SocketStream) -> bytes:
    """The next line, or what there is before the end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = await stream.receive_some(1)
        if not byte:
            break
        line += byte
    return bytes(line)


async def ask(stream: trio.SocketStream, request: str) -> str:
    """A request's answer."""
    await stream.send_all(f"{request}\n".encode())
    return (await line_from(stream)).decode().strip()


async def is_closed(stream: trio.SocketStream) -> bool:
    """Wait for the end of the connection; whether nothing came before it."""
    try:
        with trio.fail_after(ENDLESS_S):
            return await stream.receive_some(1) == b""
    except trio.BrokenResourceError:
        return True
