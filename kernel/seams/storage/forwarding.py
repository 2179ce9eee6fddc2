"""Base classes for a storage that wraps another one: they forward all that a plugin does not override.

    class CountingBackend:
        name = "counting"
        durable = True

        def create(self, context: StorageContext) -> Storage:
            return CountingStorage(context.backend("file").create(context))

The storage that is wrapped gets the context of the one that wraps it. docs/hooks.md has the whole example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, cast

from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.seams.storage.storage import LogDirectoryAdmin, PartitionSpec, Storage
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage.directories import DataDirectories


P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


class _Wraps(Protocol[W]):
    wrapped: W


def _forwarded(method: Callable[Concatenate[W, P], R]) -> Callable[Concatenate[_Wraps[W], P], R]:
    """Return a method that calls the one of this name of what is wrapped."""
    name = method.__name__

    @wraps(method)
    def forward(self: _Wraps[W], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", getattr(self.wrapped, name)(*args, **kwargs))

    return forward


class ForwardingStorage:
    """A storage that hands out the stores of `wrapped` as `wrap` makes them; see `Storage` for members."""

    def __init__(self, wrapped: Storage) -> None:
        self.wrapped = wrapped
        # What `wrap` returns is unknown to the wrapped storage, which gets back the stores that it has
        # opened.
        self._inner: dict[TopicPartition, PartitionStore] = {}

    def wrap(self, partition: TopicPartition, store: PartitionStore) -> PartitionStore:
        """Return what is handed out for a store of the wrapped storage, by default the store itself."""
        return store

    @property
    def data_directories(self) -> DataDirectories | None:
        return self.wrapped.data_directories

    @property
    def log_directories(self) -> LogDirectoryAdmin | None:
        return self.wrapped.log_directories

    @property
    def clean_start(self) -> bool:
        return self.wrapped.clean_start

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        return self.wrapped.failed_partitions

    open = _forwarded(Storage.open)
    load = _forwarded(Storage.load)
    abandon = _forwarded(Storage.abandon)
    background_tasks = _forwarded(Storage.background_tasks)
    check_topic = _forwarded(Storage.check_topic)
    quarantine_stray_partitions = _forwarded(Storage.quarantine_stray_partitions)
    finish_writes = _forwarded(Storage.finish_writes)
    close = _forwarded(Storage.close)

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        names = [spec.topic_partition for spec in specs]
        opened = dict(zip(names, await self.wrapped.open_partitions(specs, progress), strict=True))
        self._inner.update(opened)
        return [self.wrap(name, opened[name]) for name in names]

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        await self.wrapped.delete_partitions([(name, self._inner.pop(name)) for name, _ in partitions])

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        await self.wrapped.close_partitions(jobs)
        for name, _ in jobs:
            self._inner.pop(name, None)


class ForwardingStore:
    """The store of one partition that forwards to `wrapped`; see `PartitionStore` for members."""

    def __init__(self, wrapped: PartitionStore) -> None:
        self.wrapped = wrapped

    @property
    def log_directory(self) -> str:
        return self.wrapped.log_directory

    @property
    def log_start_offset(self) -> int:
        return self.wrapped.log_start_offset

    @property
    def first_segment_offset(self) -> int:
        return self.wrapped.first_segment_offset

    @property
    def log_end_offset(self) -> int:
        return self.wrapped.log_end_offset

    @property
    def size_bytes(self) -> int:
        return self.wrapped.size_bytes

    @property
    def durable_offset(self) -> int:
        return self.wrapped.durable_offset

    @property
    def aborted_known_until(self) -> int:
        return self.wrapped.aborted_known_until

    @property
    def checkpointed_high_watermark(self) -> int:
        return self.wrapped.checkpointed_high_watermark

    append_batch = _forwarded(PartitionStore.append_batch)
    prepare_roll = _forwarded(PartitionStore.prepare_roll)
    roll = _forwarded(PartitionStore.roll)
    read_batches = _forwarded(PartitionStore.read_batches)
    add_aborted = _forwarded(PartitionStore.add_aborted)
    aborted_transactions = _forwarded(PartitionStore.aborted_transactions)
    batch_at_timestamp = _forwarded(PartitionStore.batch_at_timestamp)
    batch_of_max_timestamp = _forwarded(PartitionStore.batch_of_max_timestamp)
    headers = _forwarded(PartitionStore.headers)
    segments = _forwarded(PartitionStore.segments)
    first_timestamp = _forwarded(PartitionStore.first_timestamp)
    rewritten_until = _forwarded(PartitionStore.rewritten_until)
    set_rewritten_until = _forwarded(PartitionStore.set_rewritten_until)
    configure = _forwarded(PartitionStore.configure)
    truncate_to = _forwarded(PartitionStore.truncate_to)
    raise_log_start = _forwarded(PartitionStore.raise_log_start)
    delete_segments_before = _forwarded(PartitionStore.delete_segments_before)
    segment_sources = _forwarded(PartitionStore.segment_sources)
    draft_segment = _forwarded(PartitionStore.draft_segment)
    replace_segments = _forwarded(PartitionStore.replace_segments)
    flush = _forwarded(PartitionStore.flush)
    side_files = _forwarded(PartitionStore.side_files)
    read_side_file = _forwarded(PartitionStore.read_side_file)
    write_side_file = _forwarded(PartitionStore.write_side_file)
    delete_side_file = _forwarded(PartitionStore.delete_side_file)
    close = _forwarded(PartitionStore.close)
