"""Socket with its protocol state: sends and receives without waiting. The drivers wait."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, cast

from tidelog.plugins.client.connection import ClientConnection

if TYPE_CHECKING:
    from ssl import SSLSocket

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.requests import BrokerVersions
    from tidelog.plugins.client.security import SecuritySettings
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
        )

    @property
    def has_outgoing(self) -> bool:
        """Return whether bytes are left to send."""
        return bool(self.wire.outgoing())

    @property
    def is_usable(self) -> bool:
        """Return whether requests can be sent: it has not failed, and the broker has not closed it."""
        if self.wire.failure is None and not self.wire.in_flight:
            self._look_for_end()
        return self.wire.failure is None

    def send(self) -> None:
        """Send as much as the socket accepts."""
        try:
            while parts := self.wire.outgoing():
                self.wire.bytes_sent(self.socket.sendmsg(parts))
        except BlockingIOError:
            pass
        except OSError as error:
            self.wire.connection_lost(reason_of(error))

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

    def _look_for_end(self) -> None:
        """Read from an idle connection: the only valid result is that the broker closed it."""
        try:
            # With TLS 1.3 brokers send tickets, which are no response: OpenSSL has to read them.
            waiting = self.socket.recv_into(bytearray(1)) if self._is_tls else self._peek()
            self.wire.connection_lost(
                "the broker sent an unexpected response" if waiting else "the broker closed it"
            )
        except BlockingIOError:
            pass
        except OSError as error:
            self.wire.connection_lost(reason_of(error))

    def _peek(self) -> int:
        return len(self.socket.recv(1, socket.MSG_PEEK))


def connected_socket(address: Address, security: SecuritySettings, timeout_s: float) -> socket.socket:
    """Connect, with a TLS handshake if that is wanted; blocks.

    Raises:
        OSError: it is not possible in time.
    """
    deadline = time.monotonic() + timeout_s
    sock = socket.create_connection((address.host, address.port), timeout=timeout_s)
    if not security.uses_tls:
        return sock
    # OpenSSL takes longer to import than all else of a client.
    from tidelog.plugins.client.drivers.tls import secured

    return secured(sock, address.host, security, deadline - time.monotonic())


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
