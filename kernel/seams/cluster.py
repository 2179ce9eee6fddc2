"""The cluster as one broker sees it: the brokers, the leaders of partitions and the coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataQuorum


class BrokerEndpoint(NamedTuple):
    """The address of a broker on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster(Protocol):
    """The brokers of the cluster and what each of them is responsible for."""

    @property
    def node_id(self) -> int:
        """The id of this broker."""
        ...

    @property
    def cluster_id(self) -> str:
        """22 characters of URL-safe base64."""
        ...

    @property
    def controller_id(self) -> int:
        """The id of the broker that takes changes of topics."""
        ...

    @property
    def quorum(self) -> MetadataQuorum | None:
        """The state of the metadata log, None where the metadata is in no log."""
        ...

    def brokers(self, listener_name: str) -> Sequence[BrokerEndpoint]:
        """Return all brokers, with the addresses that a client of that listener can reach."""
        ...

    def this_broker(self, listener_name: str) -> BrokerEndpoint:
        """Return this broker's own entry."""
        ...

    def coordinator_for(self, key: str, listener_name: str) -> BrokerEndpoint:
        """Return the broker that coordinates a group or a transactional id."""
        ...
