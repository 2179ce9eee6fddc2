"""Exactly once: a worker copies a topic while it and the broker are killed, again and again, at random.

A few kills by default; the environment variables `EXACTLY_ONCE_KILLS` and `EXACTLY_ONCE_RECORDS` ask for
more, and `EXACTLY_ONCE_SEED` for other moments.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.peers import NEWEST_KAFKA

from .brokers import AGAINST_KAFKA, running_broker
from .java_programs import java_command

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from .brokers import Broker

KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "4"))
RECORDS = int(os.environ.get("EXACTLY_ONCE_RECORDS", "6000"))
SEED = int(os.environ.get("EXACTLY_ONCE_SEED", "0"))
TIMEOUT_S = 60.0
PATIENCE_S = 120.0 + 10 * KILLS
WORKER = Path(__file__).parent / "copying_worker.py"


@contextmanager
def running(command: Sequence[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A worker; whatever becomes of the test, it ends."""
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def committed_values(broker: Broker, topic: str) -> list[bytes | None]:
    """All that a reader of committed data gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "checker",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    while True:
        for message in consumer.consume(500, 1.0):
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return values
            else:
                raise KafkaException(error)


def kill_something(broker: Broker, worker: subprocess.Popen[bytes], choose: random.Random) -> None:
    """The worker, the broker, or both."""
    target = choose.choice(["worker", "broker", "broker", "both"])
    if target != "worker":
        broker.kill()
    if target != "broker":
        worker.kill()
    if target != "worker":
        broker.start()


def work_with_kills(broker: Broker, command: Sequence[str], log: Path, choose: random.Random) -> int:
    """Run workers until one is done; how often something was killed."""
    kills, deadline = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with running(command, log) as worker:
            while worker.poll() is None and time.monotonic() < deadline:
                try:
                    worker.wait(choose.uniform(0.8, 2.0) if kills < KILLS else 1.0)
                except subprocess.TimeoutExpired:
                    if kills < KILLS:
                        kills += 1
                        kill_something(broker, worker, choose)
            if worker.returncode == 0:
                return kills
    raise AssertionError(f"no worker was done in {PATIENCE_S} s: {log.read_text()[-5000:]}")


@pytest.mark.skipif(AGAINST_KAFKA, reason="a killed Apache Kafka takes long to come back")
@pytest.mark.parametrize("client", ["confluent-kafka", "java"])
def test_each_record_is_copied_once_whatever_is_killed(client: str, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        arguments = [broker.bootstrap, "input", "output", "copying", "copier", str(RECORDS)]
        command = [sys.executable, str(WORKER), *arguments]
        if client == "java":
            command = java_command("Pipeline", NEWEST_KAFKA, arguments)
        expected = [b"%d" % number for number in range(RECORDS)]
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for value in expected:
            producer.produce("input", value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        kills = work_with_kills(broker, command, tmp_path / "worker.log", random.Random(SEED))
        assert kills > 0
        assert committed_values(broker, "output") == expected
