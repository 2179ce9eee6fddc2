"""ListOffsets by time over batches that compaction left, compared with Apache Kafka on the same files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.core import Core, configure
from tests.kernel.log.compacted import append_left
from tests.plugins.metadata_kraft.hands import kafka_on
from tests.plugins.storage_file.segments.test_log_segments import BASE, MINUTE_MS, random_batch
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client import BlockingClient, or_raise

MAX_TIMESTAMP = -3
TIMES = [MAX_TIMESTAMP, *range(BASE - MINUTE_MS, BASE + 62 * MINUTE_MS, 2 * MINUTE_MS)]
LOGS = 24
NOTHING = (-1, -1)


def answer(partition: UnifiedLog, time: int) -> tuple[int, int]:
    """Timestamp and offset as tidelog finds them."""
    of_largest = time == MAX_TIMESTAMP
    found = partition.offset_of_max_timestamp() if of_largest else partition.offset_for_timestamp(time)
    return NOTHING if found is None else found[:2]


async def write_logs(place: Path) -> dict[TopicPartition, dict[int, tuple[int, int]]]:
    """Write logs of one segment each, stop cleanly; what tidelog answers for each of them."""
    core = Core(place)
    await core.open()
    choose = random.Random(7)
    topic = await core.create("flights", LOGS, retention_ms="-1")
    answers: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
    for partition in topic.partitions:
        # Kafka looks into one segment only.
        configure(partition.log, {"segment.bytes": 1 << 20, "segment.ms": LONG_MAX})
        append_left(partition.log, [random_batch(choose) for _ in range(choose.randrange(20))])
        answers[partition.topic_partition] = {time: answer(partition.log, time) for time in TIMES}
    await core.close()
    return answers


@pytest.mark.long
async def test_list_offsets_by_time_answers_as_kafka_does_after_compaction(tmp_path: Path) -> None:
    answers = await write_logs(tmp_path)
    kafka = kafka_on(tmp_path / "data", tmp_path / "kafka")
    records_found = 0
    kafka.start()
    try:
        with BlockingClient(kafka.bootstrap) as client:
            for time in TIMES:
                for place, found in or_raise(client.list_offsets(answers, time)).items():
                    theirs = found.timestamp, found.offset
                    # Where no record has the timestamp of the largest header, Kafka answers nothing.
                    if not (time == MAX_TIMESTAMP and theirs == NOTHING):
                        assert theirs == answers[place][time], (place, time)
                    records_found += theirs != NOTHING
    finally:
        kafka.stop()
    assert records_found > LOGS * len(TIMES) // 2
