"""The transport of a connection: how its bytes get from and to the peer.

A connection calls nothing else of its socket. The plain transport is the socket itself, so that no call is
added to a request; another one, such as TLS, has the same methods over a socket of its own.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias

import trio

TCP_STATE: Final[int | None] = getattr(socket, "TCP_INFO", None)
"""The socket option whose first byte is the connection's state (Linux: tcp(7), `tcpi_state`)."""
TCP_ESTABLISHED: Final = b"\x01"


class Transport(Protocol):
    """The bytes of one connection; no method blocks.

    Bytes that have arrived make the file descriptor readable until `recv_into` has returned them: where many
    clients are quiet, one epoll waits for the descriptors of all of them.
    """

    sends_files: bool
    """Whether there is `send_region`; else files are read, and their bytes are sent."""

    def fileno(self) -> int:
        """Return the file descriptor of the socket, -1 once it is closed."""
        ...

    def recv_into(self, buffer: bytearray | memoryview, /) -> int:
        """Receive into the buffer; return how many bytes, 0 if the peer has closed its end.

        Raises:
            BlockingIOError: none have arrived.
        """
        ...

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        """Send what can be sent at once; return how many bytes.

        `flags` may be `MSG_MORE`, a hint that more follow.

        Raises:
            BlockingIOError: the peer has to read first.
        """
        ...

    def send_region(self, file: int, position: int, most: int) -> int | None:
        """Send up to `most` bytes of a file, without a copy.

        Return how many, 0 at the end of the file, None if the peer has to read first.
        """
        ...

    def wait_readable(self) -> Awaitable[None]:
        """Wait until `recv_into` may return something."""
        ...

    def wait_writable(self) -> Awaitable[None]:
        """Wait until `send` may take something."""
        ...

    def has_left(self) -> bool:
        """Return whether the peer closed its end, or reset the connection, however much is still unread."""
        ...

    def unsent_bytes(self) -> int:
        """Return how many bytes the peer has not received yet, 0 where the system does not report that."""
        ...

    def shutdown(self, how: int, /) -> None:
        """End one direction or both, as `socket.shutdown` does; a task that waits is woken."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


MakeTransport: TypeAlias = Callable[[socket.socket], Transport]
"""Takes over an accepted socket, which does not block."""


class PlainTransport(socket.socket):
    """A socket whose bytes are those of the protocol."""

    __slots__ = ()

    sends_files: bool = True

    @classmethod
    def of(cls, accepted: socket.socket) -> PlainTransport:
        """Take over a socket."""
        plain = cls(accepted.family, accepted.type, accepted.proto, accepted.detach())
        plain.setblocking(False)
        return plain

    def send_region(self, file: int, position: int, most: int) -> int | None:
        """Send by `sendfile`."""
        # A function of its own: the exception would be kept while a slow peer is waited for.
        try:
            return os.sendfile(self.fileno(), file, position, most)
        except BlockingIOError:
            return None

    # Not coroutine functions: while a connection idles, its memory is that of one coroutine.
    def wait_readable(self) -> Awaitable[None]:
        """Wait by the event loop."""
        return trio.lowlevel.wait_readable(self)  # noqa: ASYNC105

    def wait_writable(self) -> Awaitable[None]:
        """Wait by the event loop."""
        return trio.lowlevel.wait_writable(self)  # noqa: ASYNC105

    def has_left(self) -> bool:
        """Return whether the TCP connection is no longer established.

        Where the system does not report its state, unread bytes hide that the peer has left.
        """
        try:
            if TCP_STATE is not None:
                return self.getsockopt(socket.IPPROTO_TCP, TCP_STATE, 1) != TCP_ESTABLISHED
            return self.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def unsent_bytes(self) -> int:
        """Return the size of the send queue."""
        try:
            return int.from_bytes(fcntl.ioctl(self, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except OSError:
            return 0


TRANSPORTS: Final[Mapping[str, MakeTransport]] = {"PLAINTEXT": PlainTransport.of}
"""The transport of a listener, by its security protocol."""
