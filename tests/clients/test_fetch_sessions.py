"""Consumers that fetch in sessions without any setting: they miss nothing that comes while they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio
from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from tests.deadlines import DEADLINE_S, wait_until
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import ThreadedBroker, broker_in_thread
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.fetch_session import IncrementalFetchSession
from tidelog.plugins.protocol_kafka.fetch_session_cache import FetchSessionCache

from .brokers import AGAINST_KAFKA
from .java_programs import run_java

TOPIC = "topic"
PARTITIONS = 20
ROUNDS = 4
TURNS_AT_THE_END = 3
COUNT = PARTITIONS * ROUNDS

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="looks into the broker")


class Sessions:
    """The requests in sessions, counted."""

    def __init__(self) -> None:
        self.requests = 0


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Counts the requests of sessions."""
    counted = Sessions()
    touch = FetchSessionCache.touch

    def count(cache: FetchSessionCache, session: IncrementalFetchSession) -> bool:
        counted.requests += 1
        return touch(cache, session)

    monkeypatch.setattr(FetchSessionCache, "touch", count)
    return counted


@pytest.fixture
def broker(sessions: Sessions) -> Iterator[ThreadedBroker]:
    """A broker in this process."""
    with broker_in_thread() as running:
        yield running


def read_with_kafka_python(bootstrap: str) -> list[tuple[int, int, str]]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, fetch_max_wait_ms=50, consumer_timeout_ms=int(DEADLINE_S * 1000)
    )
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    try:
        found = [next(consumer) for _ in range(COUNT)]
    finally:
        consumer.close()
    return [(each.partition, each.offset, each.value.decode()) for each in found]


def read_with_java(bootstrap: str) -> list[tuple[int, int, str]]:
    lines = run_java("ReadPartitions", "4.4.0", [bootstrap, TOPIC, str(PARTITIONS), str(COUNT)]).splitlines()
    words = [line.split(" ", 2) for line in lines]
    return [(int(partition), int(offset), value) for partition, offset, value in words]


READERS: Mapping[str, Callable[[str], list[tuple[int, int, str]]]] = {
    "kafka-python": read_with_kafka_python,
    "java": read_with_java,
}


@pytest.mark.parametrize("reader", READERS)
def test_fetch_sessions_miss_nothing(broker: ThreadedBroker, sessions: Sessions, reader: str) -> None:
    topic = trio.from_thread.run(
        broker.broker.topics.create, TopicSpec(TOPIC, PARTITIONS), trio_token=broker.token
    )
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(READERS[reader], broker.bootstrap)
        for number in range(ROUNDS):
            before = sessions.requests
            for index in range(PARTITIONS):
                trio.from_thread.run_sync(_append, topic, index, number, trio_token=broker.token)
            if number < ROUNDS - 1:
                reached = before + TURNS_AT_THE_END
                wait_until(lambda reached=reached: sessions.requests >= reached, "another turn")  # type: ignore[misc]
        found = reading.result(DEADLINE_S)
    expected = [(index, number, str(number)) for index in range(PARTITIONS) for number in range(ROUNDS)]
    assert sorted(found) == expected
    assert sessions.requests >= (ROUNDS - 1) * TURNS_AT_THE_END


def _append(topic: Topic, index: int, number: int) -> None:
    topic.partitions[index].log.append_nowait(make_batch([str(number).encode()]))
