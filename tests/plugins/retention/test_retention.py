"""Retention on a running broker: what its users see, and what is on its disk."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.brokers import running_broker as running_process
from tests.deadlines import DEADLINE_S, wait_until
from tests.log_cleanup import run_policies
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker

HOUR_MS = 3_600_000
TOPIC = "flights"
CONFIG = {"retention.ms": str(HOUR_MS), "segment.ms": "1", "file.delete.delay.ms": "60000"}
"""Every batch gets a segment of its own."""
SEGMENTS = 4


def settings(data: Path) -> dict[str, object]:
    return {"storage": "file", "log.dirs": str(data), "log.retention.check.interval.ms": 1 << 40}


async def check_all_logs(broker: Broker) -> None:
    await run_policies(broker, "delete")


async def filled(broker: Broker, clock: FakeClock, config: dict[str, str] | None = None) -> UnifiedLog:
    """A partition with one batch every half hour, the last one now."""
    topic = await broker.topics.create(TopicSpec(TOPIC, 1, config=CONFIG | (config or {})))
    (partition,) = topic.partitions
    for index in range(SEGMENTS):
        if index:
            clock.advance(HOUR_MS // 2)
        partition.log.append_nowait(make_batch([b"x" * 50], timestamps=clock()))
    return partition.log


def bases(partition: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in partition.store.segments()]


async def test_retention_ms_outlives_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await filled(broker, clock)
        await check_all_logs(broker)
        assert (bases(partition), partition.log_start_offset) == ([1, 2, 3], 1)
        clock.advance(1)
        await check_all_logs(broker)
        assert (bases(partition), partition.log_start_offset) == ([2, 3], 2)
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = broker.topics.get(TOPIC).partitions[0].log
        assert (bases(partition), partition.log_start_offset, partition.log_end_offset) == ([2, 3], 2, 4)
        clock.advance(HOUR_MS)
        await check_all_logs(broker)
        assert (bases(partition), partition.log_start_offset, partition.log_end_offset) == ([4], 4, 4)
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = broker.topics.get(TOPIC).partitions[0].log
        assert (partition.log_start_offset, partition.log_end_offset) == (4, 4)
        assert partition.append_nowait(make_batch([b"new"], timestamps=clock())).base_offset == 4


async def test_retention_ms_that_is_changed_counts_at_the_next_check(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await filled(broker, clock, {"retention.ms": "-1"})
        await check_all_logs(broker)
        assert bases(partition) == [0, 1, 2, 3]
        await broker.topics.alter_config(TOPIC, lambda now: {**now, "retention.ms": str(HOUR_MS)})
        await check_all_logs(broker)
        assert bases(partition) == [1, 2, 3]
        await broker.topics.alter_config(TOPIC, lambda now: {**now, "retention.bytes": "0"})
        await check_all_logs(broker)
        assert bases(partition) == [4]


async def test_retention_leaves_a_topic_alone_that_is_only_compacted(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        config = CONFIG | {"cleanup.policy": "compact"}
        (partition,) = (await broker.topics.create(TopicSpec(TOPIC, 1, config=config))).partitions
        for _ in range(3):
            partition.log.append_nowait(make_batch([b"x"], keys=[b"k"], timestamps=clock()))
            clock.advance(10 * HOUR_MS)
        await check_all_logs(broker)
        assert bases(partition.log) == [0, 1, 2]


async def test_a_reader_in_flight_finishes_a_deleted_segment(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock
    clock = FakeClock()
    async with running_broker(settings(tmp_path), clock=clock) as broker:
        partition = await filled(broker, clock)
        found = partition.read(0, 1 << 20, Isolation.READ_UNCOMMITTED, wait=True)
        await check_all_logs(broker)
        assert partition.log_start_offset == 1
        deleted = sorted(path.name for path in (tmp_path / f"{TOPIC}-0").glob(f"{0:020}*.deleted"))
        assert [name.partition(".")[2] for name in deleted] == [
            "index.deleted",
            "log.deleted",
            "timeindex.deleted",
        ]
        assert len(b"".join(region_bytes(region) for region in found.regions)) == found.size
        await trio.sleep(61)
        with trio.fail_after(DEADLINE_S):
            while list((tmp_path / f"{TOPIC}-0").glob("*.deleted")):  # noqa: ASYNC110 a thread removes them
                await trio.sleep(1)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_consumer_reads_on_without_a_gap_while_old_segments_go(tmp_path: Path, isolation: str) -> None:
    """It keeps up with the producer, so nothing is deleted that it has not read."""
    broker_settings = {"log.retention.check.interval.ms": "20", "log.initial.task.delay.ms": "0"}
    with running_process(tmp_path, broker_settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {"segment.bytes": "1048576", "retention.bytes": "2097152", "file.delete.delay.ms": "0"}
        (created,) = admin.create_topics([NewTopic(TOPIC, 1, config=config)]).values()
        created.result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "enable.auto.commit": False,
            }
        )
        place = TopicPartition(TOPIC, 0, 0)
        consumer.assign([place])
        numbers, read = itertools.count(), list[int]()
        for _ in range(20):
            sent = [next(numbers) for _ in range(10)]
            for number in sent:
                producer.produce(TOPIC, b"%d" % number + b" " * 50_000, partition=0)
            assert producer.flush(DEADLINE_S) == 0
            while len(read) <= sent[-1]:
                message = consumer.poll(DEADLINE_S)
                assert message is not None
                assert message.error() is None, message.error()
                read.append(int((message.value() or b"").split()[0]))
        assert read == list(range(200))

        def low() -> int:
            try:
                return consumer.get_watermark_offsets(place, timeout=DEADLINE_S)[0]
            except KafkaException:
                return -1

        # 200 batches of 50 KB are ten segments or more, of which two to three stay.
        wait_until(lambda: low() >= 140, "deletion of the oldest segments")
        consumer.close()
