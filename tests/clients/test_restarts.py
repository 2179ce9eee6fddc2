"""Clients that stay connected while the broker is stopped or killed and comes back at the same address."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonPartition

from tests.deadlines import DEADLINE_S
from tests.peers import NEWEST_KAFKA

from .brokers import running_broker
from .java_programs import java_command

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from .brokers import Broker

TOPIC = "restarts"
ROUNDS = [(0, 50), (50, 120), (120, 150)]

pytestmark = pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.long), "kill"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of its own for each test, since it is stopped and killed."""
    with running_broker(tmp_path) as running:
        yield running


def _restart_between(broker: Broker, end: str, records: int) -> None:
    """End the broker and start it again, unless nothing was produced yet."""
    if records:
        getattr(broker, end)()
        broker.start()


def test_confluent_kafka_goes_on(broker: Broker, end: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": 500}
    producer = Producer({**settings, "enable.idempotence": True})
    consumer = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    read: list[bytes | None] = []
    for start, stop in ROUNDS:
        _restart_between(broker, end, start)
        for number in range(start, stop):
            producer.produce(TOPIC, str(number), partition=0)
        assert producer.flush(DEADLINE_S) == 0
        while len(read) < stop:
            messages = consumer.consume(stop - len(read), DEADLINE_S)
            assert messages
            read += [message.value() for message in messages if message.error() is None]
    assert read == [str(number).encode() for number in range(ROUNDS[-1][1])]
    consumer.close()


def test_the_java_client_goes_on(broker: Broker, end: str) -> None:
    with _running(java_command("GoOn", NEWEST_KAFKA, [broker.bootstrap, TOPIC])) as program:
        for start, stop in ROUNDS:
            _restart_between(broker, end, start)
            assert program.stdin is not None
            assert program.stdout is not None
            print(stop - start, file=program.stdin, flush=True)
            read = program.stdout.readline().split()
            assert read == [f"{start + number}:value{number}" for number in range(stop - start)]


@contextmanager
def _running(command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A program that is spoken to; whatever becomes of the test, it ends."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of its connects that were refused
@pytest.mark.long
def test_kafka_python_goes_on(broker: Broker, end: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=int(DEADLINE_S * 1000))
    partition = PythonPartition(TOPIC, 0)
    read: list[bytes | None] = []
    for start, stop in ROUNDS:
        _restart_between(broker, end, start)
        for number in range(start, stop):
            producer.send(TOPIC, str(number).encode(), partition=0)
        producer.flush(DEADLINE_S)
        if not consumer.assignment():
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
        while len(read) < stop:
            read.append(next(consumer).value)
    assert read == [str(number).encode() for number in range(ROUNDS[-1][1])]
    producer.close()
    consumer.close()
