"""A broker's storage in memory."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from tidelog.kernel.errors import LogDirNotFound, StorageError
from tidelog.kernel.seams.storage import (
    BrokerRegistration,
    LogDirectoryView,
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
    TopicRecord,
)
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig


class MemoryRegistry:
    """Topics, cluster id and producer ids, for as long as the process lives."""

    def __init__(self) -> None:
        self.cluster_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self._topics: dict[str, TopicRecord] = {}
        self._broker_configs: dict[int | None, Mapping[str, str]] = {}
        self._next_producer_id = 0

    def topics(self) -> Sequence[TopicRecord]:
        """All topics."""
        return list(self._topics.values())

    async def put_topic(self, record: TopicRecord) -> None:
        """Add or replace a topic."""
        self._topics[record.name] = record

    async def remove_topic(self, name: str) -> None:
        """Forget a topic."""
        self._topics.pop(name, None)

    def broker_config(self, node_id: int | None) -> Mapping[str, str]:
        """What was set for a broker, or for all."""
        return self._broker_configs.get(node_id, {})

    async def put_broker_config(self, node_id: int | None, config: Mapping[str, str]) -> None:
        """Replace it."""
        self._broker_configs[node_id] = dict(config)

    async def allocate_producer_ids(self, count: int) -> range:
        """Producer ids that were never given out before."""
        first = self._next_producer_id
        self._next_producer_id += count
        return range(first, first + count)

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Nobody else ever reads this registry, so there is nothing to note."""


class MemoryStorage:
    """See `Storage`."""

    def __init__(self, context: StorageContext) -> None:
        self._now_ms = context.now_ms
        self._open: dict[TopicPartition, MemoryPartitionStore] = {}
        self.metadata = MemoryRegistry()
        self.clean_start = True
        self.failed_partitions: Mapping[TopicPartition, str] = {}

    async def open(self) -> None:
        """Nothing has to be read or locked."""

    def check_topic(self, config: TopicConfig) -> None:
        """Everything goes: what concerns files has no effect here."""

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """See `Storage.open_partitions`.

        Raises:
            StorageError: one of them is open already.
        """
        wanted = {spec.topic_partition for spec in specs}
        if wanted & self._open.keys() or len(wanted) < len(specs):
            raise StorageError("a partition cannot be opened twice")
        stores = [MemoryPartitionStore(spec.config, self._now_ms) for spec in specs]
        self._open.update(zip([spec.topic_partition for spec in specs], stores, strict=True))
        if progress is not None:
            progress(len(stores))
        return stores

    async def set_strays_aside(self) -> None:
        """Nothing is there but what was opened."""

    async def log_directories(self) -> Sequence[LogDirectoryView]:
        """There are none."""
        return ()

    async def move_partition(self, partition: TopicPartition, path: str) -> None:
        """See `Storage.move_partition`.

        Raises:
            LogDirNotFound: always.
        """
        raise LogDirNotFound(f"{path} is no log directory: the storage is in memory")

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Forget them; their bytes go once no region holds them."""
        for partition, _ in partitions:
            self._open.pop(partition).close()

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """See `Storage.close_partitions`; none of them waits for anything."""
        for partition, job in jobs:
            self._open.pop(partition, None)
            job()

    async def close(self) -> None:
        """Close the stores that are still open; nothing is kept."""
        for store in self._open.values():
            store.close()
        self._open.clear()
