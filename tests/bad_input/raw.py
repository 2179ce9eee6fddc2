"""A bare socket that speaks to a broker: any bytes out, frames or the end of the connection in."""

from __future__ import annotations

import itertools
import socket
import struct
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from types import TracebackType

_LENGTH = struct.Struct(">i")
# A broker does not repeat the same complaint about the same host for a while, so each connection is a host of
# its own. All of 127/8 is loopback on Linux.
_sources = (f"127.1.{number // 250 % 250}.{number % 250 + 1}" for number in itertools.count())


class ClosedByBrokerError(Exception):
    """The broker ended the connection instead of answering."""


class RawConnection:
    """One connection to `host:port`; `name` is how the broker's log calls it."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        source = next(_sources), 0
        self._socket = socket.create_connection((host, int(port)), DEADLINE_S, source)
        local_host, local_port = self._socket.getsockname()
        self.name = f"{local_host}:{local_port}"

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send as much of `data` as the broker takes before it closes."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def end_sending(self) -> None:
        """Tell the broker that nothing more will come."""
        self._socket.shutdown(socket.SHUT_WR)

    def frame(self, timeout_s: float = DEADLINE_S) -> bytes:
        """The next frame without its length.

        Raises ClosedByBrokerError when the connection ends first, TimeoutError when nothing comes.
        """
        self._socket.settimeout(timeout_s)
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self._socket.recv(size - len(received))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ClosedByBrokerError(f"the connection ended after {len(received)} of {size} bytes")
            received += chunk
        return bytes(received)


def framed(payload: bytes) -> bytes:
    """`payload` behind its length."""
    return _LENGTH.pack(len(payload)) + payload
