"""The seam of transports: how the bytes of a connection get from and to the peer.

A connection calls nothing else of its socket. The plain transport is the socket itself, so that no call is
added to a request; another one, such as TLS, has the same methods over a socket of its own. The security
protocol of a listener names its transport.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Protocol

import trio

from tidelog.kernel.seams.requests import ANONYMOUS, Principal

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.wire import Peer

TCP_STATE: Final[int | None] = getattr(socket, "TCP_INFO", None)
"""The socket option whose first byte is the connection's state (Linux: tcp(7), `tcpi_state`)."""
TCP_ESTABLISHED: Final = b"\x01"


class Transport(Protocol):
    """The bytes of one connection; no method blocks.

    Bytes that have arrived make the file descriptor readable until `recv_into` has returned them or taken
    them in (`holds_bytes`): where many clients are quiet, one epoll waits for the descriptors of all of them.
    """

    sends_files: bool
    """Whether there is `send_region`; else files are read, and their bytes are sent."""

    @property
    def holds_bytes(self) -> bool:
        """Whether there are bytes for `recv_into` although the descriptor may not be readable."""
        ...

    @property
    def principal(self) -> Principal:
        """Who the peer has proven to be."""
        ...

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


class TransportRefused(Exception):
    """The peer cannot have the transport: its connection is closed, and the message is logged."""


class ListenerTransport(Protocol):
    """The transport of one listener: takes over the connections that it accepts."""

    def accept(self, accepted: socket.socket, peer: Peer) -> Transport | Awaitable[Transport]:
        """Take over a socket, which does not block; it is closed if an error is raised.

        What has to be agreed on with the peer first is an awaitable, and the server awaits it in a task of
        its own.

        Raises:
            TransportRefused: it cannot be agreed on. The awaitable may raise it, too.
            OSError: the connection has ended.
        """
        ...

    async def run(self) -> None:
        """Do what has to be done beside connections until cancelled, or return at once."""
        ...

    def follow(self, config: Config) -> None:
        """Use a configuration that has changed for the connections to come; blocks for some milliseconds."""
        ...

    def check(self, config: Config) -> None:
        """Check that `follow` can use a configuration.

        Raises:
            ConfigError: it cannot; the message says why.
        """
        ...


class TransportBackend(Protocol):
    """The transport of one security protocol, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The security protocol, as `listener.security.protocol.map` names it."""
        ...

    def create(self, config: Config, listener: str) -> ListenerTransport:
        """Return the transport of the listener of that name.

        Raises:
            ConfigError: the configuration has not what it needs; the message says why.
        """
        ...


class TcpSocket(socket.socket):
    """What the transports over a socket of the system have in common."""

    __slots__ = ()

    holds_bytes: bool = False
    principal: Principal = ANONYMOUS

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
            return socket.socket.recv(self, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
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
