"""Base classes for a storage that wraps another one: they forward all that a plugin does not override.

    class CountingBackend:
        name = "counting"
        durable = True

        def create(self, context: StorageContext) -> Storage:
            return CountingStorage(context.backend("file").create(context))

The storage that is wrapped gets the context of the one that wraps it. docs/hooks.md has the whole example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.seams.storage.regions import LogSlice
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    SegmentDraft,
    SegmentSource,
    SegmentView,
)
from tidelog.kernel.seams.storage.storage import LogDirectoryAdmin, PartitionSpec, Storage
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.storage.directories import DataDirectories, KnownTopics
    from tidelog.kernel.seams.tasks import BackgroundTask


class ForwardingStorage:
    """A storage that hands out the stores of `wrapped` as `wrap` makes them."""

    def __init__(self, wrapped: Storage) -> None:
        self.wrapped = wrapped
        self._inner: dict[TopicPartition, PartitionStore] = {}

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        """Return what is handed out for a store of the wrapped storage, by default the store itself."""
        return store

    @property
    def data_directories(self) -> DataDirectories | None:
        """See `Storage.data_directories`."""
        return self.wrapped.data_directories

    @property
    def log_directories(self) -> LogDirectoryAdmin | None:
        """See `Storage.log_directories`."""
        return self.wrapped.log_directories

    @property
    def clean_start(self) -> bool:
        """See `Storage.clean_start`."""
        return self.wrapped.clean_start

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """See `Storage.failed_partitions`."""
        return self.wrapped.failed_partitions

    async def open(self) -> None:
        """See `Storage.open`."""
        await self.wrapped.open()

    async def load(self, known: KnownTopics) -> None:
        """See `Storage.load`."""
        await self.wrapped.load(known)

    def abandon(self) -> None:
        """See `Storage.abandon`."""
        self.wrapped.abandon()

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """See `Storage.background_tasks`."""
        return self.wrapped.background_tasks()

    def check_topic(self, config: TopicConfig) -> None:
        """See `Storage.check_topic`."""
        self.wrapped.check_topic(config)

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """See `Storage.open_partitions`."""
        names = [spec.topic_partition for spec in specs]
        opened = dict(zip(names, await self.wrapped.open_partitions(specs, progress), strict=True))
        self._inner.update(opened)
        return [self.wrap(name, opened[name]) for name in names]

    async def quarantine_stray_partitions(self) -> None:
        """See `Storage.quarantine_stray_partitions`."""
        await self.wrapped.quarantine_stray_partitions()

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """See `Storage.delete_partitions`."""
        await self.wrapped.delete_partitions([(name, self._inner.pop(name)) for name, _ in partitions])

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """See `Storage.close_partitions`."""
        await self.wrapped.close_partitions(jobs)
        for name, _ in jobs:
            self._inner.pop(name, None)

    async def finish_writes(self) -> None:
        """See `Storage.finish_writes`."""
        await self.wrapped.finish_writes()

    async def close(self, broker_epoch: int) -> None:
        """See `Storage.close`."""
        await self.wrapped.close(broker_epoch)


class ForwardingStore:
    """The store of one partition that forwards to `wrapped`."""

    def __init__(self, wrapped: PartitionStore) -> None:
        self.wrapped = wrapped

    @property
    def log_directory(self) -> str:
        """See `PartitionStore.log_directory`."""
        return self.wrapped.log_directory

    @property
    def log_start_offset(self) -> int:
        """See `PartitionStore.log_start_offset`."""
        return self.wrapped.log_start_offset

    @property
    def first_segment_offset(self) -> int:
        """See `PartitionStore.first_segment_offset`."""
        return self.wrapped.first_segment_offset

    @property
    def log_end_offset(self) -> int:
        """See `PartitionStore.log_end_offset`."""
        return self.wrapped.log_end_offset

    @property
    def size_bytes(self) -> int:
        """See `PartitionStore.size_bytes`."""
        return self.wrapped.size_bytes

    @property
    def durable_offset(self) -> int:
        """See `PartitionStore.durable_offset`."""
        return self.wrapped.durable_offset

    @property
    def aborted_known_until(self) -> int:
        """See `PartitionStore.aborted_known_until`."""
        return self.wrapped.aborted_known_until

    @property
    def checkpointed_high_watermark(self) -> int:
        """See `PartitionStore.checkpointed_high_watermark`."""
        return self.wrapped.checkpointed_high_watermark

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """See `PartitionStore.append_batch`."""
        return self.wrapped.append_batch(batch, base_offset, last_offset, max_timestamp)

    def prepare_roll(self) -> None:
        """See `PartitionStore.prepare_roll`."""
        self.wrapped.prepare_roll()

    def roll(self) -> bool:
        """See `PartitionStore.roll`."""
        return self.wrapped.roll()

    def read_batches(self, offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        """See `PartitionStore.read_batches`."""
        return self.wrapped.read_batches(offset, max_bytes, limit_offset, wait=wait)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """See `PartitionStore.add_aborted`."""
        self.wrapped.add_aborted(aborted)

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """See `PartitionStore.aborted_transactions`."""
        return self.wrapped.aborted_transactions(from_offset, to_offset, wait=wait)

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """See `PartitionStore.batch_at_timestamp`."""
        return self.wrapped.batch_at_timestamp(timestamp_ms)

    def batch_of_max_timestamp(self) -> bytes | None:
        """See `PartitionStore.batch_of_max_timestamp`."""
        return self.wrapped.batch_of_max_timestamp()

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """See `PartitionStore.headers`."""
        return self.wrapped.headers(from_offset)

    def segments(self) -> Sequence[SegmentView]:
        """See `PartitionStore.segments`."""
        return self.wrapped.segments()

    def first_timestamp(self, base_offset: int) -> int:
        """See `PartitionStore.first_timestamp`."""
        return self.wrapped.first_timestamp(base_offset)

    def rewritten_until(self, policy: str) -> int | None:
        """See `PartitionStore.rewritten_until`."""
        return self.wrapped.rewritten_until(policy)

    def set_rewritten_until(self, policy: str, offset: int) -> None:
        """See `PartitionStore.set_rewritten_until`."""
        self.wrapped.set_rewritten_until(policy, offset)

    def configure(self, config: TopicConfig) -> None:
        """See `PartitionStore.configure`."""
        self.wrapped.configure(config)

    def truncate_to(self, offset: int) -> None:
        """See `PartitionStore.truncate_to`."""
        self.wrapped.truncate_to(offset)

    def raise_log_start(self, offset: int) -> None:
        """See `PartitionStore.raise_log_start`."""
        self.wrapped.raise_log_start(offset)

    def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """See `PartitionStore.delete_segments_before`."""
        return self.wrapped.delete_segments_before(offset)

    def segment_sources(self, until: int) -> Sequence[SegmentSource]:
        """See `PartitionStore.segment_sources`."""
        return self.wrapped.segment_sources(until)

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        """See `PartitionStore.draft_segment`."""
        return self.wrapped.draft_segment(base_offset)

    def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """See `PartitionStore.replace_segments`."""
        self.wrapped.replace_segments(drafts, replaced)

    def flush(self) -> int:
        """See `PartitionStore.flush`."""
        return self.wrapped.flush()

    def side_files(self) -> Sequence[str]:
        """See `PartitionStore.side_files`."""
        return self.wrapped.side_files()

    def read_side_file(self, name: str) -> bytes | None:
        """See `PartitionStore.read_side_file`."""
        return self.wrapped.read_side_file(name)

    def write_side_file(self, name: str, content: bytes) -> None:
        """See `PartitionStore.write_side_file`."""
        self.wrapped.write_side_file(name, content)

    def delete_side_file(self, name: str, *, durable: bool = False) -> None:
        """See `PartitionStore.delete_side_file`."""
        self.wrapped.delete_side_file(name, durable=durable)

    def close(self) -> None:
        """See `PartitionStore.close`."""
        self.wrapped.close()
