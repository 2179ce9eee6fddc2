"""The address that clients are told for each listener."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from tidelog.kernel.config import Config

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound


def advertised_addresses(config: Config, bound: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Listener name → (host, port) to tell clients; `bound` has what the sockets are bound to.

    What `advertised.listeners` says wins, with the bound port in place of port 0. Otherwise clients are told
    the address that is listened at, and this machine's name for a listener on every address.
    """
    told: dict[str, tuple[str, int]] = {}
    for listener in config.served_listeners():
        host, port = bound[listener.name]
        if listener.advertised is not None:
            told[listener.name] = listener.advertised.host, listener.advertised.port or port
        else:
            told[listener.name] = socket.gethostname() if host in EVERY_ADDRESS else listener.host, port
    return told
