"""Scenarios with confluent-kafka. Argument: bootstrap servers."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer as BareConsumer
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.drivers.python.driving import (
    COUNT,
    HEADERS,
    MEGABYTE,
    PASSED,
    WAIT_S,
    Answer,
    drive,
    key,
    row,
    text,
    timestamp_ms,
    value,
)


class Confluent:
    """Each public method is an action."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, topic: str, _: str) -> Answer:
        new = NewTopic(topic, 3, 1, config={"max.message.bytes": "500000"})
        self._admin.create_topics([new])[topic].result(WAIT_S)
        return {}

    def list_topics(self, topic: str, _: str) -> Answer:
        return {"listed": topic in self._admin.list_topics(timeout=WAIT_S).topics}

    def describe_topic(self, topic: str, _: str) -> Answer:
        described = self._admin.list_topics(topic, timeout=WAIT_S).topics[topic]
        return {"partitions": len(described.partitions)}

    def describe_cluster(self, _topic: str, _: str) -> Answer:
        described = self._admin.describe_cluster().result(WAIT_S)
        return {"brokers": [f"{node.host}:{node.port}" for node in described.nodes]}

    def add_partitions(self, topic: str, _: str) -> Answer:
        self._admin.create_partitions([NewPartitions(topic, 4)])[topic].result(WAIT_S)
        return {}

    def describe_configs(self, topic: str, _: str) -> Answer:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        described = self._admin.describe_configs([resource])[resource].result(WAIT_S)
        return {"retention.ms": described["retention.ms"].value}

    def alter_configs(self, topic: str, _: str) -> Answer:
        entry = ConfigEntry("retention.ms", "654321", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        return {}

    def list_offsets(self, topic: str, _: str) -> Answer:
        partition = TopicPartition(topic, 0)
        ends: dict[str, Any] = {}
        for name in ("earliest", "latest"):
            asked = {partition: getattr(OffsetSpec, name)()}
            found = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
            ends[name] = found[partition].result(WAIT_S).offset
        return ends

    def delete_records(self, topic: str, _: str) -> Answer:
        asked = TopicPartition(topic, 0, 4)
        return {"low": self._admin.delete_records([asked])[asked].result(WAIT_S).low_watermark}

    def delete_topic(self, topic: str, _: str) -> Answer:
        self._admin.delete_topics([topic])[topic].result(WAIT_S)
        return {}

    def describe_acls(self, _topic: str, _: str) -> Answer:
        any_acl = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return {"acls": len(self._admin.describe_acls(any_acl).result(WAIT_S))}

    def list_groups(self, _topic: str, group: str) -> Answer:
        listed = self._admin.list_consumer_groups().result(WAIT_S).valid
        return {"listed": group in [each.group_id for each in listed]}

    def describe_group(self, _topic: str, group: str) -> Answer:
        described = self._admin.describe_consumer_groups([group])[group].result(WAIT_S)
        return {"state": described.state.name.lower(), "members": len(described.members)}

    def list_group_offsets(self, topic: str, group: str) -> Answer:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        found = self._admin.list_consumer_group_offsets([asked])[group].result(WAIT_S)
        return {"offset": found.topic_partitions[0].offset}

    def delete_group(self, _topic: str, group: str) -> Answer:
        self._admin.delete_consumer_groups([group])[group].result(WAIT_S)
        return {}

    def produce(self, topic: str, codec: str) -> Answer:
        return self._send(topic, {"compression.type": codec})

    def acks(self, topic: str, acks: str) -> Answer:
        return self._send(topic, {"acks": acks})

    def idempotent(self, topic: str, _: str) -> Answer:
        return self._send(topic, {"enable.idempotence": True})

    def timestamps(self, topic: str, _: str) -> Answer:
        producer = self._producer()
        for number in range(COUNT):
            producer.produce(topic, value(number), key(number), timestamp=timestamp_ms(number))
        return self._flush(producer)

    def headers(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", b"key", headers=HEADERS)

    def null_key(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", None)

    def null_value(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, None, b"key")

    def megabyte(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"m" * MEGABYTE, b"key", {"message.max.bytes": 2 * MEGABYTE})

    def too_large(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"m" * 5000, b"key")

    def auto_create(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", b"key")

    def read(self, topic: str, _: str) -> Answer:
        records = self._read(topic)
        return {"records": [row(each.offset(), each.key(), each.value()) for each in records]}

    def read_timestamps(self, topic: str, _: str) -> Answer:
        return {"timestamps": [each.timestamp()[1] for each in self._read(topic)]}

    def read_headers(self, topic: str, _: str) -> Answer:
        headers = self._read(topic, 1)[0].headers() or []
        return {"headers": [[name, text(each)] for name, each in headers]}

    def read_nulls(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset(), each.key(), each.value()) for each in self._read(topic, 2)]}

    def read_megabyte(self, topic: str, _: str) -> Answer:
        return {"sizes": [len(each.value()) for each in self._read(topic, 1)]}

    def seek_offset(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(topic, 0, 7)])
            return {"offsets": [each.offset() for each in self._poll(consumer, 3)]}

    def seek_end(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            return {"ends": list(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S))}

    def seek_time(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            asked = TopicPartition(topic, 0, timestamp_ms(4) + 1)
            return {"offset": consumer.offsets_for_times([asked], timeout=WAIT_S)[0].offset}

    def read_committed(self, topic: str, _: str) -> Answer:
        records = self._read(topic, 5, {"isolation.level": "read_committed"})
        return {"keys": [text(each.key()) for each in records]}

    def group_read(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, {"group.id": group}, COUNT)

    def group_resume(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, {"group.id": group}, 4)

    def static_member(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, {"group.id": group, "group.instance.id": "one"}, COUNT)

    def consumer_protocol(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, {"group.id": group, "group.protocol": "consumer"}, COUNT)

    def group_share(self, topic: str, group: str) -> Answer:
        return self._share(topic, {"group.id": group})

    def cooperative(self, topic: str, group: str) -> Answer:
        settings = {"group.id": group, "partition.assignment.strategy": "cooperative-sticky"}
        return self._share(topic, settings)

    def commit(self, topic: str, group: str) -> Answer:
        with closing(self._consumer({"group.id": group})) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
            return {"committed": consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset}

    def txn_commit(self, topic: str, group: str) -> Answer:
        producer = self._transactional(group)
        self._send_all(producer, topic)
        producer.commit_transaction(WAIT_S)
        return {}

    def txn_abort(self, topic: str, group: str) -> Answer:
        producer = self._transactional(group)
        self._send_all(producer, topic)
        producer.flush(WAIT_S)
        producer.abort_transaction(WAIT_S)
        return {}

    def txn_offsets(self, topic: str, group: str) -> Answer:
        producer = self._transactional(group)
        with closing(self._consumer({"group.id": group})) as consumer:
            sent = [TopicPartition(topic, 0, PASSED)]
            producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), WAIT_S)
        self._send_all(producer, topic)
        producer.commit_transaction(WAIT_S)
        return {}

    def txn_fence(self, topic: str, group: str) -> Answer:
        first = self._transactional(group)
        self._transactional(group)
        self._send_all(first, topic)
        first.commit_transaction(WAIT_S)
        return {}

    def _producer(self, settings: dict[str, Any] | None = None) -> Producer:
        return Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 50, **(settings or {})})

    def _transactional(self, name: str) -> Producer:
        producer = self._producer({"transactional.id": name})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        return producer

    def _send(self, topic: str, settings: dict[str, Any]) -> Answer:
        producer = self._producer(settings)
        self._send_all(producer, topic)
        return self._flush(producer)

    def _send_all(self, producer: Producer, topic: str) -> None:
        for number in range(COUNT):
            producer.produce(topic, value(number), key(number))

    def _flush(self, producer: Producer) -> Answer:
        left = producer.flush(WAIT_S)
        return {"left": left} if left else {}

    def _send_one(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        settings: dict[str, Any] | None = None,
        **more: Any,
    ) -> Answer:
        errors: list[Any] = []
        producer = self._producer(settings)
        producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error), **more)
        producer.flush(WAIT_S)
        if not errors or errors[0] is not None:
            raise RuntimeError(str(errors))
        return {}

    def _consumer(self, settings: dict[str, Any] | None = None) -> BareConsumer:
        return BareConsumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **(settings or {}),
            }
        )

    def _poll(self, consumer: BareConsumer, count: int) -> list[Any]:
        records: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(records) < count and time.monotonic() < deadline:
            record = consumer.poll(0.2)
            if record is not None and not record.error():
                records.append(record)
        return records

    def _read(self, topic: str, count: int = COUNT, settings: dict[str, Any] | None = None) -> list[Any]:
        with closing(self._consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            return self._poll(consumer, count)

    def _group_read(self, topic: str, settings: dict[str, Any], count: int) -> Answer:
        with closing(self._consumer(settings)) as consumer:
            consumer.subscribe([topic])
            records = self._poll(consumer, count)
            consumer.commit(asynchronous=False)
            return {"count": len(records)}

    def _share(self, topic: str, settings: dict[str, Any]) -> Answer:
        with closing(self._consumer(settings)) as one, closing(self._consumer(settings)) as two:
            deadline = time.monotonic() + WAIT_S
            one.subscribe([topic])
            two.subscribe([topic])
            counts: list[int] = []
            while counts != [1, 1] and time.monotonic() < deadline:
                one.poll(0.1)
                two.poll(0.1)
                counts = [len(one.assignment()), len(two.assignment())]
            return {"assigned": counts}


if __name__ == "__main__":
    drive(Confluent(sys.argv[1]))
