"""The plain transport: bytes as they are, and files by `sendfile`."""

from __future__ import annotations

import os
import socket

import trio

from tidelog.kernel.config import Config
from tidelog.kernel.seams.transport import ListenerTransport, TcpSocket
from tidelog.kernel.seams.wire import Peer

PLAINTEXT = "PLAINTEXT"
"""The security protocol of the plain transport, which the kernel has itself."""


class PlainTransport(TcpSocket):
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


class PlainListeners:
    """The plain transport, of any listener."""

    name: str = PLAINTEXT

    def create(self, config: Config, listener: str) -> ListenerTransport:
        """Return itself: no listener has settings of its own."""
        return self

    def accept(self, accepted: socket.socket, peer: Peer) -> PlainTransport:
        """Take over a socket."""
        return PlainTransport.of(accepted)

    async def run(self) -> None:
        """Return at once."""
        await trio.lowlevel.checkpoint()

    def follow(self, config: Config) -> None:
        """Do nothing."""

    def check(self, config: Config) -> None:
        """Accept each."""
