"""Free TCP ports on loopback, for peers that cannot pick one and tell."""

from __future__ import annotations

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """`count` different ports that nothing on loopback listens on right now.

    All are held until the last is found, so they differ; between this call and their use another process
    may still take one, so use them soon.
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]


def free_port() -> int:
    """One port that nothing on loopback listens on right now."""
    return free_ports(1)[0]
