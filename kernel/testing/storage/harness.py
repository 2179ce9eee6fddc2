"""The stage of a storage test: a backend in a place of its own, a clock that tests move, stores."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from uuid import UUID, uuid4

from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.records.batch import BatchHeader
from tidelog.kernel.records.stored import iter_stored
from tidelog.kernel.seams.indexes import IndexFormat
from tidelog.kernel.seams.metadata import MetadataContext, MetadataStore
from tidelog.kernel.seams.storage import (
    FileRegion,
    LogSlice,
    PartitionSpec,
    PartitionStore,
    Storage,
    StorageBackend,
    StorageContext,
    TopicPartition,
    WouldBlock,
)
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS, FakeClock
from tidelog.kernel.testing.installed import installed_plugins, with_installed_keys

PLACE_KEYS = ("log.dirs",)
"""Configuration keys that say where data is kept: by the backend under test, or by one that it wraps."""


class StorageHarness:
    """A storage of one backend that can be closed and opened again on the same data.

    `place` is a folder of its own; `settings` are configuration keys to set beside those that say where;
    `index_formats` is a plugin that offers some. The metadata store is the installed one that goes with the
    storage, and a backend may wrap an installed one.
    """

    def __init__(
        self,
        plugin: ModuleType,
        place: Path,
        tasks: BackgroundTasks,
        settings: dict[str, object] | None = None,
        index_formats: ModuleType | None = None,
    ) -> None:
        own_keys = list(plugin.tidelog_config_keys()) if hasattr(plugin, "tidelog_config_keys") else []
        known = with_installed_keys(own_keys)
        where = {key.name: str(place / "data") for key in known if key.name in PLACE_KEYS}
        self.backend: StorageBackend = next(iter(plugin.tidelog_storage_backends()))
        self.config = Config.from_mapping(where | (settings or {}), known)
        self.metadata_backend = installed_plugins().metadata_backend(None, self.backend)
        self.index_formats: dict[str, IndexFormat] = (
            {each.name: each for each in index_formats.tidelog_index_formats()} if index_formats else {}
        )
        self.node_id = 1
        self.clock = FakeClock()
        self.tasks = tasks
        self.metadata: MetadataStore
        self.storage = self.new_storage()
        self.topic_ids: dict[str, UUID] = {}

    def new_storage(self) -> Storage:
        """Return a storage in `place` that is not open yet; `metadata` is its metadata store."""
        self.metadata = self.metadata_backend.create(MetadataContext(self.config, self.node_id, self.clock))
        context = StorageContext(
            self.config,
            self.node_id,
            self.tasks,
            self.clock,
            self.index_formats,
            partition_assigned=self.metadata.assign_directory,
            directory_failed=self.metadata.fail_directory,
            backend=installed_plugins().storage_backend,
        )
        return self.backend.create(context)

    async def open(self) -> None:
        """Open the storage and its metadata store, and start their background tasks, as a broker does."""
        await open_stores(self.storage, self.metadata)
        for task in (*self.storage.background_tasks(), *self.metadata.background_tasks()):
            self.tasks.start(task)

    async def reopen(self) -> None:
        """Close the storage and open a new one on the same data."""
        await self.close()
        await self.open_again()

    async def open_again(self) -> None:
        """Open a new storage on the same data; the one before was closed, or abandoned as by a crash."""
        self.storage = self.new_storage()
        await self.open()

    def spec(
        self, topic: str = "topic", partition: int = 0, config: TopicConfig | None = None
    ) -> PartitionSpec:
        """Return a partition to open; a topic keeps its id for the whole test."""
        topic_id = self.topic_ids.setdefault(topic, uuid4())
        chosen = config or self.config.default_topic_config
        return PartitionSpec(TopicPartition(topic, partition), topic_id, chosen)

    def forget_topic(self, topic: str) -> None:
        """Give a topic of that name a new id from now on."""
        del self.topic_ids[topic]

    async def open_store(self, *, partition: int = 0, **settings: int | str) -> PartitionStore:
        """Open a partition of the topic; `settings` are topic keys with `_` for `.`, of any value."""
        config = self.config.default_topic_config | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        (store,) = await self.storage.open_partitions([self.spec(partition=partition, config=config)])
        return store

    async def close(self) -> None:
        """Close the storage and its metadata store."""
        await close_stores(self.storage, self.metadata)


def append(
    store: PartitionStore, size: int = 1, *, gap: int = 0, timestamp: int = START_MS, records: int = 1
) -> bytes:
    """Append a batch of `records` records with `size` bytes of values, `gap` offsets behind the log's end."""
    base_offset = store.log_end_offset + gap
    values = [bytes([base_offset % 251]) * (size // records + 1) for _ in range(records)]
    batch = make_batch(values, base_offset, timestamps=timestamp)
    store.append_batch(batch, base_offset, base_offset + records - 1, timestamp)
    return bytes(batch)


def append_many(
    store: PartitionStore, count: int, size: int = 1, *, step_ms: int = 1, records: int = 1
) -> list[bytes]:
    """Append `count` batches, each `step_ms` later than the one before."""
    return [
        append(store, size, timestamp=START_MS + index * step_ms, records=records) for index in range(count)
    ]


def read_bytes(
    store: PartitionStore, offset: int, max_bytes: int = 1 << 30, limit: int | None = None
) -> bytes:
    """Read as the kernel does: without waiting first, then, if need be, waiting; the bytes of the slice."""
    limit_offset = store.log_end_offset if limit is None else limit
    try:
        found = store.read_batches(offset, max_bytes, limit_offset)
    except WouldBlock:
        found = store.read_batches(offset, max_bytes, limit_offset, wait=True)
    return slice_bytes(found)


def slice_bytes(found: LogSlice) -> bytes:
    """Return the bytes of a slice."""
    parts = [
        os.pread(region.file.fileno(), region.size, region.position)
        if isinstance(region, FileRegion)
        else bytes(region)
        for region in found.regions
    ]
    content = b"".join(parts)
    assert len(content) == found.size
    return content


def read_all(store: PartitionStore, offset: int | None = None) -> bytes:
    """Read on and on, as a consumer does, until the end of the log."""
    content = bytearray()
    position = store.log_start_offset if offset is None else offset
    while position < store.log_end_offset:
        chunk = read_bytes(store, position)
        if not chunk:
            break
        content += chunk
        position = headers_of(chunk)[-1].next_offset
    return bytes(content)


def headers_of(content: bytes) -> list[BatchHeader]:
    """Return the headers of the complete batches in `content`."""
    return [header for header, _ in iter_stored(memoryview(content))]


def base_offsets(headers: Iterable[BatchHeader]) -> list[int]:
    """Return the base offsets, in order."""
    return [header.base_offset for header in headers]
