"""The event seam: notifications about topics, partitions and configuration.

A listener is a function that is called with each event once, in order, on the event loop. It must return
soon: longer work is started as a job (`Tasks.once`, `Tasks.in_thread`). An error that it raises is logged; it
affects neither the cause of the event nor the other listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from tidelog.kernel.replica import Partition
    from tidelog.kernel.topics import Topic


class TopicCreated(NamedTuple):
    """A topic was created; it is durable, and its partitions are open."""

    topic: Topic


class TopicDeleted(NamedTuple):
    """A topic was deleted; it cannot be found any more, and its partitions are offline."""

    topic: Topic


class PartitionsOpened(NamedTuple):
    """Partitions of a topic are in service: at the start, of a new topic, or added to a topic."""

    topic: Topic
    partitions: Sequence[Partition]


class LeadershipChanged(NamedTuple):
    """Partitions that this broker leads from now on, or no longer, or in another epoch; see `is_leader`."""

    partitions: Sequence[Partition]


class PartitionMoved(NamedTuple):
    """A partition was moved to another log directory."""

    partition: Partition
    path: str


class PartitionsOffline(NamedTuple):
    """Partitions cannot be served until a restart, since their log directory failed."""

    partitions: Sequence[Partition]
    reason: str


class TopicConfigChanged(NamedTuple):
    """The configuration of a topic has changed, by its own settings or by the broker's defaults."""

    topic: Topic


class BrokerConfigChanged(NamedTuple):
    """The values of the broker's dynamic keys have changed."""


Event: TypeAlias = (
    TopicCreated
    | TopicDeleted
    | PartitionsOpened
    | LeadershipChanged
    | PartitionMoved
    | PartitionsOffline
    | TopicConfigChanged
    | BrokerConfigChanged
)
EventListener: TypeAlias = Callable[[Event], None]


class Events(Protocol):
    """The events of one broker."""

    def subscribe(self, listener: EventListener) -> None:
        """Call `listener` with every event from now on, after those who subscribed before it."""
        ...
