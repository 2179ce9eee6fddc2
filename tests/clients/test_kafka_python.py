"""kafka-python, in pure Python, with the settings that it comes with: idempotence on, acks all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka.structs import TopicPartition

from tests.deadlines import DEADLINE_S

from .payloads import ONE_DAY_IN_2013_MS, PLAIN_PAYLOADS, Payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .brokers import Broker

# For snappy it wants the package python-snappy.
CODECS = [None, "gzip", "lz4", "zstd"]


def produce(broker: Broker, topic: str, payloads: Iterable[Payload], **settings: Any) -> list[int]:
    """Produce to partition 0; the offsets that were reported, -1 with acks 0."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)
    try:
        reports = [
            producer.send(
                topic,
                payload.value,
                payload.key,
                partition=0,
                timestamp_ms=payload.timestamp_ms,
                headers=cast("list[tuple[str, bytes]]", list(payload.headers)),
            )
            for payload in payloads
        ]
        producer.flush(DEADLINE_S)
        return [report.get(DEADLINE_S).offset for report in reports]
    finally:
        producer.close()


def consume(broker: Broker, topic: str, count: int) -> list[Payload]:
    """The first records of a topic that the consumer subscribes to, without a group."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(DEADLINE_S * 1000),
    )
    try:
        fetched = [next(consumer) for _ in range(count)]
    finally:
        consumer.close()
    return [Payload(each.key, each.value, tuple(each.headers), each.timestamp) for each in fetched]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str | None, broker: Broker, topic: str) -> None:
    offsets = produce(broker, topic, PLAIN_PAYLOADS, compression_type=codec)
    assert offsets == [*range(len(PLAIN_PAYLOADS))]
    assert consume(broker, topic, len(PLAIN_PAYLOADS)) == [*PLAIN_PAYLOADS]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acks_without_idempotence(acks: int | str, broker: Broker, topic: str) -> None:
    produce(broker, topic, PLAIN_PAYLOADS, acks=acks, enable_idempotence=False)
    assert consume(broker, topic, len(PLAIN_PAYLOADS)) == [*PLAIN_PAYLOADS]


def test_what_is_too_large_is_refused(broker: Broker, topic: str) -> None:
    payloads = [Payload(None, bytes(1_100_000), (), ONE_DAY_IN_2013_MS)]
    with pytest.raises(MessageSizeTooLargeError):
        produce(broker, topic, payloads, max_request_size=5_000_000)


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    """An admin client."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def test_offsets_by_time(broker: Broker, topic: str) -> None:
    produce(broker, topic, PLAIN_PAYLOADS)
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: len(PLAIN_PAYLOADS)}
    first = consumer.offsets_for_times({partition: ONE_DAY_IN_2013_MS})[partition]
    assert first is not None
    assert first.offset == 0
    late = ONE_DAY_IN_2013_MS + 2 * 86_400_000
    assert consumer.offsets_for_times({partition: late})[partition] is None
    consumer.close()


def test_topics_are_created_listed_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 3, 1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 3, 1)])
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert sorted(each["partition_index"] for each in described["partitions"]) == [0, 1, 2]
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
