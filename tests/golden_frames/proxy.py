"""A proxy that keeps the frames that clients and a broker exchange."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.peers.ports import LOOPBACK

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_CORRELATION = struct.Struct(">i")


class Exchange(NamedTuple):
    """A request, and its response; both are whole frames without their length."""

    api_key: int
    version: int
    request: bytes
    response: bytes


class Proxy:
    """Listens at `port`, and connects each client to the broker at `upstream_port`."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.upstream_port = 0
        self.exchanges: list[Exchange] = []
        self._sockets: list[socket.socket] = []

    def run(self) -> None:
        """Accept clients until `close`."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection((LOOPBACK, self.upstream_port))
                self._sockets += [client, broker]
                _Conversation(client, broker, self.exchanges).start()

    def close(self) -> None:
        """End everything."""
        for sock in (self._listener, *self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


class _Conversation:
    """One client's connection."""

    def __init__(self, client: socket.socket, broker: socket.socket, exchanges: list[Exchange]) -> None:
        self._client, self._broker = client, broker
        self._exchanges = exchanges
        self._asked: dict[int, bytes] = {}

    def start(self) -> None:
        """Pass on both directions, each in a thread."""
        for target in (self._requests, self._responses):
            threading.Thread(target=target, daemon=True).start()

    def _requests(self) -> None:
        for frame in _frames(self._client):
            _, _, correlation_id = _REQUEST.unpack_from(frame)
            self._asked[correlation_id] = frame
            self._broker.sendall(_LENGTH.pack(len(frame)) + frame)

    def _responses(self) -> None:
        for frame in _frames(self._broker):
            request = self._asked.pop(_CORRELATION.unpack_from(frame)[0])
            key, version, _ = _REQUEST.unpack_from(request)
            self._exchanges.append(Exchange(key, version, request, frame))
            with suppress(BrokenPipeError):
                self._client.sendall(_LENGTH.pack(len(frame)) + frame)


def _frames(sock: socket.socket) -> Iterator[bytes]:
    """The frames that arrive, until the connection ends."""
    with suppress(OSError), sock.makefile("rb") as file:
        while len(head := file.read(_LENGTH.size)) == _LENGTH.size:
            (size,) = _LENGTH.unpack(head)
            yield file.read(size)
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def running_proxy() -> Generator[Proxy]:
    """A proxy whose `upstream_port` is set later."""
    proxy = Proxy()
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
