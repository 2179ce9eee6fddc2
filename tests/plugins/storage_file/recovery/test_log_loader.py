"""After a clean stop nothing of the logs is read: producers and epochs come from files beside them.

After a kill what lies above the newest snapshot is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Place

from tests.crash.core import Core
from tests.deadlines import DEADLINE_S
from tests.plugins.metadata_kraft.hands import Client, kafka_on
from tests.plugins.storage_file.files import log_directories_of
from tests.plugins.storage_file.moving.test_replica_moves import moved
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.snapshots import snapshot_offsets
from tidelog.kernel.records.batch import BatchHeader
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

Scanned = dict[str, list[int]]
MEGABYTE = 1024 * 1024


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Scanned:
    """Base offsets of the batches that were gone through, by partition."""
    found: Scanned = {}
    headers = FilePartitionStore.headers

    def counted(store: FilePartitionStore, from_offset: int) -> Iterator[BatchHeader]:
        for header in headers(store, from_offset):
            found.setdefault(str(store.topic_partition), []).append(header.base_offset)
            yield header

    monkeypatch.setattr(FilePartitionStore, "headers", counted)
    return found


@asynccontextmanager
async def broker_on(place: Path) -> AsyncGenerator[Broker]:
    settings = {
        "storage": "file",
        "log.dirs": f"{place / 'a'},{place / 'b'}",
        "log.initial.task.delay.ms": 0,
        "log.segment.delete.delay.ms": 0,
    }
    async with running_broker(settings) as broker:
        yield broker


def send(partition: UnifiedLog, producer_id: int, count: int, size: int = 10) -> None:
    """Batches of one record of an idempotent producer."""
    for _ in range(count):
        known = partition.producers.entries.get(producer_id)
        sequence = known.last_sequence + 1 if known else 0
        partition.append_nowait(
            make_batch([b"x" * size], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        )


def transact(partition: UnifiedLog, producer_id: int) -> None:
    batch = make_batch(
        [b"x"] * 3, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.append_nowait(batch, in_transaction=True)


async def without_producers(broker: Broker, partition: UnifiedLog) -> None:
    for _ in range(10):
        partition.append_nowait(make_batch([b"x"] * 3))


async def with_producers(broker: Broker, partition: UnifiedLog) -> None:
    for producer_id in range(3):
        send(partition, producer_id, 5)


async def with_expired_producers(broker: Broker, partition: UnifiedLog) -> None:
    await with_producers(broker, partition)
    partition.producers.expire(2**62)


async def never_written(broker: Broker, partition: UnifiedLog) -> None:
    """Nothing."""


async def rolled(broker: Broker, partition: UnifiedLog) -> None:
    send(partition, 1, 6, MEGABYTE // 2)
    assert len(partition.store.segments()) > 2


async def with_deleted_records(broker: Broker, partition: UnifiedLog) -> None:
    await rolled(broker, partition)
    partition.delete_records_before(partition.log_end_offset - 1)
    await broker.tasks.wait_for_jobs()


async def with_all_records_deleted(broker: Broker, partition: UnifiedLog) -> None:
    await rolled(broker, partition)
    partition.delete_records_before(partition.log_end_offset)
    await broker.tasks.wait_for_jobs()


async def with_transactions(broker: Broker, partition: UnifiedLog) -> None:
    for producer_id in range(3):
        transact(partition, producer_id)
    partition.append_marker(0, 0, 0, commit=True)
    partition.append_marker(1, 0, 0, commit=False)


async def truncated(broker: Broker, partition: UnifiedLog) -> None:
    await rolled(broker, partition)
    await partition.truncate_to(3)


async def moved_to_another_directory(broker: Broker, partition: UnifiedLog) -> None:
    await with_producers(broker, partition)
    views = await log_directories_of(broker.storage).describe()
    places = Path(views[0].path).parent
    for directory in ("a", "b"):
        await log_directories_of(broker.storage).move(partition.topic_partition, str(places / directory))
        await moved(broker, places, directory)


HISTORIES: list[Callable[[Broker, UnifiedLog], Awaitable[None]]] = [
    never_written,
    without_producers,
    with_producers,
    with_expired_producers,
    rolled,
    with_deleted_records,
    with_all_records_deleted,
    with_transactions,
    truncated,
    moved_to_another_directory,
]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
async def test_load_after_a_clean_shutdown_reads_no_batch(
    tmp_path: Path, scanned: Scanned, history: Callable[[Broker, UnifiedLog], Awaitable[None]]
) -> None:
    async with broker_on(tmp_path) as broker:
        config = {"segment.bytes": str(MEGABYTE)}
        (partition,) = (await broker.topics.create(TopicSpec("t", 1, config=config))).partitions
        await history(broker, partition.log)
        before = partition.log.producers.entries, partition.log.epochs.entries(), partition.log.log_end_offset
        stable = partition.log.last_stable_offset
    for _ in range(2):
        scanned.clear()
        async with broker_on(tmp_path) as broker:
            assert broker.storage.clean_start
            (partition,) = broker.topics.get("t").partitions
            assert scanned == {}
            assert list(partition.log.producers.entries) == list(before[0])
            assert (partition.log.epochs.entries(), partition.log.log_end_offset) == before[1:]
            assert partition.log.last_stable_offset == stable
            names = partition.log.store.side_files()
        assert snapshot_offsets(names)[-1:] == ([partition.log.log_end_offset] if before[2] else [])


async def test_load_of_internal_topics_after_a_clean_shutdown_reads_no_batch(
    tmp_path: Path, scanned: Scanned
) -> None:
    async with broker_on(tmp_path) as broker:
        await broker.coordinator.prepare_groups()
        await broker.coordinator.prepare_transactions()
        await broker.coordinator.transactions.init_producer_id("orders", 60_000)
    async with broker_on(tmp_path):
        assert scanned == {}


async def test_load_after_a_kill_reads_only_batches_above_the_newest_snapshot(
    tmp_path: Path, scanned: Scanned
) -> None:
    core = Core(tmp_path)
    await core.open()
    for name in ("rolled", "not rolled", "without producers"):
        (partition,) = (await core.create(name.replace(" ", "-"), 1)).partitions
        for _ in range(3 if name == "not rolled" else 30):
            if name == "without producers":
                partition.log.append_nowait(make_batch([b"x" * 300]))
            else:
                send(partition.log, 1, 1, 300)
    core.tasks.run_jobs()
    newest = {
        str(partition.topic_partition): snapshot_offsets(partition.log.store.side_files())[-1:]
        for partition in core.topics.partitions()
    }
    core.abandon()
    scanned.clear()
    await core.open()
    ends = {str(each.topic_partition): each.log.log_end_offset for each in core.topics.partitions()}
    assert newest["not-rolled-0"] == []
    assert newest["rolled-0"][0] > 0
    assert newest["without-producers-0"][0] > 0
    assert scanned == {
        name: list(range(found[0] if found else 0, ends[name])) for name, found in newest.items()
    }
    core.abandon()


async def test_load_of_a_log_without_snapshots_reads_its_batches_only_once(
    tmp_path: Path, scanned: Scanned
) -> None:
    """As a directory is that was restored without them; a kill before the next clean stop changes nothing."""
    core = Core(tmp_path)
    await core.open()
    (partition,) = (await core.create("t", 1)).partitions
    send(partition.log, 1, 30, 300)
    known = list(partition.log.producers.entries)
    await core.close()
    for path in core.data.glob("t-0/*.snapshot"):
        path.unlink()
    read: list[int] = []
    for _ in range(3):
        scanned.clear()
        await core.open()
        assert list(core.topics.get("t").partitions[0].log.producers.entries) == known
        read.append(len(scanned.get("t-0", [])))
        core.abandon()
    assert read == [30, 0, 0]


@pytest.mark.long
async def test_load_after_a_clean_shutdown_of_kafka_reads_no_batch(tmp_path: Path, scanned: Scanned) -> None:
    kafka = kafka_on(tmp_path / "data", tmp_path / "kafka")
    kafka.start()
    try:
        client = Client(kafka.bootstrap)
        for name in ("written", "empty", "trimmed"):
            client.create(name, 1)
        client.produce("written", 0, [b"x"] * 10)
        client.produce("trimmed", 0, [b"x"] * 10)
        deletion = client.admin.delete_records([Place("trimmed", 0, 4)])
        assert [future.result(DEADLINE_S).low_watermark for future in deletion.values()] == [4]
        client.commit("readers", "written", 3)
    finally:
        kafka.stop()
    core = Core(tmp_path)
    await core.open()
    assert core.storage.clean_start
    assert scanned == {}
    (written,), (trimmed,) = (core.topics.get(name).partitions for name in ("written", "trimmed"))
    assert len(written.log.producers.entries) == 1
    assert (written.log.log_end_offset, trimmed.log.log_start_offset, trimmed.log.log_end_offset) == (
        10,
        4,
        10,
    )
    await core.close()
