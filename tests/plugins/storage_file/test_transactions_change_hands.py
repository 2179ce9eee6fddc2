"""Transactions survive a change of hands: what Apache Kafka decided, tidelog knows, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.deadlines import DEADLINE_S
from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on

TOPIC = "payments"


def transact(bootstrap: str) -> Producer:
    """Leave committed, aborted and undecided records; the producer has to stay, or its client would abort."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "till", "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions(DEADLINE_S)
    for number in range(6):
        producer.begin_transaction()
        for index in range(20):
            producer.produce(TOPIC, b"%d-%d" % (number, index), partition=0)
        producer.flush(DEADLINE_S)
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    undecided = Producer({**settings, "transactional.id": "undecided", "transaction.timeout.ms": 600_000})
    undecided.init_transactions(DEADLINE_S)
    undecided.begin_transaction()
    undecided.produce(TOPIC, b"undecided", partition=0)
    undecided.flush(DEADLINE_S)
    return undecided


def seen(bootstrap: str, isolation: str) -> tuple[list[bytes], int]:
    """All values that a reader of that isolation sees, and where its log ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    partition = TopicPartition(TOPIC, 0, 0)
    try:
        consumer.assign([partition])
        values: list[bytes] = []
        while (message := consumer.poll(DEADLINE_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error  # its public name
                return values, consumer.get_watermark_offsets(partition, timeout=DEADLINE_S)[1]
            values.append(message.value() or b"")
        raise AssertionError(f"the consumer stopped after {len(values)} records")
    finally:
        consumer.close()


def seen_by_all(bootstrap: str) -> dict[str, tuple[list[bytes], int]]:
    """What each kind of reader sees."""
    return {isolation: seen(bootstrap, isolation) for isolation in ("read_committed", "read_uncommitted")}


@pytest.mark.long
def test_read_committed_sees_the_same_transactions_after_kafka_and_tidelog_switch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        kafka.start()
        Client(kafka.bootstrap).create(TOPIC, 1)
        undecided = transact(kafka.bootstrap)
        expected = seen_by_all(kafka.bootstrap)
        committed, everything = expected["read_committed"], expected["read_uncommitted"]
        assert [len(committed[0]), len(everything[0])] == [60, 121]
        assert (committed[1], everything[1]) == (126, 127)
        kafka.kill()
        del undecided
        tidelog.start()
        assert seen_by_all(tidelog.bootstrap) == expected
        tidelog.stop()
        tidelog.start()
        assert seen_by_all(tidelog.bootstrap) == expected
        tidelog.kill()
        kafka.start()
        assert seen_by_all(kafka.bootstrap) == expected
    finally:
        kafka.stop()
        tidelog.stop()
