"""aiokafka, the client of asyncio programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, NoError, TopicAlreadyExistsError

from tests.deadlines import DEADLINE_S

from .payloads import ONE_DAY_IN_2013_MS, PLAIN_PAYLOADS, Payload

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from .brokers import Broker

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, within the time that a test has."""
    return asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def produce(bootstrap: str, topic: str, payloads: Iterable[Payload], **settings: Any) -> list[int]:
    """Produce to partition 0; the offsets that were reported."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        reports = [
            await producer.send(
                topic,
                payload.value,
                payload.key,
                partition=0,
                timestamp_ms=payload.timestamp_ms,
                headers=list(payload.headers),
            )
            for payload in payloads
        ]
        return [report.offset for report in await asyncio.gather(*reports)]


async def consume(bootstrap: str, topic: str, count: int) -> list[Payload]:
    """The first records of a topic that the consumer subscribes to, without a group."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        fetched = [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()
    return [Payload(each.key, each.value, tuple(each.headers), each.timestamp) for each in fetched]


async def _round_trip(bootstrap: str, topic: str, **settings: Any) -> tuple[list[int], list[Payload]]:
    offsets = await produce(bootstrap, topic, PLAIN_PAYLOADS, **settings)
    return offsets, await consume(bootstrap, topic, len(PLAIN_PAYLOADS))


@pytest.mark.parametrize("idempotence", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str | None, idempotence: bool, broker: Broker, topic: str) -> None:
    offsets, payloads = run(
        _round_trip(broker.bootstrap, topic, compression_type=codec, enable_idempotence=idempotence)
    )
    assert offsets == [*range(len(PLAIN_PAYLOADS))]
    assert payloads == [*PLAIN_PAYLOADS]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acks(acks: int | str, broker: Broker, topic: str) -> None:
    async def work() -> list[Payload]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks) as producer:
            for payload in PLAIN_PAYLOADS:
                await producer.send(
                    topic, payload.value, payload.key, partition=0, timestamp_ms=payload.timestamp_ms
                )
            await producer.flush()
        return await consume(broker.bootstrap, topic, len(PLAIN_PAYLOADS))

    assert [payload[:2] for payload in run(work())] == [payload[:2] for payload in PLAIN_PAYLOADS]


def test_what_is_too_large_is_refused(broker: Broker, topic: str) -> None:
    payloads = [Payload(None, bytes(1_100_000), (), ONE_DAY_IN_2013_MS)]
    with pytest.raises(MessageSizeTooLargeError):
        run(produce(broker.bootstrap, topic, payloads, max_request_size=5_000_000))


def test_offsets_by_time(broker: Broker, topic: str) -> None:
    async def work() -> tuple[int, int, int, Any]:
        await produce(broker.bootstrap, topic, PLAIN_PAYLOADS)
        partition = TopicPartition(topic, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        try:
            begin, end = (
                await consumer.beginning_offsets([partition]),
                await consumer.end_offsets([partition]),
            )
            first = await consumer.offsets_for_times({partition: ONE_DAY_IN_2013_MS})
            none = await consumer.offsets_for_times({partition: ONE_DAY_IN_2013_MS + 2 * 86_400_000})
            return begin[partition], end[partition], first[partition].offset, none[partition]
        finally:
            await consumer.stop()

    assert run(work()) == (0, len(PLAIN_PAYLOADS), 0, None)


def test_topics_are_created_listed_and_deleted(broker: Broker, topic: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            answers: list[Any] = [await admin.create_topics([NewTopic(topic, 3, 1)]) for _ in range(2)]
            codes = [answer.topic_errors[0][1] for answer in answers]
            assert codes == [NoError.errno, TopicAlreadyExistsError.errno]
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(work())
