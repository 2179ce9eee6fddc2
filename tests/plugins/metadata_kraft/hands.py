"""A data directory in the hands of Apache Kafka and of tidelog in turn, seen through a client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S, repeat_while_refused
from tests.peers import KafkaServer, TidelogServer, find_kafka

QUIET: dict[str, str | int | float | bool] = {"log_level": 0}
KAFKA_SETTINGS = {
    # After a kill Kafka waits that long before the same broker may come back.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
}


def kafka_on(data: Path, work: Path, **settings: str) -> KafkaServer:
    """Apache Kafka on that directory; it formats one that is empty."""
    return KafkaServer(find_kafka(), work, {**KAFKA_SETTINGS, **settings}, data_dir=data)


def tidelog_on(data: Path, work: Path, **settings: str) -> TidelogServer:
    """tidelog on that directory."""
    return TidelogServer(work, {"node.id": "1", **settings}, data_dir=data)


@attrs.frozen
class Seen:
    """What a client sees of a topic: its id and the records of each partition."""

    topic_id: str
    records: tuple[tuple[bytes, ...], ...]


class Client:
    """A client of whichever broker has the directory now."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = {"bootstrap.servers": bootstrap, **QUIET}
        self.admin = AdminClient(self._bootstrap)

    def create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic."""
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        for future in self.admin.create_topics([topic]).values():
            future.result(DEADLINE_S)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        for future in self.admin.delete_topics([name]).values():
            future.result(DEADLINE_S)

    def produce(self, topic: str, partition: int, values: Iterable[bytes]) -> None:
        """Produce with idempotence; every record is acknowledged on return."""
        errors: list[object] = []
        producer = Producer({**self._bootstrap, "enable.idempotence": True})
        for value in values:
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
            )
        left = producer.flush(DEADLINE_S)
        assert (left, set(errors)) == (0, {None})

    def see(self) -> dict[str, Seen]:
        """All topics that are not Kafka's own."""
        there = self.admin.list_topics(timeout=DEADLINE_S).topics
        names = [name for name in there if not name.startswith("__")]
        described = repeat_while_refused(lambda: self._describe(names), KafkaException)
        return {
            name: Seen(topic_id, tuple(self.records(name, index) for index in range(partitions)))
            for name, (topic_id, partitions) in described.items()
        }

    def _describe(self, names: list[str]) -> dict[str, tuple[str, int]]:
        futures = self.admin.describe_topics(TopicCollection(names)) if names else {}
        found = {name: future.result(DEADLINE_S) for name, future in futures.items()}
        return {name: (str(topic.topic_id), len(topic.partitions)) for name, topic in found.items()}

    def records(self, topic: str, partition: int) -> tuple[bytes, ...]:
        """Values of all records of a partition."""
        place = TopicPartition(topic, partition, 0)
        consumer = Consumer({**self._bootstrap, "group.id": "none", "enable.auto.commit": False})
        try:
            _, end = repeat_while_refused(
                lambda: consumer.get_watermark_offsets(place, timeout=5.0), KafkaException
            )
            consumer.assign([place])
            values: list[bytes] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(values) < end and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    values.append(message.value() or b"")
            return tuple(values)
        finally:
            consumer.close()

    def topic_config(self, topic: str) -> dict[str, str]:
        """What the topic itself sets."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self.admin.describe_configs([resource]).values()
        entries = future.result(DEADLINE_S).values()
        return {entry.name: entry.value for entry in entries if entry.source == 1}

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0."""
        consumer = Consumer({**self._bootstrap, "group.id": group, "enable.auto.commit": False})
        place = TopicPartition(topic, 0, offset)
        repeat_while_refused(lambda: consumer.commit(offsets=[place], asynchronous=False), KafkaException)
        consumer.close()

    def committed(self, group: str, topic: str) -> int:
        """The committed offset of partition 0."""
        consumer = Consumer({**self._bootstrap, "group.id": group, "enable.auto.commit": False})
        (found,) = repeat_while_refused(
            lambda: consumer.committed([TopicPartition(topic, 0)], timeout=5.0), KafkaException
        )
        consumer.close()
        return int(found.offset)
