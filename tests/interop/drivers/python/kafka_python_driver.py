"""Scenarios with kafka-python, releases from 1.4.7 on. Arguments: bootstrap servers, [version to speak]."""

import sys
import threading
import time
from contextlib import closing, suppress
from importlib import import_module
from typing import Any, List, Optional  # noqa: UP035 (old releases may need an old Python)

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

with suppress(ImportError):
    # The copy inside of old releases cannot be imported from Python 3.12 on.
    six: Any = import_module("six")
    sys.modules["kafka.vendor.six"] = six
    sys.modules["kafka.vendor.six.moves"] = six.moves

# Without types, which differ between releases.
kafka: Any = import_module("kafka")
kafka_admin: Any = import_module("kafka.admin")
TopicPartition = kafka.TopicPartition
ConfigResource, ConfigResourceType = kafka_admin.ConfigResource, kafka_admin.ConfigResourceType
OffsetAndMetadata = import_module("kafka.structs").OffsetAndMetadata


def _at(offset: int) -> Any:
    """Return a position; releases differ in what else they keep of one."""
    more = {"offset": offset, "metadata": ""}
    return OffsetAndMetadata(*(more.get(field, -1) for field in OffsetAndMetadata._fields))


class KafkaPython:
    """Each public method is an action."""

    def __init__(self, bootstrap: str, speaks: str) -> None:
        self._common: Any = {"bootstrap_servers": bootstrap}
        if speaks:
            self._common["api_version"] = tuple(int(part) for part in speaks.split("."))

    def create_topic(self, topic: str, _: str) -> Answer:
        new = kafka_admin.NewTopic(topic, 3, 1, topic_configs={"max.message.bytes": "500000"})
        with closing(self._admin()) as admin:
            admin.create_topics([new])
        return {}

    def list_topics(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            return {"listed": topic in consumer.topics()}

    def describe_topic(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            return {"partitions": len(consumer.partitions_for_topic(topic) or ())}

    def describe_cluster(self, _topic: str, _: str) -> Answer:
        with closing(self._admin()) as admin:
            brokers = admin.describe_cluster()["brokers"]
            return {"brokers": ["%s:%d" % (each["host"], each["port"]) for each in brokers]}  # noqa: UP031

    def add_partitions(self, topic: str, _: str) -> Answer:
        with closing(self._admin()) as admin:
            admin.create_partitions({topic: kafka_admin.NewPartitions(4)})
        return {}

    def describe_configs(self, topic: str, _: str) -> Answer:
        with closing(self._admin()) as admin:
            described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {"retention.ms": _find_config(described, "retention.ms")}

    def alter_configs(self, topic: str, _: str) -> Answer:
        changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "654321"})
        with closing(self._admin()) as admin:
            admin.alter_configs([changed])
        return {}

    def list_offsets(self, topic: str, _: str) -> Answer:
        with closing(self._consumer()) as consumer:
            partition = TopicPartition(topic, 0)
            first, last = consumer.beginning_offsets([partition]), consumer.end_offsets([partition])
            return {"earliest": first[partition], "latest": last[partition]}

    def delete_records(self, topic: str, _: str) -> Answer:
        with closing(self._admin()) as admin:
            deleted = admin.delete_records({TopicPartition(topic, 0): 4})
            return {"low": deleted[TopicPartition(topic, 0)]["low_watermark"]}

    def delete_topic(self, topic: str, _: str) -> Answer:
        with closing(self._admin()) as admin:
            admin.delete_topics([topic])
        return {}

    def describe_acls(self, _topic: str, _: str) -> Answer:
        resources = kafka_admin
        if not hasattr(resources, "ACLResourcePatternType"):
            resources = import_module("kafka.admin.acl_resource")
        pattern = kafka_admin.ResourcePatternFilter(
            resources.ResourceType.ANY, None, resources.ACLResourcePatternType.ANY
        )
        every = kafka_admin.ACLOperation.ANY, kafka_admin.ACLPermissionType.ANY
        asked = kafka_admin.ACLFilter(None, None, *every, pattern)
        with closing(self._admin()) as admin:
            acls, error = admin.describe_acls(asked)
        if getattr(error, "errno", 0):
            raise error()
        return {"acls": len(acls)}

    def list_groups(self, _topic: str, group: str) -> Answer:
        with closing(self._admin()) as admin:
            list_groups = getattr(admin, "list_consumer_groups", None) or admin.list_groups
            return {"listed": group in [_field(each, 0, "group_id") for each in list_groups()]}

    def describe_group(self, _topic: str, group: str) -> Answer:
        with closing(self._admin()) as admin:
            describe = getattr(admin, "describe_consumer_groups", None) or admin.describe_groups
            described = describe([group])
        found = described[group] if isinstance(described, dict) else described[0]
        state = str(_field(found, 2, "state", "group_state")).lower()
        return {"state": state, "members": len(_field(found, 5, "members"))}

    def list_group_offsets(self, topic: str, group: str) -> Answer:
        with closing(self._admin()) as admin:
            find = getattr(admin, "list_consumer_group_offsets", None) or admin.list_group_offsets
            found = find(group)
            found = found.get(group, found)
            return {"offset": found[TopicPartition(topic, 0)].offset}

    def delete_group(self, _topic: str, group: str) -> Answer:
        with closing(self._admin()) as admin:
            delete = getattr(admin, "delete_consumer_groups", None) or admin.delete_groups
            delete([group])
        return {}

    def produce(self, topic: str, codec: str) -> Answer:
        return self._send(topic, compression_type=None if codec == "none" else codec)

    def acks(self, topic: str, acks: str) -> Answer:
        return self._send(topic, acks=int(acks))

    def idempotent(self, topic: str, _: str) -> Answer:
        return self._send(topic, enable_idempotence=True)

    def timestamps(self, topic: str, _: str) -> Answer:
        with closing(self._producer()) as producer:
            for n in range(COUNT):
                producer.send(topic, value(n), key(n), partition=0, timestamp_ms=timestamp_ms(n))
            producer.flush(WAIT_S)
        return {}

    def headers(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", b"key", headers=HEADERS)

    def null_key(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", None)

    def null_value(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, None, b"key")

    def megabyte(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"m" * MEGABYTE, b"key")

    def too_large(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"m" * 5000, b"key")

    def auto_create(self, topic: str, _: str) -> Answer:
        return self._send_one(topic, b"value", b"key")

    def read(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset, each.key, each.value) for each in self._read(topic)]}

    def read_timestamps(self, topic: str, _: str) -> Answer:
        return {"timestamps": [each.timestamp for each in self._read(topic)]}

    def read_headers(self, topic: str, _: str) -> Answer:
        return {"headers": [[name, text(each)] for name, each in self._read(topic, 1)[0].headers]}

    def read_nulls(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset, each.key, each.value) for each in self._read(topic, 2)]}

    def read_megabyte(self, topic: str, _: str) -> Answer:
        return {"sizes": [len(each.value) for each in self._read(topic, 1)]}

    def seek_offset(self, topic: str, _: str) -> Answer:
        with closing(self._assigned(topic)) as consumer:
            consumer.seek(TopicPartition(topic, 0), 7)
            return {"offsets": [each.offset for each in self._poll([consumer], 3)]}

    def seek_end(self, topic: str, _: str) -> Answer:
        with closing(self._assigned(topic)) as consumer:
            partition = TopicPartition(topic, 0)
            first = consumer.position(partition)
            consumer.seek_to_end(partition)
            return {"ends": [first, consumer.position(partition)]}

    def seek_time(self, topic: str, _: str) -> Answer:
        partition = TopicPartition(topic, 0)
        with closing(self._assigned(topic)) as consumer:
            return {"offset": consumer.offsets_for_times({partition: timestamp_ms(4) + 1})[partition].offset}

    def read_committed(self, topic: str, _: str) -> Answer:
        records = self._read(topic, 5, isolation_level="read_committed")
        return {"keys": [text(each.key) for each in records]}

    def group_read(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, COUNT, group_id=group)

    def group_resume(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, 4, group_id=group)

    def static_member(self, topic: str, group: str) -> Answer:
        return self._group_read(topic, COUNT, group_id=group, group_instance_id="one")

    def group_share(self, topic: str, group: str) -> Answer:
        return self._share(topic, group_id=group)

    def cooperative(self, topic: str, group: str) -> Answer:
        assignors: Any = import_module("kafka.coordinator.assignors.cooperative_sticky")
        strategy = [assignors.CooperativeStickyAssignor]
        return self._share(topic, group_id=group, partition_assignment_strategy=strategy)

    def commit(self, topic: str, group: str) -> Answer:
        partition = TopicPartition(topic, 0)
        with closing(self._assigned(topic, group_id=group)) as consumer:
            consumer.commit({partition: _at(4)})
            return {"committed": consumer.committed(partition)}

    def txn_commit(self, topic: str, group: str) -> Answer:
        with closing(self._transactional(group)) as producer:
            self._send_all(producer, topic)
            producer.commit_transaction()
        return {}

    def txn_abort(self, topic: str, group: str) -> Answer:
        with closing(self._transactional(group)) as producer:
            self._send_all(producer, topic)
            producer.flush(WAIT_S)
            producer.abort_transaction()
        return {}

    def txn_offsets(self, topic: str, group: str) -> Answer:
        with closing(self._transactional(group)) as producer:
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): _at(PASSED)}, group)
            self._send_all(producer, topic)
            producer.commit_transaction()
        return {}

    def txn_fence(self, topic: str, group: str) -> Answer:
        first = self._transactional(group)
        second = self._transactional(group)
        try:
            first.send(topic, value(0), key(0)).get(WAIT_S)
            first.commit_transaction()
        finally:
            first.close(0)
            second.close(0)
        return {}

    def _admin(self) -> Any:
        return kafka.KafkaAdminClient(**self._common)

    def _producer(self, **more: Any) -> Any:
        settings = {"linger_ms": 50, "max_block_ms": WAIT_S * 1000, **more}
        return kafka.KafkaProducer(**self._common, **settings)

    def _transactional(self, name: str) -> Any:
        producer = self._producer(transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    def _send(self, topic: str, **more: Any) -> Answer:
        with closing(self._producer(**more)) as producer:
            for future in self._send_all(producer, topic):
                future.get(WAIT_S)
        return {}

    def _send_all(self, producer: Any, topic: str) -> "List[Any]":  # noqa: UP006
        return [producer.send(topic, value(n), key(n), partition=0) for n in range(COUNT)]

    def _send_one(
        self,
        topic: str,
        value: Optional[bytes],  # noqa: UP045
        key: Optional[bytes],  # noqa: UP045
        **more: Any,
    ) -> Answer:
        with closing(self._producer()) as producer:
            producer.send(topic, value, key, **more).get(WAIT_S)
        return {}

    def _consumer(self, **more: Any) -> Any:
        settings: Any = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            **more,
        }
        return kafka.KafkaConsumer(**self._common, **settings)

    def _assigned(self, topic: str, **more: Any) -> Any:
        consumer = self._consumer(**more)
        consumer.assign([TopicPartition(topic, 0)])
        return consumer

    def _poll(self, consumers: Any, count: int) -> "List[Any]":  # noqa: UP006
        records: List[Any] = []  # noqa: UP006
        deadline = time.monotonic() + WAIT_S
        while len(records) < count and time.monotonic() < deadline:
            for consumer in consumers:
                for some in consumer.poll(200).values():
                    records.extend(some)
        return records

    def _read(self, topic: str, count: int = COUNT, **more: Any) -> "List[Any]":  # noqa: UP006
        with closing(self._assigned(topic, **more)) as consumer:
            return self._poll([consumer], count)

    def _group_read(self, topic: str, count: int, **more: Any) -> Answer:
        with closing(self._consumer(**more)) as consumer:
            consumer.subscribe([topic])
            records = self._poll([consumer], count)
            consumer.commit()
            return {"count": len(records)}

    def _share(self, topic: str, **more: Any) -> Answer:
        """Run each member in a thread: in old releases a poll blocks until the rebalance has ended."""
        counts = [0, 0]
        shared = threading.Event()
        deadline = time.monotonic() + WAIT_S

        def live(member: int) -> None:
            with closing(self._consumer(**more)) as consumer:
                consumer.subscribe([topic])
                while not shared.is_set() and time.monotonic() < deadline:
                    consumer.poll(100)
                    counts[member] = len(consumer.assignment())
                    # Once they share, one of them leaves and the other gets both.
                    if counts == [1, 1]:
                        shared.set()

        members = [threading.Thread(target=live, args=(member,), daemon=True) for member in range(2)]
        for each in members:
            each.start()
        for each in members:
            each.join(WAIT_S)
        return {"assigned": [1, 1] if shared.is_set() else counts}


def _find_config(described: Any, name: str) -> Any:
    """Return a value of a description of configuration, whose shape differs between releases."""
    if isinstance(described, dict):
        if name in described:
            found = described[name]
            return found["value"] if isinstance(found, dict) else found
        described = list(described.values())
    elif hasattr(described, "resources"):
        described = [described.resources]
    if isinstance(described, (list, tuple)):
        if len(described) > 1 and described[0] == name:
            return described[1]
        found = (_find_config(each, name) for each in described)
        return next((each for each in found if each is not None), None)
    return None


def _field(row: Any, place: int, *names: str) -> Any:
    for name in names:
        if isinstance(row, dict) and name in row:
            return row[name]
        if hasattr(row, name):
            return getattr(row, name)
    return row[place]


if __name__ == "__main__":
    drive(KafkaPython(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
