"""A storage: wraps the one in memory, and counts the bytes that are appended to each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage import (
    ForwardingStorage,
    ForwardingStore,
    PartitionStore,
    Storage,
    StorageBackend,
    StorageContext,
    TopicPartition,
)

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

WRAPPED = "memory"


class SkeletonStore(ForwardingStore):
    """The log of one partition; override what it shall do in another way (`PartitionStore`)."""

    def __init__(
        self, partition: TopicPartition, wrapped: PartitionStore, counts: Counter[TopicPartition]
    ) -> None:
        super().__init__(wrapped)
        self._partition = partition
        self._counts = counts

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Append, then count, since an append may fail."""
        rolled = self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)
        self._counts[self._partition] += len(batch)
        return rolled


class SkeletonStorage(ForwardingStorage):
    """All partitions of a broker."""

    def __init__(self, wrapped: Storage) -> None:
        super().__init__(wrapped)
        self.appended_bytes: Counter[TopicPartition] = Counter()

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        """Return the store of a partition."""
        return SkeletonStore(partition, store, self.appended_bytes)


class SkeletonStorageBackend:
    """What the key `storage` chooses."""

    name = "skeleton"
    durable = False

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet."""
        return SkeletonStorage(context.backend(WRAPPED).create(context))


@hookimpl
def tidelog_storage_backends() -> Iterable[StorageBackend]:
    """Offer the storage."""
    return [SkeletonStorageBackend()]
