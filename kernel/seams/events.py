"""The event seam: what happened to topics, partitions and configuration.

A listener is an ordinary function that gets each event once, in the order in which things happened, on the
event loop. It must return soon: what takes longer is started as a job (`Tasks.once`, `Tasks.in_thread`).
An error that it raises is logged and stops nothing: not what caused the event, and not the other listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tidelog.kernel.seams.partition import Partition
from tidelog.kernel.seams.topics import Topic


class TopicCreated(NamedTuple):
    """A topic was created; it is durable, and its partitions are open."""

    topic: Topic


class TopicDeleted(NamedTuple):
    """A topic was deleted; it cannot be found any more, and its partitions are offline."""

    topic: Topic


class PartitionsOpened(NamedTuple):
    """Partitions of a topic serve from now on: at the start, in a new topic, or as further ones of an old."""

    topic: Topic
    partitions: Sequence[Partition]


class PartitionMoved(NamedTuple):
    """A partition lies in another log directory now."""

    partition: Partition
    path: str


class PartitionsOffline(NamedTuple):
    """Partitions cannot be served until a restart, since their log directory failed."""

    partitions: Sequence[Partition]
    reason: str


class TopicConfigChanged(NamedTuple):
    """Another configuration of a topic is in force, set for it or for the broker."""

    topic: Topic


class BrokerConfigChanged(NamedTuple):
    """Other values of the broker's dynamic keys are in force."""


Event: TypeAlias = (
    TopicCreated
    | TopicDeleted
    | PartitionsOpened
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
