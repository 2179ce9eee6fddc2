"""The client that prepares topics and groups, and checks what the others did: confluent-kafka."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.interop.drivers.python.driving import COUNT, key, timestamp_ms, value

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_S = 60.0
_POLL_S = 0.1


@attrs.frozen
class Place:
    """Names that no other run of a scenario has."""

    topic: str
    group: str


@attrs.frozen
class Reference:
    """Access to the broker that the clients are tried against."""

    bootstrap: str
    _admin: AdminClient = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_admin", AdminClient({"bootstrap.servers": self.bootstrap}))

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until its partitions have leaders."""
        new = NewTopic(name, partitions, 1, config=dict(config or {}))
        self._admin.create_topics([new])[name].result(WAIT_S)
        self.wait_partitions(name, partitions)

    def wait_partitions(self, topic: str, wanted: int) -> int:
        """Wait for a number of partitions with a leader, and return it; or what it is after `WAIT_S`.

        Apache Kafka answers what changes topics before its metadata shows it.
        """
        deadline = time.monotonic() + WAIT_S
        while (found := self.partitions(topic)) != wanted and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that have a leader, 0 without the topic."""
        described = self._admin.list_topics(timeout=WAIT_S).topics.get(topic)
        return sum(each.leader >= 0 for each in described.partitions.values()) if described else 0

    def config(self, topic: str, name: str) -> str | None:
        """Return the value of a topic's key."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found: str | None = self._admin.describe_configs([resource])[resource].result(WAIT_S)[name].value
        return found

    def produce(
        self, topic: str, settings: Mapping[str, Any] | None = None, partition: int = 0, count: int = COUNT
    ) -> None:
        """Produce the common records, one batch if there is no reason for more."""
        producer = self._producer(settings)
        for number in range(count):
            producer.produce(topic, value(number), key(number), partition, timestamp=timestamp_ms(number))
        assert producer.flush(WAIT_S) == 0

    def produce_one(self, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> None:
        """Produce one record."""
        producer = self._producer({"message.max.bytes": 5_000_000})
        producer.produce(topic, value, key, partition=0, **more)
        assert producer.flush(WAIT_S) == 0

    def produce_transactions(self, topic: str, name: str) -> None:
        """Produce five records that are aborted, then five that are committed."""
        producer = self._producer({"transactional.id": f"{name}-reference"})
        producer.init_transactions(WAIT_S)
        for first in (0, 5):
            producer.begin_transaction()
            for number in range(first, first + 5):
                producer.produce(topic, value(number), key(number), 0)
            producer.flush(WAIT_S)
            (producer.commit_transaction if first else producer.abort_transaction)(WAIT_S)

    def commit(self, group: str, topic: str, offset: int, partitions: int = 1) -> None:
        """Commit an offset in each partition."""
        with closing(self._consumer({"group.id": group})) as consumer:
            offsets = [TopicPartition(topic, number, offset) for number in range(partitions)]
            consumer.commit(offsets=offsets, asynchronous=False)

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int]:
        """Return the group's offset in each partition."""
        with closing(self._consumer({"group.id": group})) as consumer:
            asked = [TopicPartition(topic, number) for number in range(partitions)]
            return [each.offset for each in consumer.committed(asked, timeout=WAIT_S)]

    def ends(self, topic: str, settings: Mapping[str, Any] | None = None) -> tuple[int, int]:
        """Return the log start offset and the log end offset of partition 0."""
        with closing(self._consumer(settings)) as consumer:
            first, last = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
            return first, last

    def has_group(self, group: str) -> bool:
        """Return whether the group is listed."""
        # Annotated wrongly there.
        listed: list[Any] = self._admin.list_groups(timeout=WAIT_S)
        return group in [each.id for each in listed]

    def records(self, topic: str, count: int, settings: Mapping[str, Any] | None = None) -> list[Any]:
        """Return all records of a topic: `count` ones, or others if there are any."""
        found: list[Any] = []
        with closing(self._consumer({"enable.partition.eof": True, **(settings or {})})) as consumer:
            partitions = range(max(1, self.partitions(topic)))
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            deadline, ended = time.monotonic() + WAIT_S, set[int]()
            while (len(found) < count or len(ended) < len(partitions)) and time.monotonic() < deadline:
                record = consumer.poll(_POLL_S)
                if record is None:
                    continue
                if record.error():
                    ended.add(int(record.partition() or 0))
                    # A client without acknowledgements may still be on its way.
                    if len(ended) == len(partitions) and len(found) >= count:
                        break
                else:
                    found.append(record)
        return found

    def _producer(self, settings: Mapping[str, Any] | None) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, **(settings or {})})

    def _consumer(self, settings: Mapping[str, Any] | None) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reference",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # Its partitions end soon: nothing to wait for.
                "fetch.wait.max.ms": 20,
                **(settings or {}),
            }
        )
