"""Socket with its protocol state: sends and receives without waiting. The drivers wait."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, cast

from tidelog.plugins.client.connection import ClientConnection

if TYPE_CHECKING:
    from ssl import SSLSocket

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.requests import BrokerVersions
    from tidelog.plugins.client.sasl import SaslLogin
    from tidelog.plugins.client.settings import ClientSettings


class Link:
    """Connected non-blocking socket and the protocol state of its connection.

    An error of the socket sets `wire.failure`; no method raises `OSError`.
    """

    def __init__(
        self,
        sock: socket.socket,
        address: Address,
        settings: ClientSettings,
        versions: BrokerVersions | None = None,
        login: SaslLogin | None = None,
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = sock
        self._is_tls = settings.security.uses_tls
        self.wire = ClientConnection(
            str(address),
            client_id=settings.client_id,
            max_response_bytes=settings.max_response_bytes,
            versions=versions,
            login=login,
        )

    @property
    def has_outgoing(self) -> bool:
        """Return whether bytes are left to send."""
        return self.wire.has_outgoing

    def send(self) -> bool:
        """Send as much as the socket accepts; return whether bytes are left."""
        wire = self.wire
        try:
            while wire.has_outgoing:
                wire.bytes_sent(self.socket.sendmsg(wire.outgoing()))
        except BlockingIOError:
            return True
        except OSError as error:
            wire.connection_lost(reason_of(error))
        return False

    def receive(self) -> None:
        """Receive once."""
        try:
            self.wire.bytes_received(self.socket.recv_into(self.wire.receive_buffer()))
            # A record is decrypted as a whole: the rest of it makes no socket readable.
            while self._is_tls and cast("SSLSocket", self.socket).pending():
                self.wire.bytes_received(self.socket.recv_into(self.wire.receive_buffer()))
        except BlockingIOError:
            pass
        except OSError as error:
            self.wire.connection_lost(reason_of(error))

    def close(self) -> None:
        """Close the socket; requests in flight get `BrokerClosed`."""
        self.wire.connection_lost("this client closed it")
        self.socket.close()


def reason_of(error: BaseException) -> str:
    """Return a short text for the system's error of a failed connection."""
    if isinstance(error, ExceptionGroup):
        return reason_of(cast("ExceptionGroup[Exception]", error).exceptions[0])
    if isinstance(error, OSError) and error.errno is None and error.__cause__ is not None:
        return reason_of(error.__cause__)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()  # the same text for errors raised by Python and by the system
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).lower()
