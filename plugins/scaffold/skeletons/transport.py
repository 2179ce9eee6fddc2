"""A transport: plain TCP, with a count of the bytes that each host has sent."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable

from tidelog.kernel import Config, hookimpl
from tidelog.kernel.seams.transport import ListenerTransport, TcpSocket, TransportBackend
from tidelog.kernel.seams.wire import Peer

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

received_bytes = Counter[str]()


class SkeletonSocket(TcpSocket):
    """One connection, with the methods of `Transport`."""

    __slots__ = ("host",)
    sends_files = False
    host: str

    def recv_into(self, buffer: bytearray | memoryview, nbytes: int = 0, flags: int = 0, /) -> int:  # type: ignore[override]
        """Receive, and count."""
        count = super().recv_into(buffer)
        received_bytes[self.host] += count
        return count

    def send_region(self, file: int, position: int, most: int) -> int | None:
        """Send a part of a file; never called without `sends_files`."""
        raise NotImplementedError


class SkeletonListener:
    """The transport of one listener."""

    def accept(self, accepted: socket.socket, peer: Peer) -> SkeletonSocket:
        """Take over a connection."""
        made = SkeletonSocket(fileno=accepted.detach())
        made.setblocking(False)
        made.host = peer.host
        return made

    async def run(self) -> None:
        """Do nothing beside connections."""

    def follow(self, config: Config) -> None:
        """Use a configuration that has changed."""

    def check(self, config: Config) -> None:
        """Refuse a configuration with ConfigError."""


class SkeletonTransport:
    """What `listener.security.protocol.map` chooses for a listener."""

    name = "SKELETON"

    def create(self, config: Config, listener: str) -> ListenerTransport:
        """Return the transport of a listener."""
        return SkeletonListener()


@hookimpl
def tidelog_transports() -> Iterable[TransportBackend]:
    """Offer the transport."""
    return [SkeletonTransport()]
