"""What is done to a directory in one turn: topics, records, plain groups. All of it is answered on return."""

from __future__ import annotations

import random
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.deadlines import DEADLINE_S, repeat_while_refused, wait_until

from .names import NAMES

MOST_TOPICS = 5
QUIET = {"log_level": 0}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Work:
    """Changes at random through one admin client; `topics` are those that this has made, by name."""

    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        self.topics: dict[str, int] = {}
        self._bootstrap = bootstrap
        self._chance = chance
        self._made = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def create(self, name: str, partitions: int, **config: str) -> None:
        """Create a topic; keys have underscores for dots."""
        values = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=values)
        repeat_while_refused(
            lambda: [each.result(DEADLINE_S) for each in self._admin.create_topics([topic]).values()],
            KafkaException,
        )

    def turn(self, number: int) -> None:
        """One of everything."""
        chance = self._chance
        self._made += 1
        name, partitions = f"topic-{self._made}", chance.randint(1, 3)
        self.create(name, partitions, segment_bytes=str(chance.choice((1 << 20, 1 << 21))))
        self.topics[name] = partitions
        for topic, count in self.topics.items():
            for index in range(count):
                self._produce(topic, index, chance.randint(0, 40), number)
        chosen = chance.choice(sorted(self.topics))
        self._alter(chosen, "retention.ms", str(chance.randint(10**9, 10**10)))
        self._alter(chance.choice(sorted(self.topics)), "segment.bytes", None)
        grown = chance.choice(sorted(self.topics))
        self.topics[grown] += 1
        self._grow(grown, self.topics[grown])
        self._produce(grown, self.topics[grown] - 1, 5, number)
        self._delete_records(chance.choice(sorted(self.topics)))
        self._commit(name, number)
        if len(self.topics) > MOST_TOPICS:
            self._delete(chance.choice(sorted(self.topics)))

    def _produce(self, topic: str, partition: int, count: int, turn: int) -> None:
        errors: list[object] = []
        codec = self._chance.choice(CODECS)
        producer = Producer({"bootstrap.servers": self._bootstrap, "compression.type": codec, **QUIET})
        for number in range(count):
            producer.produce(
                topic,
                b"%d of turn %d " % (number, turn) + b"." * self._chance.randint(0, 200),
                key=b"%d" % (number % 3),
                partition=partition,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(DEADLINE_S) == 0
        assert set(errors) <= {None}, errors

    def _alter(self, topic: str, key: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(DEADLINE_S)

    def _grow(self, topic: str, partitions: int) -> None:
        for future in self._admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(DEADLINE_S)
        # Apache Kafka answers before its metadata has them.
        wait_until(
            lambda: len(self._admin.list_topics(topic, DEADLINE_S).topics[topic].partitions) == partitions,
            f"{partitions} partitions of {topic}",
        )

    def _delete_records(self, topic: str) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "nobody", **QUIET})
        place = TopicPartition(topic, 0)
        low, high = repeat_while_refused(
            lambda: consumer.get_watermark_offsets(place, timeout=DEADLINE_S), KafkaException
        )
        consumer.close()
        until = TopicPartition(topic, 0, self._chance.randint(low, high))
        for future in self._admin.delete_records([until]).values():
            future.result(DEADLINE_S)

    def _delete(self, topic: str) -> None:
        for future in self._admin.delete_topics([topic]).values():
            future.result(DEADLINE_S)
        del self.topics[topic]

    def _commit(self, topic: str, turn: int) -> None:
        for name in NAMES.values():
            for group in (name, f"{name}-plain-{self._chance.randint(0, 2)}"):
                consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, **QUIET})
                places = [TopicPartition(topic, 0, turn)]
                repeat_while_refused(
                    partial(consumer.commit, offsets=places, asynchronous=False), KafkaException
                )
                consumer.close()
