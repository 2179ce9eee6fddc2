"""The wire seam: how a protocol plugin turns bytes into broker calls and answers into bytes.

A connection object is sans-IO: it never touches a socket. The server (`tidelog.kernel.server`) owns the
stream and drives it:

    buffer = connection.receive_buffer()      the server reads from the socket into it
    connection.bytes_received(n)
    while (step := connection.next_step()) is not None:
        a list of parts  → bytes and file regions to send, in order
        an awaitable     → the answer has to wait (long poll); what is pending is sent first, then awaited

Requests of one connection are answered in order, one at a time, as Kafka does (seed 003, "network").
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tidelog.kernel.seams.storage import Region

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker

Parts: TypeAlias = list[Region]


class ProtocolViolation(Exception):
    """The peer broke the protocol beyond an answer: the connection is closed, the message is logged."""


class Peer(NamedTuple):
    """Who is at the other end: its address for logs, and the listener it came in by."""

    host: str
    port: int
    listener_name: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class WireConnection(Protocol):
    """One connection's protocol state."""

    def receive_buffer(self) -> memoryview:
        """Writable room for the next bytes of the peer, at least one byte."""
        ...

    def bytes_received(self, count: int) -> None:
        """`count` bytes were written to the start of the last receive buffer."""
        ...

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next whole request: its answer (empty when it gets none), or None when bytes are missing.

        Raises:
            ProtocolViolation: the connection must be closed; answers given before it are sent first.
        """
        ...

    def release_memory(self) -> None:
        """The connection idles: let go of large buffers."""
        ...

    def close(self) -> None:
        """The connection has ended; forget what was kept for it."""
        ...


class WireCodec(Protocol):
    """A wire protocol, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name by which listeners choose it."""
        ...

    def connect(self, broker: Broker, peer: Peer) -> WireConnection:
        """Protocol state for a new connection."""
        ...
