"""Transactional producers and readers of committed data, of confluent-kafka and the Java client."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.deadlines import DEADLINE_S
from tests.peers import run_kafka_tool

from .brokers import running_broker
from .java_programs import run_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .brokers import Broker

TOOL = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
# The newest works by transaction version 2, the others by what was before.
RELEASES = ["4.4.0", *(pytest.param(old, marks=pytest.mark.long) for old in ("3.9.1", "2.8.2"))]
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that looks for overdue transactions often."""
    with running_broker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


def transactional(broker: Broker, name: str, **settings: object) -> Producer:
    """A producer that has taken the transactional id over."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, **settings})
    producer.init_transactions(DEADLINE_S)
    return producer


def reader(broker: Broker, topic: str, **settings: Any) -> Consumer:
    """A consumer of committed data, at the beginning of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader of {topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    return consumer


def values_in(broker: Broker, topic: str) -> list[bytes | None]:
    """All that a reader of committed data gets up to where it has to stop."""
    consumer, values = reader(broker, topic), list[bytes | None]()
    while True:
        (message,) = consumer.consume(1, DEADLINE_S)
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return values
        else:
            raise KafkaException(error)


def write(producer: Producer, topic: str, *values: bytes) -> None:
    """Produce, all of it acknowledged."""
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def test_what_is_committed_is_read_and_what_is_aborted_is_not(broker: Broker, topic: str) -> None:
    producer = transactional(broker, topic)
    for number, commit in enumerate([True, False, True, True, False]):
        producer.begin_transaction()
        write(producer, topic, b"%d a" % number, b"%d b" % number)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
    assert values_in(broker, topic) == [b"0 a", b"0 b", b"2 a", b"2 b", b"3 a", b"3 b"]


def test_what_is_open_is_not_read(broker: Broker, topic: str) -> None:
    producer = transactional(broker, topic)
    producer.begin_transaction()
    write(producer, topic, b"open")
    assert values_in(broker, topic) == []
    producer.commit_transaction(DEADLINE_S)
    assert values_in(broker, topic) == [b"open"]


def test_a_second_instance_shuts_the_first_one_out(broker: Broker, topic: str) -> None:
    first = transactional(broker, topic)
    first.begin_transaction()
    write(first, topic, b"first")
    second = transactional(broker, topic)
    second.begin_transaction()
    write(second, topic, b"second")
    second.commit_transaction(DEADLINE_S)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(DEADLINE_S)
    assert refused.value.args[0].fatal()
    assert values_in(broker, topic) == [b"second"]


def test_a_transaction_that_is_open_for_too_long_is_aborted(broker: Broker, topic: str) -> None:
    late = transactional(broker, topic, **{"transaction.timeout.ms": 1000})
    late.begin_transaction()
    write(late, topic, b"late")
    other = Producer({"bootstrap.servers": broker.bootstrap})
    write(other, topic, b"other")
    consumer = reader(broker, topic, **{"enable.partition.eof": False})
    (message,) = consumer.consume(1, DEADLINE_S)
    assert (message.error(), message.value()) == (None, b"other")
    consumer.close()
    with pytest.raises(KafkaException):
        late.commit_transaction(DEADLINE_S)


def test_offsets_count_when_the_transaction_does(broker: Broker, topic: str) -> None:
    source, group = f"{topic}-in", f"{topic}-group"
    write(Producer({"bootstrap.servers": broker.bootstrap}), source, b"a", b"b", b"c")
    consumer = reader(broker, source, **{"group.id": group})
    producer = transactional(broker, topic)
    partition = TopicPartition(source, 0, 2)
    for commit, expected in ((False, -1001), (True, 2)):
        producer.begin_transaction()
        write(producer, topic, b"copied")
        producer.send_offsets_to_transaction([partition], consumer.consumer_group_metadata(), DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
        (committed,) = consumer.committed([TopicPartition(source, 0)], DEADLINE_S)
        assert committed.offset == expected
    consumer.close()
    assert values_in(broker, topic) == [b"copied"]


@pytest.mark.parametrize("release", RELEASES)
def test_the_java_client_copies_each_record_once(release: str, broker: Broker, topic: str) -> None:
    source = f"{topic}-in"
    expected = [b"%d" % number for number in range(200)]
    write(Producer({"bootstrap.servers": broker.bootstrap}), source, *expected)
    arguments = [broker.bootstrap, source, topic, f"{topic}-group", f"{topic}-id", "200"]
    told = re.fullmatch(r"committed (\d+) aborted (\d+)\n", run_java("Pipeline", release, arguments))
    assert told is not None
    assert int(told[1]) >= 10
    assert int(told[2]) >= 3
    assert values_in(broker, topic) == expected


@pytest.mark.long
def test_kafkas_tool_shows_transactions_and_aborts_one_that_hangs(broker: Broker, topic: str) -> None:
    producer = transactional(broker, topic)
    producer.begin_transaction()
    write(producer, topic, b"hangs")

    def told(*arguments: str) -> list[str]:
        ended = run_kafka_tool(TOOL, ["--bootstrap-server", broker.bootstrap, *arguments])
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.split()

    listed = told("list", "--transactional-id-pattern", topic)
    assert listed[-1] == "Ongoing"
    described = told("describe", "--transactional-id", topic)
    assert {"Ongoing", f"{topic}-0"} <= set(described)
    producers = told("describe-producers", "--topic", topic, "--partition", "0")
    assert producers[-1] == "0", "the offset that its transaction begins at"
    told("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    write(Producer({"bootstrap.servers": broker.bootstrap}), topic, b"free")
    assert values_in(broker, topic) == [b"free"]


def test_kafkas_tool_reads_the_transaction_log(tmp_path_factory: pytest.TempPathFactory, topic: str) -> None:
    with running_broker(tmp_path_factory.mktemp("dumped")) as running:
        producer = transactional(running, topic)
        producer.begin_transaction()
        write(producer, topic, b"1")
        producer.commit_transaction(DEADLINE_S)
        running.stop()
        logs = [
            path for path in running.data_dir.glob("__transaction_state-*/*.log") if path.stat().st_size > 0
        ]
        assert len(logs) == 1
        dumped = run_kafka_tool(DUMP, ["--transaction-log-decoder", "--files", str(logs[0])])
    values = [
        json.loads(found)["data"] for found in re.findall(r"payload: (\{.*\})$", dumped.stdout, re.MULTILINE)
    ]
    statuses = ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [value["transactionStatus"] for value in values] == statuses
    assert values[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
