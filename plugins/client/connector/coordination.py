"""Who says which partitions a connector has: the seam, and the choice by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.connector.core import ConnectorCore
    from tidelog.plugins.client.connector.topic_filters import TopicFilter
    from tidelog.plugins.client.engine import EngineIo
    from tidelog.plugins.client.errors import ClientError


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


def new_coordination(core: ConnectorCore, io: EngineIo) -> Coordination:
    """Return the coordination that the settings of a connector name."""
    from tidelog.plugins.client.connector.group_coordination import GroupCoordination

    del io
    return GroupCoordination(core)
