"""A transaction that is open when a directory changes hands between Apache Kafka and tidelog ends there.

A producer with the same transactional id takes it over from whoever coordinated it: what was open is aborted,
what was committed stays, and the epochs go on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.deadlines import DEADLINE_S
from tests.peers import KafkaServer, TidelogServer
from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on

TOPIC, NAME = "orders", "payments"


def produce_in_a_transaction(producer: Producer, value: bytes) -> None:
    """Open one, and write to it."""
    producer.begin_transaction()
    producer.produce(TOPIC, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def committed_values(bootstrap: str) -> list[bytes | None]:
    """All that a reader of committed data gets up to where it has to stop."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    while True:
        (message,) = consumer.consume(1, DEADLINE_S)
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


@pytest.mark.long
def test_transactions_change_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    few = {"transaction.state.log.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    kafka, tidelog = kafka_on(data, tmp_path / "kafka", **few), tidelog_on(data, tmp_path / "tidelog")
    servers: tuple[KafkaServer | TidelogServer, ...] = (kafka, tidelog, kafka)
    committed: list[bytes] = []
    producers: list[Producer] = []
    try:
        for turn, server in enumerate(servers):
            server.start()
            if turn == 0:
                Client(server.bootstrap).create(TOPIC, 1)
            producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": NAME})
            producers.append(producer)
            producer.init_transactions(DEADLINE_S)
            assert committed_values(server.bootstrap) == committed
            produce_in_a_transaction(producer, b"committed %d" % turn)
            producer.commit_transaction(DEADLINE_S)
            committed.append(b"committed %d" % turn)
            produce_in_a_transaction(producer, b"open %d" % turn)
            server.stop()
    finally:
        kafka.stop()
        tidelog.stop()
