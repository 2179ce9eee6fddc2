"""Who says which partitions a connector has: the seam, and the choice by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tidelog.plugins.client.zookeeper_ensemble import ensemble_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.core import ConnectorCore
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers


class Coordination(Protocol):
    """Who says which partitions the connector has."""

    def join(self, topics: Mapping[str, int], topic_filter: TopicFilter | None, streams: int) -> None:
        """Join the group for topics with their numbers of streams, or for those of a filter."""
        ...

    def consumer_changed(self) -> None:
        """Look at what the consumer under the connector has found out."""
        ...

    def commit(
        self, offsets: Mapping[TopicPartition, int], done: Callable[[ClientError | None], None]
    ) -> None:
        """Commit offsets; `done` is called later, or from here."""
        ...

    def leave(self, done: Callable[[], None]) -> None:
        """Stop all streams, commit what was consumed if that is automatic, and leave the group."""
        ...


def new_coordination(core: ConnectorCore, bootstrap: BootstrapServers) -> Coordination:
    """Return the coordination that the settings of a connector name.

    Raises:
        ValueError: it is through ZooKeeper, and neither the settings nor the bootstrap servers name one.
    """
    # Each is imported where it is used: one needs kazoo.
    settings = core.settings
    if settings.coordination == "broker":
        from tidelog.plugins.client.connector.group_coordination import GroupCoordination

        return GroupCoordination(core)
    ensemble = ensemble_of(bootstrap) if settings.zookeeper is None else settings.zookeeper
    if ensemble is None:
        raise ValueError("coordination is zookeeper: name one by `zookeeper`, or instead of brokers")
    from tidelog.plugins.client.connector.zookeeper_coordination import ZooKeeperCoordination

    return ZooKeeperCoordination(core, ensemble)
