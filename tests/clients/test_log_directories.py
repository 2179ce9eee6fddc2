"""Log directories as real clients and tools see them: described, moved under load, and failing."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer, run_kafka_tool

from .brokers import AGAINST_KAFKA

if TYPE_CHECKING:
    from collections.abc import Generator

LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the place of its directories is tidelog's")


def lose(directory: Path) -> None:
    """Take it away at once: one that is emptied step by step may get new files in between."""
    shutil.rmtree(directory.rename(directory.with_name(f"{directory.name}-lost")))


@pytest.fixture
def broker(tmp_path: Path) -> Generator[TidelogServer]:
    """A broker with two directories for partitions, and one for the metadata log."""
    settings = {
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
        "metadata.log.dir": str(tmp_path / "meta"),
        "log.segment.delete.delay.ms": "0",
    }
    server = TidelogServer(tmp_path, settings)
    server.start()
    yield server
    server.stop()


def described(broker: TidelogServer) -> dict[str, list[str]]:
    """Directory → partitions, as Kafka's tool tells them."""
    done = run_kafka_tool(LOG_DIRS, ["--bootstrap-server", broker.bootstrap, "--describe"])
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    (told,) = json.loads(line)["brokers"]
    assert all(directory["error"] is None for directory in told["logDirs"])
    return {
        Path(directory["logDir"]).name: sorted(each["partition"] for each in directory["partitions"])
        for directory in told["logDirs"]
    }


def create(broker: TidelogServer, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)


def read_all(broker: TidelogServer, topic: str, partition: int, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes | None] = []
    while len(values) < count:
        messages = consumer.consume(count - len(values), timeout=DEADLINE_S)
        assert messages
        values += [message.value() for message in messages]
    consumer.close()
    return values


@pytest.mark.long
def test_kafkas_tools_move_a_partition_and_tell_where_it_is(broker: TidelogServer, tmp_path: Path) -> None:
    create(broker, "t", 2)
    assert described(broker) == {"a": ["t-0"], "b": ["t-1"]}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1})
    values = [b"%d" % number for number in range(20_000)]
    for value in values[:10_000]:
        producer.produce("t", value, partition=0)
    producer.flush(DEADLINE_S)
    plan = tmp_path / "plan.json"
    move = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(tmp_path / "b")]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    arguments = ["--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan)]
    for value in values[10_000:]:
        producer.produce("t", value, partition=0)
    throttles = ["--throttle", "50000000", "--replica-alter-log-dirs-throttle", "50000000"]
    done = run_kafka_tool(REASSIGN, [*arguments, "--execute", *throttles])
    assert "The replica-alter-dir throttle limit was set to 50000000 B/s" in done.stdout, done.stdout
    assert "Successfully started moving log directory" in done.stdout, done.stdout + done.stderr
    assert producer.flush(DEADLINE_S) == 0
    # The first question may come before the copy has caught up.
    deadline = time.monotonic() + DEADLINE_S
    while "still in progress" in (done := run_kafka_tool(REASSIGN, [*arguments, "--verify"])).stdout:
        assert time.monotonic() < deadline
    assert "Clearing broker-level throttles on broker 1" in done.stdout, done.stdout
    assert "completed" in done.stdout, done.stdout + done.stderr
    assert described(broker) == {"a": [], "b": ["t-0", "t-1"]}
    assert read_all(broker, "t", 0, len(values)) == values


def test_one_directory_is_lost_under_load_and_the_other_one_loses_nothing(
    broker: TidelogServer, tmp_path: Path
) -> None:
    create(broker, "t", 2)
    acknowledged: dict[int, int] = {0: 0, 1: 0}

    def count(error: object, message: object) -> None:
        if error is None:
            acknowledged[message.partition()] += 1  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 5000, "linger.ms": 1})
    for number in range(20_000):
        if number == 10_000:
            producer.flush(DEADLINE_S)
            assert acknowledged == {0: 5000, 1: 5000}
            # Appends go on in files that are open, until the next checkpoint sees it.
            lose(tmp_path / "a")
        producer.produce("t", b"%d" % number, partition=number % 2, on_delivery=count)
        producer.poll(0)
    producer.flush(DEADLINE_S)
    assert acknowledged[1] == 10_000
    assert read_all(broker, "t", 1, 10_000) == [b"%d" % number for number in range(1, 20_000, 2)]
    wait_until_leaderless(broker, "t", 0)
    create(broker, "later", 2)
    assert len(list((tmp_path / "b").glob("later-*"))) == 2


def wait_until_leaderless(broker: TidelogServer, topic: str, partition: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    deadline = time.monotonic() + DEADLINE_S
    while admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions[partition].leader != -1:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_without_any_directory_left_the_process_ends_and_says_why(tmp_path: Path) -> None:
    server = TidelogServer(tmp_path)
    server.start()
    create(server, "t", 1)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce("t", b"value", partition=0)
    producer.flush(DEADLINE_S)
    lose(server.data_dir)
    try:
        assert server.process.wait(DEADLINE_S) == 1
    finally:
        server.process.kill()
    output = (tmp_path / "tidelog.log").read_text()
    assert "halting: " in output
    assert "tidelog: the broker was halted: " in output
    assert "Traceback" not in output
