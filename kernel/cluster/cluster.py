"""The cluster as this broker sees it, and the addresses that it advertises."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.kernel.config import Config
from tidelog.kernel.seams.metadata import MetadataQuorum, MetadataStore

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound


class BrokerEndpoint(NamedTuple):
    """The address of a broker on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster:
    """The brokers, the leaders and the coordinators, as one broker sees them.

    Attributes:
        node_id: the id of this broker
        rack: its rack, None without one
    """

    def __init__(self, node_id: int, metadata: MetadataStore, rack: str | None) -> None:
        self.node_id = node_id
        self.rack = rack
        self._metadata = metadata
        self._advertised: Mapping[str, tuple[str, int]] = {}

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64; known once the metadata store is open."""
        return self._metadata.image.cluster_id

    def advertise(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Set the address that clients of each listener get."""
        self._advertised = dict(addresses)

    def brokers(self, listener_name: str) -> Sequence[BrokerEndpoint]:
        """Return all brokers, with the addresses that a client of that listener can reach."""
        others = (self.find(node_id, listener_name) for node_id in self._metadata.image.brokers)
        return (
            self.this_broker(listener_name),
            *(broker for broker in others if broker is not None and broker.node_id != self.node_id),
        )

    def find(self, node_id: int, listener_name: str) -> BrokerEndpoint | None:
        """Return a broker, None if it is not alive or has no such listener."""
        if node_id == self.node_id:
            return self.this_broker(listener_name)
        broker = self._metadata.image.brokers.get(node_id)
        if broker is None or broker.fenced or listener_name not in broker.endpoints:
            return None
        host, port = broker.endpoints[listener_name]
        return BrokerEndpoint(node_id, host, port, broker.rack)

    def this_broker(self, listener_name: str) -> BrokerEndpoint:
        """Return this broker's own entry."""
        host, port = self._advertised[listener_name]
        return BrokerEndpoint(self.node_id, host, port, self.rack)

    @property
    def controller_id(self) -> int:
        """The id of the broker that takes changes of topics."""
        return self.node_id

    @property
    def quorum(self) -> MetadataQuorum | None:
        """The state of the metadata log, None where the metadata is in no log."""
        return self._metadata.quorum


def advertised_addresses(config: Config, bound: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """Return listener name → (host, port) for clients; `bound` has what the sockets are bound to.

    An entry of `advertised.listeners` comes first, with the bound port in place of port 0. Otherwise it is
    the address of the listener, and this machine's name for a listener on every address.
    """
    addresses: dict[str, tuple[str, int]] = {}
    for listener in config.served_listeners():
        host, port = bound[listener.name]
        if listener.advertised is not None:
            addresses[listener.name] = listener.advertised.host, listener.advertised.port or port
        else:
            addresses[listener.name] = socket.gethostname() if host in EVERY_ADDRESS else listener.host, port
    return addresses
