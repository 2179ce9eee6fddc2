"""A broker that is started with an older copy of its data while a consumer of a group reads from it."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer, free_port
from tidelog.client import Consumer, TopicPartition
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 100},
    "consumer": {"group_protocol": "consumer"},
}


def produce(server: TidelogServer, topic: str, numbers: range) -> None:
    with BlockingClient(server.bootstrap) as client:
        client.produce(TopicPartition(topic, 0), [NewRecord(b"%d" % number) for number in numbers])


@pytest.mark.parametrize("protocol", OPTIONS)
def test_a_consumer_goes_on_with_a_broker_that_has_older_data(tmp_path: Path, protocol: str) -> None:
    server = TidelogServer(tmp_path, SETTINGS, requested_port=free_port())
    topic, group = "orders", str(uuid.uuid4())
    server.start()
    try:
        with BlockingClient(server.bootstrap) as client:
            or_raise(client.create_topics([NewTopic(topic, 1)]))
        produce(server, topic, range(5))
        server.stop()
        older = shutil.copytree(server.data_dir, tmp_path / "older")
        server.start()
        with Consumer(
            server.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=50,
            fetch_max_wait_ms=50,
            **OPTIONS[protocol],
        ) as consumer:
            consumer.subscribe([topic])
            assert read_until(consumer, b"4") == [b"%d" % number for number in range(5)]
            produce(server, topic, range(5, 10))
            assert read_until(consumer, b"9") == [b"%d" % number for number in range(5, 10)]
            server.stop()
            shutil.rmtree(server.data_dir)
            shutil.copytree(older, server.data_dir)
            server.start()
            produce(server, topic, range(20, 23))
            # The group and its offsets are not there: it begins at the start.
            assert read_until(consumer, b"22")[-3:] == [b"20", b"21", b"22"]
            assert consumer.assignment() == {TopicPartition(topic, 0)}
            if not is_committed(consumer):
                assert read_until(consumer, b"22")[-3:] == [b"20", b"21", b"22"]
                assert is_committed(consumer)
            assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 8  # type: ignore[union-attr]
    finally:
        server.stop()


def is_committed(consumer: Consumer) -> bool:
    """Commit; False where the member did not know yet that its group is gone, and joins again."""
    try:
        consumer.commit()
    except ErrorResponse as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return False
    return True


def read_until(consumer: Consumer, last: bytes) -> list[bytes]:
    """What `poll` returns up to a record."""
    found: list[bytes] = []
    for _ in range(round(DEADLINE_S * 20)):
        found += [each.value or b"" for each in consumer.poll(0.05)]
        if found and found[-1] == last:
            return found
    raise AssertionError(f"only {found}")
