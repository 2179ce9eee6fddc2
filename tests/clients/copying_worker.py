"""Copies partition 0 of one topic to another in transactions, each record once, up to an offset.

Arguments: bootstrap servers, input topic, output topic, group, transactional id, end offset. It ends with an
error when the broker or another instance gets in its way; started again it goes on where its last commit was.
"""

from __future__ import annotations

import sys

from confluent_kafka import OFFSET_STORED, Consumer, Producer, TopicPartition

TIMEOUT_S = 30.0
BATCH = 20


def copy(bootstrap: str, source: str, target: str, group: str, transactional_id: str, end: int) -> None:
    """Copy until the group's position is `end`."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    (committed,) = consumer.committed([TopicPartition(source, 0)], TIMEOUT_S)
    position = max(committed.offset, 0)
    consumer.assign([TopicPartition(source, 0, OFFSET_STORED)])
    while position < end:
        messages = [message for message in consumer.consume(BATCH, 0.5) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=0)
        position = max(message.offset() or 0 for message in messages) + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(source, 0, position)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
    consumer.close()


if __name__ == "__main__":
    _, bootstrap, source, target, group, transactional_id, end = sys.argv
    copy(bootstrap, source, target, group, transactional_id, int(end))
