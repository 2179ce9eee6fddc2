"""Limits on open connections, in all, of a listener and of an address (`max.connections*`).

As in Kafka, connections above the limit of the broker or of their listener wait in the system's backlog,
while those above the limit of an address are refused. Those wait, too, that would take the descriptors which
the storage needs for its files (`connections_within`).
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Iterable, Mapping

import attrs
import trio

from tidelog.kernel.config import keys
from tidelog.kernel.config.types import INT_MAX
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.rate_limit import RateLimit

_log = logging.getLogger(__name__)

LEAST_RESERVE = 64
"""Descriptors that a broker needs beside its connections: listeners, logs, some files of partitions."""
RESERVED_SHARE = 4
"""One in so many descriptors is kept for files of partitions."""
_FULL_INTERVAL_SECONDS = 60.0


def connections_within(descriptors: int) -> int:
    """Return how many connections a process may have open that may have so many descriptors.

    At least a quarter of a small limit.
    """
    reserve = max(LEAST_RESERVE, descriptors // RESERVED_SHARE)
    return max(descriptors - reserve, descriptors // RESERVED_SHARE, 1)


def limits_by_address(limits_by_host: Mapping[str, int]) -> dict[str, int]:
    """Blocking: return the limits by address, with host names resolved.

    Raises:
        ConfigError: a host is unknown.
    """
    limits: dict[str, int] = {}
    for host, limit in limits_by_host.items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(
                f"{keys.MAX_CONNECTIONS_PER_IP_OVERRIDES.name}: host {host!r} is unknown: {error.strerror}"
            ) from error
        limits.update((str(address[0]), limit) for *_, address in found)
    return limits


@attrs.define
class ConnectionLimits:
    """Counts open connections and refuses those beyond the limits."""

    max_connections: int
    max_per_ip: int
    per_ip_overrides: Mapping[str, int]
    max_per_listener: Mapping[str, int] = attrs.field(factory=dict[str, int])
    max_by_descriptors: int = INT_MAX
    _full: RateLimit = attrs.field(factory=lambda: RateLimit(_FULL_INTERVAL_SECONDS), init=False)
    _per_listener: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _per_ip: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _total: int = attrs.field(default=0, init=False)
    _one_ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    def change(self, max_connections: int, max_per_ip: int, max_per_listener: Mapping[str, int]) -> None:
        """Change the limits; connections that are open stay."""
        self.max_connections, self.max_per_ip = max_connections, max_per_ip
        self.max_per_listener = max_per_listener
        self._wake_waiting()

    async def wait_for_room(self, listener: str = "") -> None:
        """Wait until fewer are open than there may be, of all and of the listener."""
        while self._total >= min(self.max_connections, self.max_by_descriptors) or self._is_full(listener):
            if self._total >= self.max_by_descriptors and self._full.admit("descriptors") is not None:
                _log.warning(
                    "%d connections are open: further ones wait, since the other descriptors are for files; "
                    "raise the limit of open files (ulimit -n)",
                    self._total,
                )
            await self._one_ended.wait()

    def refusal(self, host: str) -> str | None:
        """Return why a further connection from `host` is refused, None if it is not."""
        limit = self.per_ip_overrides.get(host, self.max_per_ip)
        if self._per_ip[host] >= limit:
            return f"{limit} connections of {host} are open (max.connections.per.ip and its overrides)"
        return None

    def opened(self, host: str, listener: str = "") -> None:
        """Count a connection from `host` that was accepted."""
        self._per_listener[listener] += 1
        self._total += 1
        self._per_ip[host] += 1

    def by_listener(self, listeners: Iterable[str]) -> Mapping[str, int]:
        """Return how many are open of each of these listeners; it may be called in a thread."""
        return {name: self._per_listener[name] for name in listeners}

    def closed(self, host: str, listener: str = "") -> None:
        """Count a connection from `host` that has ended."""
        self._per_listener[listener] -= 1
        self._total -= 1
        self._per_ip[host] -= 1
        # Addresses come from peers: without this the counts of all that ever connected would stay.
        if not self._per_ip[host]:
            del self._per_ip[host]
        self._wake_waiting()

    def _is_full(self, listener: str) -> bool:
        limit = self.max_per_listener.get(listener)
        return limit is not None and self._per_listener[listener] >= limit

    def _wake_waiting(self) -> None:
        # Set and replaced at once: each of those that wait looks again, and the ones without room wait for
        # the next.
        self._one_ended.set()
        self._one_ended = trio.Event()
