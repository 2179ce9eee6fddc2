"""What each client does while its frames are captured: a topic, records, a group, committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.deadlines import DEADLINE_S

RECORDS: Final = [(b"key", b"value"), (None, b"without a key"), (b"tombstone", None)]
TOPIC, GROUP = "golden", "golden-group"


def confluent_kafka(bootstrap: str) -> None:
    """librdkafka, with a transaction."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "golden", "compression.type": "lz4"}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    for key, value in RECORDS:
        producer.produce(TOPIC, value, key, headers={"header": b"content"})
    producer.commit_transaction()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < len(RECORDS):
        message = consumer.poll(1.0)
        read += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    admin.delete_topics([TOPIC])[TOPIC].result(DEADLINE_S)


def kafka_python(bootstrap: str) -> None:
    """The client in pure Python."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    for key, value in RECORDS:
        producer.send(TOPIC, value=value, key=key).get(DEADLINE_S)
    producer.close()
    consumer: Any = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    for _ in RECORDS:
        next(consumer)
    consumer.commit()
    consumer.close()
    admin.delete_topics([TOPIC])
    admin.close()


def aiokafka(bootstrap: str) -> None:
    """The client for asyncio."""
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 1, 1)])
    producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    for key, value in RECORDS:
        await producer.send_and_wait(TOPIC, value, key)
    await producer.stop()
    consumer: Any = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    for _ in RECORDS:
        await consumer.getone()
    await consumer.commit()
    await consumer.stop()
    await admin.delete_topics([TOPIC])
    await admin.close()


CLIENTS: Final[dict[str, Callable[[str], None]]] = {
    "confluent-kafka": confluent_kafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
