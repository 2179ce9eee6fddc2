"""An opened storage: all partitions of one broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.seams.storage.directories import DataDirectories, KnownTopics
    from tidelog.kernel.seams.tasks import BackgroundTask


class PartitionSpec(NamedTuple):
    """A partition to open."""

    topic_partition: TopicPartition
    topic_id: UUID
    config: TopicConfig


class StoredPartition(NamedTuple):
    """A partition in a log directory; `offset_lag` is the lag of its future replica (KIP-113)."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int = 0
    is_future: bool = False


class LogDirectoryView(NamedTuple):
    """A log directory; sizes are those of its file system, in bytes, -1 when unknown.

    `failure` is why it is offline, None if it is not.
    """

    path: str
    partitions: Sequence[StoredPartition]
    total_bytes: int = -1
    usable_bytes: int = -1
    failure: str | None = None


class LogDirectoryAdmin(Protocol):
    """Administration of log directories (KIP-113)."""

    async def describe(self) -> Sequence[LogDirectoryView]:
        """Return all log directories, offline ones too, sorted by path."""
        ...

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Start to move an open partition to another log directory, while it is used.

        A repeated request is no error. The move runs in the background; a move to the present directory
        cancels it.

        Raises:
            LogDirNotFound: `path` is no log directory.
            StorageError: that log directory, or the partition, is offline.
            OSError: the disk refused.
        """
        ...


class Storage(Protocol):
    """One opened storage: all partitions of one broker.

    It is opened in two steps, `open` and `load`, and closed in two, `finish_writes` and `close`: what else is
    in its directories is opened between the first two, and closed between the last two.
    """

    @property
    def data_directories(self) -> DataDirectories | None:
        """The directories that others may use from `open` on, None for a storage without any."""
        ...

    @property
    def log_directories(self) -> LogDirectoryAdmin | None:
        """The log directories, None for a storage without any."""
        ...

    @property
    def clean_start(self) -> bool:
        """Whether the last stop was clean (True for a new storage), known after `load`."""
        ...

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """Partitions that cannot be served since their log directory failed, and why.

        `open_partitions` returns empty stores for them, which refuse everything.
        """
        ...

    async def open(self) -> None:
        """Lock it; `data_directories` can be used from now on.

        Raises:
            ConfigError: it cannot be used; the message names the cause and the remedy.
            OSError: the disk refused.
        """
        ...

    async def load(self, known: KnownTopics) -> None:
        """Finish what a crash left half done, by the topics that there are; now partitions can be opened.

        Raises:
            OSError, StorageError: the disk refused.
        """
        ...

    def abandon(self) -> None:
        """Release it as it is, as the end of the process would; also after an error of `open` or `load`."""
        ...

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the work on the open storage that runs as long as the broker does, its own nowhere else."""
        ...

    def check_topic(self, config: TopicConfig) -> None:
        """Check that the storage supports the configuration of a topic that is to be created or changed.

        For a change, `config` has the settings that are new, over the broker's defaults.

        Raises:
            InvalidTopicConfig: it does not.
        """
        ...

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Open partitions, create those that do not exist, and recover those that need it.

        `progress` is called on the event loop with the number of partitions that are done. When one fails,
        none is open, and none was created.

        Raises:
            StorageError: a partition is open already, or its directory belongs to another one.
            OSError: the disk refused.
        """
        ...

    async def quarantine_stray_partitions(self) -> None:
        """Rename partitions of no topic to `-stray`; all partitions of all topics are open by now."""
        ...

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Delete open partitions; regions that were returned stay readable."""
        ...

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Run the blocking jobs that close open partitions, as many at once as suits their directories.

        No job raises. All are done on return.
        """
        ...

    async def finish_writes(self) -> None:
        """Close every store that is still open; all is durable on return, and only `close` is called.

        Raises:
            StorageError: something could not be made durable.
        """
        ...

    async def close(self, broker_epoch: int) -> None:
        """Record the clean stop, if all was durable, and unlock; also after an error of `finish_writes`.

        `broker_epoch` is that of this broker's registration (KIP-966).

        Raises:
            StorageError: the clean stop could not be recorded.
        """
        ...
