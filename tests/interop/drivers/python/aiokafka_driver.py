"""Scenarios with aiokafka. Argument: bootstrap servers."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine


class Aiokafka:
    """Each public method is an action; all of them are coroutines."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def create_topic(self, topic: str, _: str) -> Answer:
        new = NewTopic(topic, 3, 1, topic_configs={"max.message.bytes": "500000"})
        async with self._admin() as admin:
            answered = await admin.create_topics([new])
        for name, code, *_more in answered.topic_errors:
            if code:
                raise RuntimeError(f"{name}: error {code}")
        return {}

    async def list_topics(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            return {"listed": topic in await admin.list_topics()}

    async def describe_topic(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            described = await admin.describe_topics([topic])
            return {"partitions": len(described[0]["partitions"])}

    async def describe_cluster(self, _topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            brokers = (await admin.describe_cluster())["brokers"]
            return {"brokers": [f"{each['host']}:{each['port']}" for each in brokers]}

    async def add_partitions(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            await admin.create_partitions({topic: NewPartitions(4)})
        return {}

    async def describe_configs(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        entries = {each[0]: each[1] for each in described[0].resources[0][4]}
        return {"retention.ms": entries["retention.ms"]}

    async def alter_configs(self, topic: str, _: str) -> Answer:
        changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "654321"})
        async with self._admin() as admin:
            await admin.alter_configs([changed])
        return {}

    async def list_offsets(self, topic: str, _: str) -> Answer:
        partition = TopicPartition(topic, 0)
        async with self._consumer() as consumer:
            first = await consumer.beginning_offsets([partition])
            last = await consumer.end_offsets([partition])
            return {"earliest": first[partition], "latest": last[partition]}

    async def delete_records(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            deleted = await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=4)})
            return {"low": deleted[TopicPartition(topic, 0)]}

    async def delete_topic(self, topic: str, _: str) -> Answer:
        async with self._admin() as admin:
            await admin.delete_topics([topic])
        return {}

    async def list_groups(self, _topic: str, group: str) -> Answer:
        async with self._admin() as admin:
            return {"listed": group in [each[0] for each in await admin.list_consumer_groups()]}

    async def describe_group(self, _topic: str, group: str) -> Answer:
        async with self._admin() as admin:
            described = (await admin.describe_consumer_groups([group]))[0].groups[0]
            return {"state": described[2].lower(), "members": len(described[5])}

    async def list_group_offsets(self, topic: str, group: str) -> Answer:
        async with self._admin() as admin:
            found = await admin.list_consumer_group_offsets(group)
            return {"offset": found[TopicPartition(topic, 0)].offset}

    async def produce(self, topic: str, codec: str) -> Answer:
        return await self._send(topic, compression_type=None if codec == "none" else codec)

    async def acks(self, topic: str, acks: str) -> Answer:
        return await self._send(topic, acks=int(acks))

    async def idempotent(self, topic: str, _: str) -> Answer:
        return await self._send(topic, enable_idempotence=True)

    async def timestamps(self, topic: str, _: str) -> Answer:
        async with self._producer() as producer:
            for n in range(COUNT):
                await producer.send_and_wait(
                    topic, value(n), key(n), partition=0, timestamp_ms=timestamp_ms(n)
                )
        return {}

    async def headers(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, b"value", b"key", headers=HEADERS)

    async def null_key(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, b"value", None)

    async def null_value(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, None, b"key")

    async def megabyte(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, b"m" * MEGABYTE, b"key")

    async def too_large(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, b"m" * 5000, b"key")

    async def auto_create(self, topic: str, _: str) -> Answer:
        return await self._send_one(topic, b"value", b"key")

    async def read(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset, each.key, each.value) for each in await self._read(topic)]}

    async def read_timestamps(self, topic: str, _: str) -> Answer:
        return {"timestamps": [each.timestamp for each in await self._read(topic)]}

    async def read_headers(self, topic: str, _: str) -> Answer:
        read = await self._read(topic, 1)
        return {"headers": [[name, text(each)] for name, each in read[0].headers]}

    async def read_nulls(self, topic: str, _: str) -> Answer:
        return {"records": [row(each.offset, each.key, each.value) for each in await self._read(topic, 2)]}

    async def read_megabyte(self, topic: str, _: str) -> Answer:
        return {"sizes": [len(each.value) for each in await self._read(topic, 1)]}

    async def seek_offset(self, topic: str, _: str) -> Answer:
        async with self._assigned(topic) as consumer:
            consumer.seek(TopicPartition(topic, 0), 7)
            return {"offsets": [each.offset for each in await self._poll(consumer, 3)]}

    async def seek_end(self, topic: str, _: str) -> Answer:
        partition = TopicPartition(topic, 0)
        async with self._assigned(topic) as consumer:
            await consumer.seek_to_beginning(partition)
            first = await consumer.position(partition)
            await consumer.seek_to_end(partition)
            return {"ends": [first, await consumer.position(partition)]}

    async def seek_time(self, topic: str, _: str) -> Answer:
        partition = TopicPartition(topic, 0)
        async with self._consumer() as consumer:
            found = await consumer.offsets_for_times({partition: timestamp_ms(4) + 1})
            return {"offset": found[partition].offset}

    async def read_committed(self, topic: str, _: str) -> Answer:
        records = await self._read(topic, 5, isolation_level="read_committed")
        return {"keys": [text(each.key) for each in records]}

    async def group_read(self, topic: str, group: str) -> Answer:
        return await self._group_read(topic, COUNT, group_id=group)

    async def group_resume(self, topic: str, group: str) -> Answer:
        return await self._group_read(topic, 4, group_id=group)

    async def static_member(self, topic: str, group: str) -> Answer:
        return await self._group_read(topic, COUNT, group_id=group, group_instance_id="one")

    async def group_share(self, topic: str, group: str) -> Answer:
        counts: list[int] = []
        deadline = time.monotonic() + WAIT_S
        async with self._consumer(group_id=group) as one, self._consumer(group_id=group) as two:
            one.subscribe([topic])
            two.subscribe([topic])
            while counts != [1, 1] and time.monotonic() < deadline:
                await one.getmany(timeout_ms=50)
                await two.getmany(timeout_ms=50)
                counts = [len(one.assignment()), len(two.assignment())]
        return {"assigned": counts}

    async def commit(self, topic: str, group: str) -> Answer:
        partition = TopicPartition(topic, 0)
        async with self._assigned(topic, group_id=group) as consumer:
            await consumer.commit({partition: 4})
            return {"committed": await consumer.committed(partition)}

    async def txn_commit(self, topic: str, group: str) -> Answer:
        async with self._producer(transactional_id=group) as producer, producer.transaction():
            await self._send_all(producer, topic)
        return {}

    async def txn_abort(self, topic: str, group: str) -> Answer:
        async with self._producer(transactional_id=group) as producer:
            await producer.begin_transaction()
            await self._send_all(producer, topic)
            await producer.abort_transaction()
        return {}

    async def txn_offsets(self, topic: str, group: str) -> Answer:
        async with self._producer(transactional_id=group) as producer, producer.transaction():
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): PASSED}, group)
            await self._send_all(producer, topic)
        return {}

    async def txn_fence(self, topic: str, group: str) -> Answer:
        async with self._producer(transactional_id=group) as first:
            await first.begin_transaction()
            async with self._producer(transactional_id=group):
                await first.send_and_wait(topic, value(0), key(0))
        return {}

    @asynccontextmanager
    async def _admin(self) -> AsyncGenerator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    @asynccontextmanager
    async def _producer(self, **more: Any) -> AsyncGenerator[Any]:
        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=50, **more)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    @asynccontextmanager
    async def _consumer(self, **more: Any) -> AsyncGenerator[Any]:
        settings: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **more}
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, **settings)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def _assigned(self, topic: str, **more: Any) -> AsyncGenerator[Any]:
        async with self._consumer(**more) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            yield consumer

    async def _send(self, topic: str, **more: Any) -> Answer:
        async with self._producer(**more) as producer:
            await self._send_all(producer, topic)
        return {}

    async def _send_all(self, producer: Any, topic: str) -> None:
        sent = [await producer.send(topic, value(n), key(n), partition=0) for n in range(COUNT)]
        await asyncio.wait_for(asyncio.gather(*sent), WAIT_S)

    async def _send_one(self, topic: str, value: bytes | None, key: bytes | None, **more: Any) -> Answer:
        async with self._producer() as producer:
            await producer.send_and_wait(topic, value, key, **more)
        return {}

    async def _poll(self, consumer: Any, count: int) -> list[Any]:
        records: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(records) < count and time.monotonic() < deadline:
            for some in (await consumer.getmany(timeout_ms=200)).values():
                records.extend(some)
        return records

    async def _read(self, topic: str, count: int = COUNT, **more: Any) -> list[Any]:
        async with self._assigned(topic, **more) as consumer:
            return await self._poll(consumer, count)

    async def _group_read(self, topic: str, count: int, **more: Any) -> Answer:
        async with self._consumer(**more) as consumer:
            consumer.subscribe([topic])
            records = await self._poll(consumer, count)
            await consumer.commit()
            return {"count": len(records)}


class Blocking:
    """The same actions as functions, each in an event loop of its own."""

    def __init__(self, driver: Aiokafka) -> None:
        self._driver = driver

    def __getattr__(self, action: str) -> Callable[[str, str], Answer]:
        try:
            method: Callable[[str, str], Coroutine[Any, Any, Answer]] = getattr(self._driver, action)
        except AttributeError:
            raise AttributeError(action) from None
        return lambda topic, argument: asyncio.run(method(topic, argument))


if __name__ == "__main__":
    drive(Blocking(Aiokafka(sys.argv[1])))
