"""An opened storage: all partitions of one broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from tidelog.kernel.seams.storage.partition_store import PartitionStore, TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig


class PartitionSpec(NamedTuple):
    """A partition to open."""

    topic_partition: TopicPartition
    topic_id: UUID
    config: TopicConfig


class StoredPartition(NamedTuple):
    """A partition in a log directory; `offset_lag` is how far a copy that is to replace it is behind it."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirectoryView(NamedTuple):
    """A log directory; sizes are those of its file system, in bytes, -1 when unknown.

    `failure` says why it is offline, None: it is not.
    """

    path: str
    partitions: Sequence[StoredPartition]
    total_bytes: int = -1
    usable_bytes: int = -1
    failure: str | None = None


class LogDirectoryAdmin(Protocol):
    """What a storage with several log directories offers to an administrator (KIP-113)."""

    async def describe(self) -> Sequence[LogDirectoryView]:
        """Return all log directories, offline ones too, sorted by path."""
        ...

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Begin to move an open partition to another log directory, while it is used.

        Asking again is no error. The move runs in the background; moving the partition back to where it is
        cancels it.

        Raises:
            LogDirNotFound: `path` is no log directory.
            StorageError: that log directory, or the partition, is offline.
            OSError: the disk refused.
        """
        ...


class Storage(Protocol):
    """One opened storage: all partitions of one broker.

    It opens and closes the metadata store that its context has, see `tidelog.kernel.seams.metadata`.
    """

    @property
    def log_directories(self) -> LogDirectoryAdmin | None:
        """The log directories, None for a storage without any."""
        ...

    @property
    def clean_start(self) -> bool:
        """Whether the last user closed it properly (True for a new one), known after `open`."""
        ...

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """Partitions that cannot be served since the place of their data failed, and why.

        `open_partitions` gives stores for them, which are empty and refuse everything.
        """
        ...

    async def open(self) -> None:
        """Lock it, and open and activate the metadata store of its context.

        Raises:
            ConfigError: its place cannot be used; the message says why and what to do.
        """
        ...

    def check_topic(self, config: TopicConfig) -> None:
        """Make sure that a topic can be kept as `config` asks for, before it is created or changed.

        For a change, `config` has the settings that are new, over the broker's defaults.

        Raises:
            InvalidTopicConfig: it cannot.
        """
        ...

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Open partitions, creating those that are not there, recovering those that need it.

        `progress` is called on the event loop with the number of partitions that are done. When one fails,
        none is open, and none was created.

        Raises:
            StorageError: a partition is open already, or its place belongs to something else.
            OSError: the disk refused.
        """
        ...

    async def quarantine_stray_partitions(self) -> None:
        """Move aside, and keep, partitions of no topic: all partitions of all topics are open by now."""
        ...

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Take open partitions away for good; readers that hold regions are not disturbed."""
        ...

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Run the blocking jobs that close open partitions, as many at once as is good for their places.

        No job raises. All are done on return.
        """
        ...

    async def close(self) -> None:
        """Close every store, then the metadata store; make all durable, record the clean stop, unlock."""
        ...
