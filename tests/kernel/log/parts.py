"""What the tests of partitions are made of: batches as clients send them and a partition above memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import NotLeaderOrFollower
from tidelog.kernel.log import AppendResult, UnifiedLog
from tidelog.kernel.log.flush_threads import FlushThreads
from tidelog.kernel.log.producers import ProducerEntry
from tidelog.kernel.log.record_checks import check_records
from tidelog.kernel.log.validation import validate_in_steps
from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.compression import compress
from tidelog.kernel.seams.storage import LogSlice, PartitionStore, TopicPartition
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

TOPIC_PARTITION = TopicPartition("flights", 3)
TOPIC_ID = UUID(int=4711)


def batch_of(count: int) -> bytearray:
    """A batch of that many small records."""
    return make_batch([b"value"] * count)


def sent(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytearray:
    """A batch of an idempotent producer."""
    return make_batch(
        [b"value"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, its length and CRC right."""
    return pack_batch(parse_header(batch)._replace(**fields), batch[HEADER_BYTES:])


def compressed(batch: bytearray, codec: int) -> bytearray:
    """The batch with its records packed by that codec."""
    header = parse_header(batch)
    return pack_batch(
        header._replace(attributes=header.attributes | codec), compress(codec, batch[HEADER_BYTES:])
    )


def run_at_once(name: str, job: Callable[[], object]) -> None:
    """A background job without a background."""
    job()


def run_in_a_task(name: str, job: Callable[[], Awaitable[object]]) -> None:
    """A shielded job as a broker's background tasks run it."""

    async def run() -> None:
        with trio.CancelScope(shield=True):
            await job()

    trio.lowlevel.spawn_system_task(run, name=name)


def new_store(config: TopicConfig | None = None, clock: FakeClock | None = None) -> MemoryPartitionStore:
    """An empty log in memory."""
    return MemoryPartitionStore(config or TopicConfig(), clock or FakeClock())


def open_partition(
    store: PartitionStore | None = None,
    config: TopicConfig | None = None,
    clock: FakeClock | None = None,
    *,
    clean_start: bool = True,
    leader_epoch: int = 0,
    follows: bool = False,
    in_thread: Callable[[str, Callable[[], object]], None] = run_at_once,
) -> UnifiedLog:
    """A partition, loaded from its store as at a start of the broker."""
    config, clock = config or TopicConfig(), clock or FakeClock()
    store = new_store(config, clock) if store is None else store
    partition = UnifiedLog(
        TOPIC_PARTITION, TOPIC_ID, store, config, clock, in_thread, FlushThreads(run_in_a_task)
    )
    partition.leader_epoch = leader_epoch
    if follows:
        follow(partition)
    partition.load(clean_start=clean_start)
    return partition


def follow(log: UnifiedLog) -> None:
    """Let another broker lead."""
    log.follow(log.leader_epoch, NotLeaderOrFollower("another broker leads"))


async def append_as_client(
    partition: UnifiedLog, batch: bytearray, verify: Callable[[], int] | None = None
) -> AppendResult:
    """Append a batch as a request does: await the checks of its records if they take long."""
    appended = partition.append_as_leader(batch, verify)
    return appended if isinstance(appended, AppendResult) else await appended


async def check_in_steps(partition: UnifiedLog, batch: bytearray) -> int:
    """Check the records of a batch step by step, however few they are; their largest timestamp."""
    header = parse_header(batch)
    steps = validate_in_steps(batch, header, partition.config, FakeClock().now_ms)
    return await check_records(batch, steps, header, partition.unpacking)


def newest_batches(entries: Mapping[int, ProducerEntry]) -> dict[int, tuple[int, object, int]]:
    """Of each producer what also a snapshot keeps."""
    return {
        producer_id: (entry.epoch, entry.batches[-1] if entry.batches else None, entry.last_timestamp)
        for producer_id, entry in entries.items()
    }


def all_batches(entries: Mapping[int, ProducerEntry]) -> dict[int, tuple[int, list[object], int]]:
    """All that is known of each producer."""
    return {
        producer_id: (entry.epoch, list(entry.batches), entry.last_timestamp)
        for producer_id, entry in entries.items()
    }


def used_partition(store: MemoryPartitionStore, config: TopicConfig | None = None) -> UnifiedLog:
    """A partition where two producers sent some batches."""
    partition = open_partition(store, config)
    for sequence in range(7):
        partition.append_nowait(sent(1, 0, sequence))
        partition.append_nowait(sent(2, 3, 2 * sequence, 2))
    partition.append_nowait(batch_of(3))
    return partition


def lost_background(name: str, job: Callable[[], object]) -> None:
    """A background that the crash came before."""


def content(log: LogSlice) -> bytes:
    """The bytes of a slice of a log in memory."""
    out = bytearray()
    for region in log.regions:
        assert isinstance(region, bytes | memoryview)
        out += region
    assert len(out) == log.size
    return bytes(out)


def offsets_in(log: LogSlice) -> list[int]:
    """Base offsets of the whole batches in a slice."""
    data, position, offsets = content(log), 0, list[int]()
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if position + header.size > len(data):
            break
        offsets.append(header.base_offset)
        position += header.size
    return offsets
