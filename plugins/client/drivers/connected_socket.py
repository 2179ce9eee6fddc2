"""A socket that is connected to a broker, for drivers whose threads may block for it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.security import SecuritySettings


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
