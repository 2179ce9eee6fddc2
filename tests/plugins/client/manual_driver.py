"""A driver of an engine whose time and network are the test's: sockets in memory, a clock it advances."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.engine import Channel, Engine


class Closed(Exception):
    """Raised by a server to close its connection; `answered` is sent before."""

    def __init__(self, answered: bytes = b"") -> None:
        self.answered = answered


class _LocalSocket(socket.socket):
    """A socket of a pair, which takes no options of TCP."""

    def setsockopt(self, *_args: Any) -> None:
        return None


class Server(Protocol):
    """A broker in memory: whole request frames in, whole response frames out."""

    def receive(self, data: bytes) -> bytes: ...


@attrs.define(eq=False)
class _Connection:
    channel: Channel
    peer: socket.socket
    server: Server
    received: bytearray = attrs.field(factory=bytearray)


class ManualDriver:
    """Does everything that is possible now, then lets the time pass to the next timer.

    `servers` are brokers by address; an address that is not there refuses connections. What work for threads
    there is is done at once.
    """

    def __init__(self, servers: dict[Address, Server]) -> None:
        self.servers = servers
        self.now = 1000.0
        self.silent: set[Address] = set()
        self.pieces = 1 << 30
        self.connects = 0
        self._engine: Engine | None = None
        self._connecting: deque[Channel] = deque()
        self._connections: dict[Channel, _Connection] = {}
        self._works: deque[Callable[[], None]] = deque()

    def clock(self) -> float:
        return self.now

    def attach(self, engine: Engine) -> Engine:
        self._engine = engine
        return engine

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def connect(self, channel: Channel) -> None:
        self.connects += 1
        self._connecting.append(channel)

    def watch(self, channel: Channel) -> None:
        """Everything is looked at all the time."""

    def release(self, channel: Channel) -> None:
        connection = self._connections.pop(channel, None)
        if connection is not None:
            connection.peer.close()

    def run_in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def both() -> None:
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            done(outcome)

        self._works.append(both)

    def post(self, call: Callable[[], None]) -> None:
        self._works.append(call)

    def wake(self) -> None:
        """There is no thread to wake."""

    def settle(self) -> float | None:
        """Do all that needs no time; return when the next timer is due."""
        while True:
            due = self.engine.run_due()
            if not (self._open() or self._move() or self._work()):
                return due

    def run(self, until: Callable[[], bool], limit_s: float = 600.0) -> None:
        """Let the time pass until a condition holds."""
        end = self.now + limit_s
        while True:
            due = self.settle()
            if until():
                return
            assert due is not None, "nothing happens any more"
            assert due <= end, f"nothing has come of it after {limit_s} s"
            self.now = max(self.now, due)

    def close(self) -> None:
        """Close the engine, and with it all sockets."""
        self.engine.close()
        for connection in self._connections.values():
            connection.peer.close()

    def cut(self, address: Address) -> None:
        """Close all connections to a broker, as if it vanished."""
        for channel, connection in list(self._connections.items()):
            if channel.address == address:
                self._connections.pop(channel)
                connection.peer.close()
                self.engine.readable(channel)

    def _open(self) -> bool:
        if not self._connecting:
            return False
        channel = self._connecting.popleft()
        server = self.servers.get(channel.address)
        if channel.is_released:
            return True
        if server is None:
            self.engine.not_connected(channel, "refused")
            return True
        if channel.address in self.silent:
            return True
        ours, peer = socket.socketpair()
        peer.setblocking(False)
        self._connections[channel] = _Connection(channel, peer, server)
        self.engine.connected(channel, _LocalSocket(fileno=ours.detach()))
        return True

    def _work(self) -> bool:
        if not self._works:
            return False
        self._works.popleft()()
        return True

    def _move(self) -> bool:
        moved = [self._serve(connection) for connection in list(self._connections.values())]
        return any(moved)

    def _serve(self, connection: _Connection) -> bool:
        if connection.channel.address in self.silent:
            return False
        try:
            data = connection.peer.recv(1 << 20)
        except (BlockingIOError, OSError):
            return False
        if not data:
            return False
        connection.received += data
        link = connection.channel.link
        # What does not fit in the buffers of a socket pair comes in parts.
        while link is not None and link.has_outgoing and not connection.channel.is_released:
            self.engine.writable(connection.channel)
            try:
                connection.received += connection.peer.recv(1 << 20)
            except BlockingIOError:
                break
        for frame in _whole_frames(connection.received):
            self._answer(connection, frame)
        return True

    def _answer(self, connection: _Connection, frame: bytes) -> None:
        is_closing = False
        try:
            answer = connection.server.receive(frame)
        except Closed as closed:
            answer, is_closing = closed.answered, True
        for start in range(0, len(answer), self.pieces):
            if connection.peer.fileno() < 0:
                return
            connection.peer.send(answer[start : start + self.pieces])
            self.engine.readable(connection.channel)
        if is_closing:
            connection.peer.close()
            self._connections.pop(connection.channel, None)
            self.engine.readable(connection.channel)


def _whole_frames(received: bytearray) -> list[bytes]:
    frames: list[bytes] = []
    while len(received) >= 4:
        (length,) = struct.unpack_from(">i", received)
        if len(received) < 4 + length:
            break
        frames.append(bytes(received[: 4 + length]))
        del received[: 4 + length]
    return frames
