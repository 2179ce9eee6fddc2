"""Apache Kafka deletes the same segments of the same directory."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.deadlines import DEADLINE_S, wait_until
from tests.peers import KafkaServer, TidelogServer
from tests.plugins.metadata_kraft.hands import QUIET, Client, kafka_on, tidelog_on

HOUR_MS = 3_600_000
LONG_MAX = str(2**63 - 1)
NEVER = {"log.retention.check.interval.ms": "86400000"}
AT_ONCE = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "100"}
ROLL = {"segment.ms": "1", "message.timestamp.after.max.ms": LONG_MAX, "retention.ms": "-1"}
"""Batches with timestamps that grow get a segment each."""
HISTORIES: dict[str, tuple[dict[str, str], list[float]]] = {
    "by-age": ({"retention.ms": str(HOUR_MS)}, [9, 8, 7, 0.5, 0.4, 0]),
    "all-by-age": ({"retention.ms": str(HOUR_MS)}, [9, 8, 7, 6]),
    "future": ({"retention.ms": str(HOUR_MS)}, [9, 8, -48, -49]),
    "by-size": ({"retention.bytes": "4000"}, [9, 8, 7, 6, 5, 4]),
    "by-size-exactly": ({"retention.bytes": "0"}, [9, 8, 7]),
    "by-both": ({"retention.bytes": "5000", "retention.ms": str(HOUR_MS)}, [9, 8, 7, 6, 0.5, 0.4]),
    "neither": ({}, [9, 8, 7]),
    "log-start": ({}, [9, 8, 7, 6, 5]),
    "empty": ({"retention.ms": "1", "retention.bytes": "0"}, []),
    "compacted": ({"cleanup.policy": "compact", "retention.ms": "1"}, [9, 8, 7]),
}
"""Topic → its configuration, and how many hours ago each of its batches was written."""


def write_histories(server: TidelogServer) -> None:
    client = Client(server.bootstrap)
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, **QUIET})
    now_ms = time.time_ns() // 1_000_000
    for topic, (config, ages) in HISTORIES.items():
        client.create(topic, 1, {**ROLL, **config})
        for age in ages:
            producer.produce(topic, b"x" * 1000, key=b"k", partition=0, timestamp=now_ms - int(age * HOUR_MS))
            assert producer.flush(DEADLINE_S) == 0
    (deletion,) = client.admin.delete_records([TopicPartition("log-start", 0, 3)]).values()
    assert deletion.result(DEADLINE_S).low_watermark == 3


def log_starts(server: KafkaServer | TidelogServer) -> dict[str, tuple[int, int]]:
    """Topic → its first offset and its end, empty while some cannot be told."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "none", **QUIET})
    try:
        return {
            topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S)
            for topic in HISTORIES
        }
    except KafkaException:
        return {}
    finally:
        consumer.close()


EXPECTED = {
    "by-age": (3, 6),
    "all-by-age": (4, 4),
    "future": (2, 4),
    "by-size": (2, 6),
    "by-size-exactly": (3, 3),
    "by-both": (4, 6),
    "neither": (0, 3),
    "log-start": (3, 5),
    "empty": (0, 0),
    "compacted": (0, 3),
}


@pytest.mark.long
def test_the_same_segments_go(tmp_path: Path) -> None:
    writer = tidelog_on(tmp_path / "written", tmp_path / "work", **NEVER)
    writer.start()
    try:
        write_histories(writer)
        assert log_starts(writer)["by-age"] == (0, 6)
    finally:
        writer.stop()
    for name, start in (("kafka", kafka_on), ("tidelog", tidelog_on)):
        data = tmp_path / name
        shutil.copytree(tmp_path / "written", data)
        server = start(data, tmp_path / f"{name}-work", **AT_ONCE)
        server.start()
        try:
            wait_until(lambda: log_starts(server) == EXPECTED, f"{name}: {EXPECTED}")  # noqa: B023 ends here
            # They may only look so in passing: three more checks, every 300 ms, would delete what must stay.
            time.sleep(1.0)
            assert log_starts(server) == EXPECTED
        finally:
            server.stop()
