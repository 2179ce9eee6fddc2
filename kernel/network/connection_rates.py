"""Limits on how many connections are created per second (KIP-612).

`max.connection.creation.rate` is for all connections of the broker, or of one listener: a listener that
exceeds either pauses before it serves the connection. The quota `connection_creation_rate` is for those of
one address: one above it is not served, and closed after a pause. As in Apache Kafka rates are measured over
the samples of `quota.window.num`, and a pause is as long as the rate needs to fall to its limit, at most one
sample.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.kernel.metadata.client_quotas import IP, QuotaEntity
from tidelog.kernel.rates import SampledRate, SampleWindows

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
ADDRESSES_BEFORE_FORGETTING: Final = 1000
"""Most addresses whose rates are kept without looking for those that have none any more."""


class ConnectionRate:
    """Rate of connections, measured over samples."""

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._rate = SampledRate(windows)

    def pause(self, now: float, limit: int) -> float:
        """Count a connection at `now`; return for how many seconds the rate is above `limit` per second."""
        self._rate.add(1, now)
        return min(self._rate.excess_seconds(limit, now), self._windows.seconds)

    def uncount(self, now: float) -> None:
        """Take back the connection that was counted at `now`, which is not served."""
        # As a connection that is refused does not count, a client that keeps trying gets through in the end.
        self._rate.add(-1, now)

    def is_old(self, now: float) -> bool:
        """Return whether nothing counted is recent enough to matter."""
        return self._rate.is_idle(now)


class AddressRates:
    """Rates of the addresses that have a quota, by address or by default."""

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._limits: dict[str, int] = {}
        self._default: int | None = None
        self._rates: dict[str, ConnectionRate] = {}
        self._forget_at = 0.0

    def use(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> list[str]:
        """Apply the quotas of addresses; return the host names among them, which `use_hosts` takes."""
        self._limits, self._default = {}, None
        hosts: list[str] = []
        for name, limit in _limits(quotas):
            address = name and plain_address(name)
            if name is None:
                self._default = limit
            elif address:
                self._limits[address] = limit
            else:
                hosts.append(name)
        return hosts

    def use_hosts(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float]], addresses: Mapping[str, Iterable[str]]
    ) -> None:
        """Apply the quotas of host names to their `addresses`; that of an address itself takes precedence."""
        for name, limit in _limits(quotas):
            for address in addresses.get(name or "", ()):
                self._limits.setdefault(address, limit)

    def pause(self, host: str, now: float) -> float:
        """Count a connection of `host`; return the seconds until it is to be closed, 0 if it is served."""
        limit = self._limits.get(host, self._default)
        if limit is None:
            return 0.0
        rate = self._rates.get(host)
        if rate is None:
            self._forget(now)
            rate = self._rates[host] = ConnectionRate(self._windows)
        seconds = rate.pause(now, limit)
        if seconds:
            rate.uncount(now)
        return seconds

    def _forget(self, now: float) -> None:
        """Drop the rates of addresses without recent connections, where there are many."""
        if len(self._rates) < ADDRESSES_BEFORE_FORGETTING or now < self._forget_at:
            return
        self._rates = {host: rate for host, rate in self._rates.items() if not rate.is_old(now)}
        self._forget_at = now + self._windows.samples * self._windows.seconds


def plain_address(name: str) -> str | None:
    """Return an address as sockets report it, None for what is not one."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return None


def _limits(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> Iterable[tuple[str | None, int]]:
    """Return the limits by name: an address, a host, or None for all that have no other."""
    for entity, values in quotas.items():
        if CONNECTION_CREATION_RATE in values:
            for kind, name in entity:
                if kind == IP:
                    yield name, int(values[CONNECTION_CREATION_RATE])
