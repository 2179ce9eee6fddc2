"""TCP ports on loopback that belong to this process, for servers that cannot pick one and tell."""

from __future__ import annotations

import atexit
import random
import socket
import sys
from typing import Final

LOOPBACK = "127.0.0.1"
# Below those of outgoing connections: while a server is down between two starts, a client that tries to reach
# it would else get its port now and then, or even connect to itself.
_PORTS: Final = range(12_000, 32_000)
_claims: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on, and that no other process gets from here while this one lives.

    Raises:
        OSError: there are none.
    """
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if _claimed(port) and _can_be_bound(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} ports of {_PORTS} are free")


def free_port() -> int:
    """Return one port, as `free_ports` does."""
    return free_ports(1)[0]


def plain_and_tls(port: int, tls_port: int) -> str:
    """Return `listeners` with one for plain clients and one for clients that use TLS."""
    return f"PLAINTEXT://{LOOPBACK}:{port},SSL://{LOOPBACK}:{tls_port}"


def _can_be_bound(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _claimed(port: int) -> bool:
    """Claim it against other test runs by a name that the system frees when this process ends."""
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0tidelog-tests-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


@atexit.register
def _give_back() -> None:
    while _claims:
        _claims.pop().close()
