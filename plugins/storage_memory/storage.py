"""Storage of one broker in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import StorageError
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.seams.storage import (
    LogDirectoryAdmin,
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
)
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.seams.storage.directories import DataDirectories, KnownTopics
    from tidelog.kernel.seams.tasks import BackgroundTask


class MemoryStorage:
    """`Storage` in the memory of this process."""

    data_directories: DataDirectories | None = None
    log_directories: LogDirectoryAdmin | None = None

    def __init__(self, context: StorageContext) -> None:
        self._now_ms = context.now_ms
        self._open: dict[TopicPartition, MemoryPartitionStore] = {}
        self.clean_start = True
        self.failed_partitions: Mapping[TopicPartition, str] = {}

    async def open(self) -> None:
        """Do nothing: nothing has to be locked."""

    async def load(self, known: KnownTopics) -> None:
        """Do nothing: nothing was kept."""

    def abandon(self) -> None:
        """Do nothing: the memory is released with the stores."""

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return none."""
        return ()

    def check_topic(self, config: TopicConfig) -> None:
        """Accept every configuration: keys of files have no effect here."""

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Create a store for each partition.

        Raises:
            StorageError: one of them is open already.
        """
        stores = await run_in_steps(
            each_in_steps(specs, lambda spec: MemoryPartitionStore(spec.config, self._now_ms))
        )
        # No other task runs from here on, so that one of two openings of a partition fails as a whole.
        wanted = {spec.topic_partition for spec in specs}
        if wanted & self._open.keys() or len(wanted) < len(specs):
            raise StorageError("a partition cannot be opened twice")
        self._open.update(zip([spec.topic_partition for spec in specs], stores, strict=True))
        if progress is not None:
            progress(len(stores))
        return stores

    async def quarantine_stray_partitions(self) -> None:
        """Do nothing: there are no partitions but those that were opened."""

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Drop the stores; their memory is released with the last region."""
        pace = Pace()
        for partition, _ in partitions:
            self._open.pop(partition).close()
            await pace.turn()

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Close partitions, one after the other."""
        for partition, job in jobs:
            self._open.pop(partition, None)
            job()

    async def finish_writes(self) -> None:
        """Close the stores that are still open; nothing is kept."""
        for store in self._open.values():
            store.close()
        self._open.clear()

    async def close(self, broker_epoch: int) -> None:
        """Do nothing: nothing was locked."""
