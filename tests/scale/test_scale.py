"""2,000 partitions and 1,000 connections: memory, descriptors, and no record lost after any kind of end."""

from __future__ import annotations

import resource
import socket
import struct
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bad_input.raw import RawConnection
from tests.bad_input.requests import ask
from tests.deadlines import DEADLINE_S, wait_until
from tests.peers import TidelogServer, answers_api_versions, free_port
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

TOPICS = [f"topic-{number}" for number in range(200)]
CONNECTIONS = 1_000
Place: TypeAlias = tuple[str, int]
NOBODY = ApiVersionsRequest()

ANNOUNCED = struct.pack(">i", 900_000)
"""The length of a large request that never comes."""
MOST_KEPT = 1.25
MAX_RESIDENT_MB = 150
MAX_DESCRIPTORS_PER_PARTITION = 2
MAX_OTHER_DESCRIPTORS = 100
# Fifty times what it takes on a small machine that has nothing else to do.
MAX_READY_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TidelogServer]:
    """A broker that can be stopped, killed and started again at the same address."""
    server = TidelogServer(tmp_path, requested_port=free_port())
    server.start(MAX_READY_S)
    yield server
    server.stop(DEADLINE_S)


@pytest.mark.parametrize("per_topic", [1, pytest.param(10, marks=pytest.mark.long)])
def test_many_partitions(broker: TidelogServer, per_topic: int) -> None:
    partitions = [(topic, index) for topic in TOPICS for index in range(per_topic)]
    _create_topics(broker, per_topic)
    _produce_one_record_to_each(broker, partitions)
    _assert_comfortable(broker, partitions)
    _assert_each_has_its_record(broker, partitions)
    broker.stop(DEADLINE_S)
    broker.start(MAX_READY_S)
    _assert_comfortable(broker, partitions)
    _assert_each_has_its_record(broker, partitions)
    broker.kill()
    broker.start(MAX_READY_S)
    _assert_comfortable(broker, partitions)
    _assert_each_has_its_record(broker, partitions)


def test_a_thousand_connections(broker: TidelogServer) -> None:
    before = _descriptors(broker)
    with _many_descriptors(), ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connection = connections.enter_context(RawConnection(broker.bootstrap))
            connection.send(ask(API_VERSIONS, 0, NOBODY).data)
            connection.frame()
        assert answers_api_versions("127.0.0.1", broker.port)
        _wait_for_descriptors(broker, before + CONNECTIONS)
        assert _resident_mb(broker) < MAX_RESIDENT_MB
    _wait_for_descriptors(broker, before)


def _create_topics(broker: TidelogServer, per_topic: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(topic, per_topic, 1) for topic in TOPICS]
    for created in admin.create_topics(topics, operation_timeout=DEADLINE_S).values():
        created.result(DEADLINE_S)


def _produce_one_record_to_each(broker: TidelogServer, partitions: Sequence[Place]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for topic, partition in partitions:
        producer.produce(topic, f"{topic}/{partition}", partition=partition)
    assert producer.flush(DEADLINE_S) == 0


def _assert_each_has_its_record(broker: TidelogServer, partitions: Sequence[Place]) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic, index in partitions])
    values: list[bytes | None] = []
    while len(values) < len(partitions):
        messages = consumer.consume(len(partitions) - len(values), DEADLINE_S)
        values += [message.value() for message in messages]
        assert messages, f"{len(values)} of {len(partitions)} records came"
    assert sorted(filter(None, values)) == sorted(f"{topic}/{index}".encode() for topic, index in partitions)
    consumer.close()


@pytest.mark.long
def test_a_broker_keeps_little_of_what_a_flood_of_connections_took(broker: TidelogServer) -> None:
    """A fifth, when nothing else ran; an exception kept for each made it a third."""
    _wait_for_steady_memory(broker)
    before_mb = _resident_mb(broker)
    with _many_descriptors(), ExitStack() as flood:
        for _ in range(2 * CONNECTIONS):
            connection = flood.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            connection.sendall(ANNOUNCED)
        _wait_for_descriptors(broker, 2 * CONNECTIONS)
        during_mb = _resident_mb(broker)
    assert during_mb > before_mb * MOST_KEPT
    wait_until(lambda: _resident_mb(broker) < before_mb * MOST_KEPT, "the return of the memory")


def _assert_comfortable(broker: TidelogServer, partitions: Sequence[Place]) -> None:
    assert _resident_mb(broker) < MAX_RESIDENT_MB
    assert _descriptors(broker) < len(partitions) * MAX_DESCRIPTORS_PER_PARTITION + MAX_OTHER_DESCRIPTORS


def _resident_mb(broker: TidelogServer) -> float:
    status = Path(f"/proc/{broker.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _wait_for_steady_memory(broker: TidelogServer) -> None:
    """What is imported after the start is no part of a flood."""
    seen = [0.0]

    def is_steady() -> bool:
        seen.append(_resident_mb(broker))
        return seen[-1] == seen[-2]

    wait_until(is_steady, "steady memory")


def _descriptors(broker: TidelogServer) -> int:
    return len([*Path(f"/proc/{broker.pid}/fd").iterdir()])


def _wait_for_descriptors(broker: TidelogServer, expected: int) -> None:
    """Connections are accepted and given up a moment after the client sees it."""
    deadline = time.monotonic() + DEADLINE_S
    while abs(_descriptors(broker) - expected) > MAX_OTHER_DESCRIPTORS:
        assert time.monotonic() < deadline, f"{_descriptors(broker)} descriptors instead of {expected}"
        time.sleep(0.05)


@contextmanager
def _many_descriptors() -> Generator[None]:
    """This process needs one for each connection too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
