"""Compaction on a broker: what readers see of it, and what its settings do."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S, wait_until
from tests.log_cleanup import log_cleanup_of, run_policies
from tests.peers import running_tidelog
from tests.plugins.storage_file.files import eventually
from tests.stored_records import stored_records
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.kernel.log import UnifiedLog

TOPIC = "prices"
DAY_MS = 86_400_000
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def settings(data: Path, **more: object) -> dict[str, object]:
    return {"storage": "file", "log.dirs": str(data), "log.initial.task.delay.ms": 1 << 40, **more}


async def compact(broker: Broker, policy: str = "compact") -> None:
    await run_policies(broker, policy)


async def new_partition(broker: Broker, **config: str) -> UnifiedLog:
    named = {name.replace("_", "."): value for name, value in config.items()}
    topic = await broker.topics.create(TopicSpec(TOPIC, 1, config=CONFIG | named))
    (partition,) = topic.partitions
    return partition.log


def left(partition: UnifiedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in stored_records(partition)]


async def test_compaction_keeps_the_newest_record_of_each_key_and_goes_on_after_a_restart(
    tmp_path: Path,
) -> None:
    async with running_broker(settings(tmp_path)) as broker:
        partition = await new_partition(broker)
        partition.append_nowait(make_batch([b"1", b"2", b"3"], keys=[b"a", b"b", b"a"]))
        await partition.roll()
        partition.append_nowait(make_batch([b"4"], keys=[b"b"]))
        await partition.roll()
        partition.append_nowait(make_batch([b"5"], keys=[b"b"]))
        await compact(broker)
        newest = [(2, b"a", b"3"), (3, b"b", b"4"), (4, b"b", b"5")]
        assert left(partition) == newest
    assert (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()[-1] == f"{TOPIC} 0 4"
    async with running_broker(settings(tmp_path)) as broker:
        partition = broker.topics.get(TOPIC).partitions[0].log
        assert left(partition) == newest
        await compact(broker)
        assert log_cleanup_of(broker).statistics()["compact"].rewrites == 0
        await partition.roll()
        await compact(broker)
        assert left(partition) == [newest[0], newest[2]]


async def test_compaction_keeps_a_tombstone_for_delete_retention_ms(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await new_partition(broker, delete_retention_ms=str(DAY_MS))
        for batch in (
            make_batch([b"1", b"2"], keys=[b"gone", b"stays"], timestamps=clock()),
            make_batch([None], keys=[b"gone"], timestamps=clock()),
        ):
            partition.append_nowait(batch)
            await partition.roll()

        async def pass_and_compact(ms: int) -> list[int]:
            clock.advance(ms)
            partition.append_nowait(make_batch([b"dirt"], keys=[b"dirt"], timestamps=clock()))
            await partition.roll()
            await compact(broker)
            return [record.offset for record in stored_records(partition) if record.key != b"dirt"]

        assert await pass_and_compact(10 * DAY_MS) == [1, 2]
        assert await pass_and_compact(DAY_MS - 1) == [1, 2]
        assert await pass_and_compact(1) == [1]
        assert next(record.timestamp for record in stored_records(partition)) == clock() - 11 * DAY_MS


async def test_compaction_and_deletion_work_on_one_topic(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await new_partition(broker, cleanup_policy="compact,delete", retention_ms=str(DAY_MS))
        for key in (b"old", b"old", b"new", b"new", b"active"):
            partition.append_nowait(make_batch([b"x"], keys=[key], timestamps=clock()))
            await partition.roll()
            if key == b"old":
                clock.advance(DAY_MS)
        await compact(broker, "delete")
        assert [offset for offset, _, _ in left(partition)] == [1, 2, 3, 4]
        await compact(broker)
        assert [offset for offset, _, _ in left(partition)] == [1, 3, 4]
        clock.advance(DAY_MS + 1)
        await compact(broker, "delete")
        assert (left(partition), partition.log_start_offset) == ([], 5)


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_max_compaction_lag_ms_rolls_with_an_append_and_compacts_what_is_hardly_dirty(
    storage: str, tmp_path: Path
) -> None:
    clock = FakeClock()
    lag = {"max.compaction.lag.ms": str(DAY_MS), "min.cleanable.dirty.ratio": "1"}
    async with running_broker(settings(tmp_path, storage=storage), clock=clock) as broker:
        partition = await new_partition(broker, **lag)
        partition.append_nowait(make_batch([b"1", b"2"], keys=[b"k", b"k"], timestamps=clock()))
        clock.advance(DAY_MS)
        partition.append_nowait(make_batch([b"3"], keys=[b"a"], timestamps=clock()))
        clock.advance(1)
        await compact(broker)
        assert len(left(partition)) == 3
        partition.append_nowait(make_batch([b"4"], keys=[b"b"], timestamps=clock()))
        await compact(broker)
        assert left(partition) == [(1, b"k", b"2"), (2, b"a", b"3"), (3, b"b", b"4")]


async def test_max_compaction_lag_ms_does_not_have_a_log_rewritten_for_each_old_record(
    tmp_path: Path,
) -> None:
    """Late records, as of a backfill, end no segment by the clock: that would rewrite all at each look."""
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await new_partition(broker, max_compaction_lag_ms=str(DAY_MS))
        for number in range(5):
            late = clock() - 30 * DAY_MS + number
            partition.append_nowait(make_batch([b"x"], keys=[b"k"], timestamps=late))
            await compact(broker)
            clock.advance(15_000)
        statistics = log_cleanup_of(broker).statistics()["compact"]
        assert (statistics.rolled_segments, statistics.rewrites) == (0, 0)
        assert len(partition.store.segments()) == 1


async def test_max_compaction_lag_ms_rolls_no_log_that_is_not_compacted(tmp_path: Path) -> None:
    async with running_broker(settings(tmp_path)) as broker:
        partition = await new_partition(broker, cleanup_policy="delete", max_compaction_lag_ms="1")
        for timestamp in (0, DAY_MS):
            partition.append_nowait(make_batch([b"x"], timestamps=timestamp))
        assert len(partition.store.segments()) == 1


async def test_log_cleaner_enable_false_compacts_nothing(tmp_path: Path) -> None:
    async with running_broker(settings(tmp_path, **{"log.cleaner.enable": False})) as broker:
        assert "cleanup policy compact" not in broker.tasks.statistics()


async def test_log_cleaner_threads_may_be_raised_while_the_broker_runs(tmp_path: Path) -> None:
    more = {"log.cleaner.threads": 0, "log.cleaner.backoff.ms": 10, "log.initial.task.delay.ms": 0}
    async with running_broker(settings(tmp_path, **more)) as broker:
        partition = await new_partition(broker)
        for value in (b"1", b"2", b"3"):
            partition.append_nowait(make_batch([value], keys=[b"k"]))
            await partition.roll()
        runs = broker.tasks.statistics()["cleanup policy compact"]
        before = runs.runs
        await eventually(lambda: runs.runs > before + 2)
        assert len(left(partition)) == 3
        broker.config.set_dynamic({"log.cleaner.threads": "1"}, {})
        await eventually(lambda: len(left(partition)) == 1)


def size_of_logs(folder: Path) -> int:
    """Bytes of the segments, of which some may be replaced meanwhile."""
    size = 0
    for file in folder.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


@pytest.mark.parametrize(
    "isolation", [pytest.param("read_uncommitted", marks=pytest.mark.long), "read_committed"]
)
def test_a_consumer_reads_on_while_its_log_is_compacted(tmp_path: Path, isolation: str) -> None:
    """It never sees an error or an older value, and ends with the newest value of every key."""
    often = {"log.cleaner.backoff.ms": "10", "log.initial.task.delay.ms": "0"}
    with running_tidelog(tmp_path, settings=often) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {**CONFIG, "segment.bytes": "1048576", "file.delete.delay.ms": "0"}
        (created,) = admin.create_topics([NewTopic(TOPIC, 1, config=config)]).values()
        created.result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})

        def reader() -> Consumer:
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "group.id": "readers",
                    "auto.offset.reset": "error",
                    "isolation.level": isolation,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                }
            )
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            return consumer

        numbers = itertools.count()
        newest: dict[bytes, int] = {}
        consumer, seen = reader(), dict[bytes, int]()

        def read_to_the_end() -> None:
            while True:
                message = consumer.poll(DEADLINE_S)
                assert message is not None
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return
                key, number = message.key() or b"", int((message.value() or b"").split()[0])
                assert number > seen.get(key, -1)
                seen[key] = number

        for turn in range(12):
            for index in range(20):
                key, number = b"key %d" % (index % 7), next(numbers)
                newest[key] = number
                producer.produce(TOPIC, b"%d " % number + os.urandom(40_000), key, partition=0)
            assert producer.flush(DEADLINE_S) == 0
            if turn % 3 == 2:
                read_to_the_end()
        assert seen == newest
        place = tmp_path / "data" / f"{TOPIC}-0"
        whole = 12 * 20 * 40_000
        wait_until(lambda: size_of_logs(place) < whole / 3, "compaction")
        consumer.close()
        consumer, seen = reader(), {}
        read_to_the_end()
        assert seen == newest
        consumer.close()
