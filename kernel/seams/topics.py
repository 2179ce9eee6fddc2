"""Topics as plugins use them: finding, creating, changing and deleting them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import attrs

from tidelog.kernel.config import Alter, TopicConfig

if TYPE_CHECKING:
    from tidelog.kernel.log.memory_budget import Unpacking
    from tidelog.kernel.replica import Partition


@attrs.frozen
class TopicSpec:
    """A topic to create; counts of -1 mean the broker's defaults.

    `is_registered`: a part of the broker declared it; settings that no part of it reads have no effect.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_registered: bool = False


class Topic(Protocol):
    """An open topic; `partitions[n]` is partition n."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def topic_id(self) -> UUID:
        """Its id, which no other topic ever has."""
        ...

    @property
    def partitions(self) -> Sequence[Partition]:
        """Its partitions, by number."""
        ...

    @property
    def config(self) -> TopicConfig:
        """The configuration in force."""
        ...

    @property
    def overrides(self) -> Mapping[str, str]:
        """What is set for this topic, as text in Kafka's notation."""
        ...

    @property
    def is_internal(self) -> bool:
        """Whether it holds the state of a coordinator."""
        ...


class Topics(Protocol):
    """All topics of a broker."""

    @property
    def version(self) -> int:
        """A number that grows when a topic is created or deleted or gets partitions."""
        ...

    @property
    def closing(self) -> bool:
        """Whether the broker stops: no request may wait for records any more."""
        ...

    @property
    def unpacking(self) -> Unpacking:
        """Memory and threads for decompressing records."""
        ...

    def __iter__(self) -> Iterator[Topic]: ...

    def __len__(self) -> int: ...

    def find(self, name: str) -> Topic | None:
        """Return the topic of that name, None without one."""
        ...

    def find_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id (its 16 bytes), None without one."""
        ...

    def get(self, name: str) -> Topic:
        """Return the topic of that name.

        Raises:
            UnknownTopicOrPartition: there is none.
        """
        ...

    def get_by_id(self, topic_id: bytes) -> Topic:
        """Return the topic with that id (its 16 bytes).

        Raises:
            UnknownTopicId: there is none.
        """
        ...

    def partitions(self) -> Iterator[Partition]:
        """Iterate over every partition of every topic."""
        ...

    def register_internal_topic(self, new: TopicSpec) -> None:
        """Register the partitions and configuration that `ensure` creates an internal topic with."""
        ...

    async def create(self, new: TopicSpec) -> Topic:
        """Create a topic, durably.

        Raises:
            BrokerError: the request is refused, see `Controller.check_topic`.
            StorageError: the disk refused; there is no such topic.
        """
        ...

    async def ensure(self, name: str) -> Topic:
        """Return the topic of that name; create it if it is missing, as registered or with the defaults.

        Raises:
            BrokerError: as `create`.
        """
        ...

    def request(self, name: str) -> None:
        """Create the topic in the background, as `ensure` does; a failure is logged."""
        ...

    async def alter_config(self, name: str, alter: Alter, *, validate_only: bool = False) -> None:
        """Change what a topic sets for itself, durably; `alter` gives the new settings from the present ones.

        Raises:
            UnknownTopicOrPartition: there is none.
            InvalidTopicConfig: an unknown key or a bad value is new.
            BrokerError: what `alter` raises.
            StorageError: the disk refused; the configuration is as before.
        """
        ...

    async def grow(self, name: str, count: int) -> None:
        """Give a topic more partitions, durably, so that it has `count`.

        Raises:
            UnknownTopicOrPartition, InvalidRequest, InvalidPartitions: see `Controller.check_partitions`.
            StorageError: the disk refused; the topic is as before.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a topic, durably.

        Raises:
            UnknownTopicOrPartition: there is none.
            StorageError: the disk refused; the topic is as before.
        """
        ...
