"""confluent-kafka, and with it librdkafka, as Python, C, C++, Go, .NET and Rust programs have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S

from .payloads import ODD_PAYLOADS, ONE_DAY_IN_2013_MS, Payload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .brokers import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
HALF_A_MEGABYTE = 500_000


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    """Create a topic; keys of its configuration have underscores for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for created in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        created.result(DEADLINE_S)


def produce(
    broker: Broker, topic: str, payloads: Iterable[Payload], **settings: Any
) -> list[KafkaError | None]:
    """Produce to partition 0; what each delivery reported, in order."""
    options = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **options})
    reported: list[KafkaError | None] = []
    for payload in payloads:
        producer.produce(
            topic,
            payload.value,
            payload.key,
            partition=0,
            timestamp=payload.timestamp_ms,
            headers=list(payload.headers),
            on_delivery=lambda error, _: reported.append(error),
        )
    assert producer.flush(DEADLINE_S) == 0
    return reported


def consume(broker: Broker, topic: str, count: int) -> list[Message]:
    """The first records of partition 0, without joining a group."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return [*_messages(consumer, count)]
    finally:
        consumer.close()


def _messages(consumer: Consumer, count: int) -> Iterator[Message]:
    while count > 0:
        messages = consumer.consume(count, DEADLINE_S)
        assert messages, f"{count} records did not come"
        for message in messages:
            assert message.error() is None, message.error()
            yield message
        count -= len(messages)


def payload_of(message: Message) -> Payload:
    """A message as what went in."""
    headers: Any = message.headers() or ()
    return Payload(message.key(), message.value(), tuple(headers), message.timestamp()[1])


@pytest.mark.parametrize("idempotence", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str, idempotence: bool, broker: Broker, topic: str) -> None:
    reported = produce(
        broker, topic, ODD_PAYLOADS, compression_type=codec, enable_idempotence=idempotence, linger_ms=20
    )
    assert set(reported) == {None}
    messages = consume(broker, topic, len(ODD_PAYLOADS))
    assert [payload_of(message) for message in messages] == [*ODD_PAYLOADS]
    assert [message.offset() for message in messages] == [*range(len(ODD_PAYLOADS))]
    assert {message.timestamp()[0] for message in messages} == {TIMESTAMP_CREATE_TIME}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acks(acks: str, broker: Broker, topic: str, admin: AdminClient) -> None:
    create(admin, topic)
    assert set(produce(broker, topic, ODD_PAYLOADS, acks=acks)) == {None}
    assert [payload_of(message) for message in consume(broker, topic, len(ODD_PAYLOADS))] == [*ODD_PAYLOADS]


def test_what_is_too_large_is_refused_and_the_rest_goes_on(
    broker: Broker, topic: str, admin: AdminClient
) -> None:
    create(admin, topic)
    payloads = [
        _of_size(size) for size in (10, DEFAULT_MAX_MESSAGE_BYTES, 10, DEFAULT_MAX_MESSAGE_BYTES - 200)
    ]
    too_large, fine = KafkaError.MSG_SIZE_TOO_LARGE, None
    reported = produce(broker, topic, payloads, message_max_bytes=5_000_000, batch_num_messages=1)
    assert [error and error.code() for error in reported] == [fine, too_large, fine, fine]
    assert [len(message.value() or b"") for message in consume(broker, topic, 3)] == [
        len(payloads[index].value or b"") for index in (0, 2, 3)
    ]


def test_a_topic_may_take_larger_messages(broker: Broker, topic: str, admin: AdminClient) -> None:
    create(admin, topic, max_message_bytes="8000000")
    payloads = [_of_size(size) for size in (3_000_000, 10, 5_000_000)]
    assert set(produce(broker, topic, payloads, message_max_bytes=9_000_000)) == {None}
    assert [payload_of(message) for message in consume(broker, topic, 3)] == payloads


def _of_size(size: int) -> Payload:
    return Payload(b"k", bytes(size), (), ONE_DAY_IN_2013_MS)


def test_a_topic_may_stamp_the_time_of_appending(broker: Broker, topic: str, admin: AdminClient) -> None:
    create(admin, topic, message_timestamp_type="LogAppendTime")
    produce(broker, topic, ODD_PAYLOADS, compression_type="lz4")
    stamped = [message.timestamp() for message in consume(broker, topic, len(ODD_PAYLOADS))]
    assert {kind for kind, _ in stamped} == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(time_ms > ONE_DAY_IN_2013_MS + 86_400_000 for _, time_ms in stamped)


def test_offsets_by_time_and_watermarks(broker: Broker, topic: str) -> None:
    payloads = [Payload(None, b"v", (), ONE_DAY_IN_2013_MS + 1000 * number) for number in range(10)]
    produce(broker, topic, payloads, batch_num_messages=1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    times_and_offsets = [(0, 0), (500, 1), (1000, 1), (1001, 2), (9000, 9), (9001, -1)]
    for after_ms, offset in times_and_offsets:
        asked = [TopicPartition(topic, 0, ONE_DAY_IN_2013_MS + after_ms)]
        assert [found.offset for found in consumer.offsets_for_times(asked, DEADLINE_S)] == [offset]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S) == (0, 10)
    consumer.close()


def test_topics_are_created_listed_and_deleted(admin: AdminClient, broker: Broker, topic: str) -> None:
    create(admin, topic, 3)
    described = admin.list_topics(timeout=DEADLINE_S).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2]
    produce(broker, topic, ODD_PAYLOADS)
    assert len(consume(broker, topic, len(ODD_PAYLOADS))) == len(ODD_PAYLOADS)
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(DEADLINE_S)
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_topic_that_exists_is_not_created_again(admin: AdminClient, topic: str) -> None:
    create(admin, topic)
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_reading_behind_the_log_end_is_told(broker: Broker, topic: str) -> None:
    produce(broker, topic, ODD_PAYLOADS[:3])
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 1000)])
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()
