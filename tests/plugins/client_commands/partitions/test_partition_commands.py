"""`tidelog partitions` against tidelog and against Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.deadlines import DEADLINE_S, wait_until
from tests.kernel.cli.running import tidelog_in_process
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise

FIRST_TIME = 1_700_000_000_000


class Orders:
    """A topic of two partitions with ten records in the first one, a second apart."""

    def __init__(self, bootstrap: str, **config: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"orders-{uuid.uuid4().hex[:12]}"
        with BlockingClient(bootstrap) as client:
            or_raise(client.create_topics([NewTopic(self.topic, 2, config=config)]))
            or_raise(client.list_offsets([TopicPartition(self.topic, index) for index in range(2)]))
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(10):
            stamp = FIRST_TIME + 1000 * number
            producer.produce(self.topic, b"%d" % number, b"key", partition=0, timestamp=stamp)
        producer.flush(DEADLINE_S)

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tidelog_in_process("partitions", command, "--bootstrap-server", self.bootstrap, *arguments)

    def succeeded(self, command: str, *arguments: str) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def json_of(self, command: str, *arguments: str) -> Any:
        return json.loads(self.succeeded(command, "--json", *arguments))

    def failed(self, command: str, *arguments: str, code: int = 1) -> str:
        done = self.run(command, *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        return done.stderr

    def earliest(self) -> list[int]:
        return [each["earliest"] for each in self.json_of("describe", self.topic)]


@pytest.fixture
def orders(real_broker: str) -> Orders:
    return Orders(real_broker)


def test_partitions_are_described_with_offsets_also_of_a_time(orders: Orders) -> None:
    first, second = orders.json_of("describe", orders.topic, "--at", "2023-11-14T22:13:23Z")
    assert first == {
        "topic": orders.topic,
        "partition": 0,
        "leader": 1,
        "epoch": first["epoch"],
        "replicas": [1],
        "isr": [1],
        "earliest": 0,
        "latest": 10,
        "at": 3,
    }
    assert (second["partition"], second["latest"], second["at"]) == (1, 0, None)
    (only,) = orders.json_of("describe", f"{orders.topic}:1")
    assert only["partition"] == 1
    header, row = orders.succeeded("describe", f"{orders.topic}:0").splitlines()
    assert header.split() == [
        "TOPIC",
        "PARTITION",
        "LEADER",
        "EPOCH",
        "REPLICAS",
        "ISR",
        "EARLIEST",
        "LATEST",
    ]
    assert row.split()[-2:] == ["0", "10"]


def test_partitions_are_added(orders: Orders) -> None:
    checked = orders.succeeded("add", orders.topic, "3", "--validate-only")
    assert checked == f"Topic {orders.topic} could have 3 partitions; it was not changed.\n"
    assert orders.succeeded("add", orders.topic, "3") == f"Topic {orders.topic} has 3 partitions.\n"
    wait_until(lambda: len(orders.json_of("describe", orders.topic)) == 3, "there are three partitions")
    assert "has to be more than now" in orders.failed("add", orders.topic, "3")
    assert "There is no topic 'nowhere'" in orders.failed("add", "nowhere", "3")


def test_records_are_deleted(orders: Orders) -> None:
    here = f"{orders.topic}:0"
    deleted = orders.json_of("delete-records", here, "--before-offset", "2")
    assert deleted == [{"topic": orders.topic, "partition": 0, "earliest": 2}]
    orders.succeeded("delete-records", orders.topic, "--before-time", "2023-11-14T22:13:24.5Z")
    assert orders.earliest() == [5, 0]
    assert "has no such offset" in orders.failed("delete-records", here, "--before-offset", "11")
    printed = orders.succeeded("delete-records", here, "--all").splitlines()
    assert printed[1].split() == [orders.topic, "0", "10"]
    # No record is so new: all that there are are older.
    assert orders.json_of("delete-records", here, "--before-time", "2100-01-01")[0]["earliest"] == 10


def test_records_of_a_compacted_topic_are_kept(real_broker: str) -> None:
    compacted = Orders(real_broker, **{"cleanup.policy": "compact"})
    refused = compacted.failed("delete-records", compacted.topic, "--all")
    assert f"No records of {compacted.topic}-0 can be deleted: the topic is only compacted." in refused
    assert compacted.earliest() == [0, 0]


@pytest.mark.parametrize("real_broker", ["tidelog"], indirect=True)
def test_wrong_usage_is_explained(orders: Orders) -> None:
    topic = orders.topic
    assert "in one way" in orders.failed("delete-records", topic, code=2)
    assert "in one way" in orders.failed("delete-records", topic, "--all", "--before-offset", "1", code=2)
    assert "is not of the form TOPIC" in orders.failed("describe", f"{topic}:", code=2)
    assert "is no time" in orders.failed("describe", topic, "--at", "noon", code=2)
    assert "there is no 2" in orders.failed("describe", f"{topic}:0,2")
    assert orders.earliest() == [0, 0]
