"""What the tests of partitions are made of: batches, a clock to set, a partition above memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.partition import Partition
from tidelog.kernel.partition.loading import load_partition
from tidelog.kernel.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, pack_batch
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.storage import LogSlice, PartitionStore, TopicPartition
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

NOW = 1_700_000_000_000
TOPIC_PARTITION = TopicPartition("flights", 3)
TOPIC_ID = UUID(int=4711)


@attrs.define
class Clock:
    """Milliseconds that stand still until they are set."""

    now_ms: int = NOW

    def __call__(self) -> int:
        return self.now_ms


def make_batch(
    count: int = 1,
    *,
    producer_id: int = NO_PRODUCER_ID,
    epoch: int = -1,
    sequence: int = NO_SEQUENCE,
    timestamps: Sequence[int] = (),
    codec: int = 0,
    attributes: int = 0,
    value: bytes = b"value",
) -> bytearray:
    """A batch as a client sends it; the records after those with a timestamp of their own are of now."""
    times = [*timestamps, *[NOW] * count][:count]
    records = bytearray()
    for index, timestamp in enumerate(times):
        encode_record(records, Record(index, timestamp, None, value), 0, times[0])
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes | codec,
        last_offset_delta=count - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )
    return pack_batch(header, compress(codec, records))


def run_at_once(name: str, job: Callable[[], object]) -> None:
    """A background job without a background."""
    job()


def new_store(
    config: TopicConfig | None = None, clock: Callable[[], int] | None = None
) -> MemoryPartitionStore:
    """An empty log in memory."""
    return MemoryPartitionStore(config or TopicConfig(), clock or Clock())


def open_partition(
    store: PartitionStore | None = None,
    config: TopicConfig | None = None,
    clock: Callable[[], int] | None = None,
    *,
    clean_start: bool = True,
) -> Partition:
    """A partition, loaded from its store as at a start of the broker."""
    config, clock = config or TopicConfig(), clock or Clock()
    store = new_store(config, clock) if store is None else store
    partition = Partition(TOPIC_PARTITION, TOPIC_ID, store, config, clock, run_at_once)
    load_partition(partition, clean_start=clean_start)
    return partition


def content(log: LogSlice) -> bytes:
    """The bytes of a slice of a log in memory."""
    out = bytearray()
    for region in log.regions:
        assert isinstance(region, bytes | memoryview)
        out += region
    assert len(out) == log.size
    return bytes(out)
