"""What each client does while its frames are captured: a topic, records, a group, committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.clients.java_programs import run_java
from tests.deadlines import DEADLINE_S
from tests.peers import NEWEST_KAFKA

RECORDS: Final = [(b"key", b"value"), (None, b"without a key"), (b"tombstone", None)]
TOPIC: Final = "golden"
READING: Final[dict[str, Any]] = {
    "group.id": "golden-group",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


def confluent_kafka(bootstrap: str) -> None:
    """librdkafka, with a transaction."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    brokers: dict[str, Any] = {"bootstrap.servers": bootstrap}
    admin = AdminClient(brokers)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
    producer = Producer(brokers | {"transactional.id": "golden", "compression.type": "lz4"})
    producer.init_transactions()
    producer.begin_transaction()
    for key, value in RECORDS:
        producer.produce(TOPIC, value, key, headers={"header": b"content"})
    producer.commit_transaction()
    consumer = Consumer(brokers | READING)
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
    consumer: Any = KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, **_as_arguments(READING))
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
    consumer: Any = AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, **_as_arguments(READING))
    await consumer.start()
    for _ in RECORDS:
        await consumer.getone()
    await consumer.commit()
    await consumer.stop()
    await admin.delete_topics([TOPIC])
    await admin.close()


def java(bootstrap: str) -> None:
    """The newest kafka-clients, with a group of the consumer protocol."""
    settings = {"bootstrap.servers": bootstrap, "group.protocol": "consumer", "compression.type": "snappy"}
    records = [" ".join("null" if side is None else side.decode() for side in record) for record in RECORDS]
    arguments = [f"{key}={value}" for key, value in (settings | READING).items()]
    run_java("Golden", NEWEST_KAFKA, [TOPIC, *arguments], "\n".join(records))


def _as_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings by the names of arguments."""
    return {name.replace(".", "_"): value for name, value in settings.items()}


CLIENTS: Final[dict[str, Callable[[str], None]]] = {
    "confluent-kafka": confluent_kafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "java": java,
}
