"""A log in files without a broker above it: what the rows about storage work on."""

from __future__ import annotations

from contextlib import asynccontextmanager
from struct import Struct
from typing import TYPE_CHECKING
from uuid import UUID

import attrs

from benchmarks.payloads import make_values
from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.flush_threads import FlushThreads
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.metadata import MetadataContext
from tidelog.kernel.seams.storage import PartitionSpec, StorageContext, TopicPartition
from tidelog.kernel.stores import close_stores, open_stores
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing import make_batch
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.storage_file.storage import FileStorage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.seams.storage import PartitionStore

_TOPIC_ID = UUID(int=7)
_NODE_ID = 1
_LONG = Struct(">q")
_MAX_TIMESTAMP_AT = 35
# A batch's header, and the fields of a record in front of its value (Kafka documentation, "Message Format").
_OVERHEAD_BYTES = 75


@attrs.frozen
class StoredLogs:
    """An open storage in `folder`, with partitions of one topic."""

    storage: FileStorage
    topic_config: TopicConfig

    async def open(self, partitions: int = 1) -> list[PartitionStore]:
        """Open partitions, making them if they are not there."""
        specs = [
            PartitionSpec(TopicPartition("log", number), _TOPIC_ID, self.topic_config)
            for number in range(partitions)
        ]
        return list(await self.storage.open_partitions(specs))


@asynccontextmanager
async def stored_logs(
    folder: str, *, stop: bool = True, index_format: str = "sparse", segment_bytes: int = 1 << 30
) -> AsyncGenerator[StoredLogs]:
    """A storage in `folder`; `stop`: it is closed properly in the end, or else left as by a crash."""
    settings: dict[str, object] = {
        "log.dirs": folder,
        "log.index.format": index_format,
        "log.initial.task.delay.ms": 600_000,
    }
    config, plugins = configure(settings)
    tasks = BackgroundTasks()
    metadata = KraftMetadata(MetadataContext(config, _NODE_ID, wall_clock_ms))
    context = StorageContext(config, _NODE_ID, tasks, wall_clock_ms, plugins.index_formats())
    storage = FileStorage(context)
    async with tasks.running():
        await open_stores(storage, metadata)
        for task in storage.background_tasks():
            tasks.start(task)
        # Segments may be smaller than a user may make them, so that there are many of them.
        yield StoredLogs(storage, config.default_topic_config | {"segment.bytes": segment_bytes})
        await tasks.wait_for_jobs()
        if stop:
            await close_stores(storage, metadata)
        else:
            storage.abandon()


def partition_of(store: PartitionStore) -> UnifiedLog:
    """The kernel's part above a store, whose background jobs are not run."""
    topic_config = configure({})[0].default_topic_config
    partition = TopicPartition("log", 0)

    def never(_name: str, _job: object) -> None:
        pass

    return UnifiedLog(partition, _TOPIC_ID, store, topic_config, wall_clock_ms, never, FlushThreads(never))


def batch_of(batch_bytes: int) -> bytearray:
    """An uncompressed batch of one record that takes a little less than `batch_bytes`, about now."""
    value = b"".join(make_values(1000))[: batch_bytes - _OVERHEAD_BYTES]
    return make_batch([value], timestamps=wall_clock_ms())


def rebase(batch: bytearray, base_offset: int) -> None:
    """Set the base offset, which is outside the CRC."""
    _LONG.pack_into(batch, 0, base_offset)


def fill(store: PartitionStore, batch: bytearray, count: int, step_ms: int = 0) -> None:
    """Append a batch over and over, each time with the next offset, and `step_ms` later if that is not 0.

    The time is put into its header without regard to its CRC.
    """
    timestamp = wall_clock_ms()
    for _ in range(count):
        offset = store.log_end_offset
        rebase(batch, offset)
        if step_ms:
            _LONG.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp)
        store.append_batch(batch, offset, offset, timestamp)
        timestamp += step_ms
