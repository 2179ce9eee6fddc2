"""Who is there, who leads what: the one object to ask. Today the answer is always this broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.kernel.seams.cluster import BrokerEndpoint


class Cluster:
    """The brokers, the leaders and the coordinators, as one broker sees them."""

    def __init__(self, node_id: int, cluster_id: str, rack: str | None) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.rack = rack
        self._advertised: Mapping[str, tuple[str, int]] = {}

    def advertise(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Set the address that clients of each listener are told."""
        self._advertised = dict(addresses)

    def brokers(self, listener_name: str) -> Sequence[BrokerEndpoint]:
        """All brokers, with the addresses that a client of that listener can reach."""
        return (self.this_broker(listener_name),)

    def this_broker(self, listener_name: str) -> BrokerEndpoint:
        """This broker's own entry."""
        host, port = self._advertised[listener_name]
        return BrokerEndpoint(self.node_id, host, port, self.rack)

    @property
    def controller_id(self) -> int:
        """The broker to send changes of topics to."""
        return self.node_id

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition."""
        return self.node_id

    def coordinator_for(self, key: str, listener_name: str) -> BrokerEndpoint:
        """The broker that coordinates a group or a transactional id."""
        return self.this_broker(listener_name)
