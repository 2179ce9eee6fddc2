"""The producer over each driver, against tidelog and Apache Kafka: what was acknowledged is in the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.client.producer.three_drivers import RUNNERS, Body
from tests.tables import for_each
from tidelog.client import ProducerInterceptor, encoders
from tidelog.client import errors as client_errors
from tidelog.kernel.records.record import Record
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise
from tidelog.plugins.client.errors import ClientClosed, ClientError, EncodingFailed, ErrorResponse

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the producer of a driver."""
    return RUNNERS[request.param]


def new_topic(bootstrap: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
    name = f"t-{uuid.uuid4()}"
    with BlockingClient(bootstrap) as client:
        or_raise(client.create_topics([NewTopic(name, partitions, config=config or {})]))
    return name


def log_of(bootstrap: str, topic: str, partition: int = 0) -> list[Record]:
    """All records of a partition."""
    place = TopicPartition(topic, partition)
    with BlockingClient(bootstrap) as client:
        end = or_raise(client.list_offsets([place]))[place].offset
        return list(client.read(place, 0, end)) if end else []


def test_a_record_has_the_place_that_the_delivery_names(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker, 3)

    async def body(producer: Any) -> None:
        async with producer(real_broker) as sending:
            delivery = await sending.send(
                topic,
                b"value",
                b"key",
                partition=2,
                timestamp_ms=1234,
                headers=[("name", b"x"), ("none", None)],
            )
            assert await delivery == (topic, 2, 0, 1234)
            assert delivery.done()
            assert delivery.exception() is None
            assert (await sending.send_and_wait(topic, None, b"key", partition=2)).offset == 1

    run(body)
    first, second = log_of(real_broker, topic, 2)
    assert (first.key, first.value, first.timestamp) == (b"key", b"value", 1234)
    assert list(first.headers) == [("name", b"x"), ("none", None)]
    assert (second.key, second.value) == (b"key", None)


def test_records_of_each_partition_are_in_the_order_of_sending(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker, 3)

    async def body(producer: Any) -> None:
        async with producer(real_broker, batch_size=500) as sending:
            sent = [await sending.send(topic, b"%d" % number, partition=number % 3) for number in range(3000)]
            await sending.flush()
            for number, delivery in enumerate(sent):
                assert delivery.done()
                found = await delivery
                assert (found.partition, found.offset) == (number % 3, number // 3)

    run(body)
    for partition in range(3):
        values = [int(record.value or b"") for record in log_of(real_broker, topic, partition)]
        assert values == list(range(partition, 3000, 3))


@for_each("compression", COMPRESSIONS)
def test_records_are_compressed(run: Callable[[Body], None], shared_tidelog: str, compression: str) -> None:
    topic = new_topic(shared_tidelog)

    async def body(producer: Any) -> None:
        # Small batches are compressed at once, large ones in a thread.
        for size in (100, 100_000):
            async with producer(shared_tidelog, compression_type=compression, linger_ms=5) as sending:
                for _ in range(5):
                    await sending.send(topic, b"x" * size)

    run(body)
    assert [len(record.value or b"") for record in log_of(shared_tidelog, topic)] == [100] * 5 + [100_000] * 5


@for_each("acks", (0, 1, "all"))
def test_acknowledgements(run: Callable[[Body], None], real_broker: str, acks: Any) -> None:
    topic = new_topic(real_broker)

    async def body(producer: Any) -> None:
        async with producer(real_broker, acks=acks) as sending:
            first = await sending.send_and_wait(topic, b"0")
            second = await sending.send_and_wait(topic, b"1")
            assert (first.offset, second.offset) == ((-1, -1) if acks == 0 else (0, 1))
            # A request of the same connection that is answered: then the others have been processed.
            await sending.flush()

    run(body)
    if acks != 0:
        assert [record.value for record in log_of(real_broker, topic)] == [b"0", b"1"]


def test_encoders_make_bytes_of_keys_and_values(run: Callable[[Body], None], shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)

    async def body(producer: Any) -> None:
        async with producer(
            shared_tidelog, key_encoder=encoders.int32, value_encoder=encoders.json
        ) as sending:
            await sending.send(topic, {"a": [1, "ü"]}, 7)
            with pytest.raises(EncodingFailed, match="encoder of the value raised TypeError"):
                await sending.send(topic, object(), 8)
            with pytest.raises(EncodingFailed, match="encoder of the key raised error"):
                await sending.send(topic, 1, "nine")
            assert (await sending.send_and_wait(topic, None)).offset == 1

    run(body)
    found = [(record.key, record.value) for record in log_of(shared_tidelog, topic)]
    assert found == [(b"\0\0\0\x07", '{"a":[1,"ü"]}'.encode()), (None, None)]


def test_a_topic_that_is_not_there_fails_its_records_alone(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker)

    async def body(producer: Any) -> None:
        async with producer(real_broker) as sending:
            bad = await sending.send("no/topic", b"x")
            good = await sending.send(topic, b"y")
            assert (await good).offset == 0
            with pytest.raises(ErrorResponse, match="INVALID_TOPIC"):
                await bad
            assert isinstance(bad.exception(), ClientError)
            with pytest.raises(ValueError, match="has 1 partitions, there is no 1"):
                await sending.send(topic, b"y", partition=1)

    run(body)


def test_a_record_that_a_topic_does_not_take_fails_with_the_broker_s_error(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker, config={"max.message.bytes": "1000"})

    async def body(producer: Any) -> None:
        async with producer(real_broker, linger_ms=50) as sending:
            sent = [await sending.send(topic, bytes([number]) * 300) for number in range(10)]
            large = await sending.send(topic, bytes(2000))
            after = await sending.send(topic, b"after")
            # Together they are too large, and so they are sent in parts.
            assert [(await delivery).offset for delivery in sent] == list(range(10))
            with pytest.raises(ErrorResponse, match="MESSAGE_TOO_LARGE"):
                await large
            assert (await after).offset == 10

    run(body)
    assert [record.value[:1] for record in log_of(real_broker, topic) if record.value] == [
        *(bytes([number]) for number in range(10)),
        b"a",
    ]


def test_callbacks_and_interceptors_get_every_result_and_may_raise(
    run: Callable[[Body], None], shared_tidelog: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(shared_tidelog)
    seen: list[Any] = []

    class Stamping(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            if record.value == b"2":
                raise RuntimeError("on_send")
            record.headers = [("by", b"me")]
            return record

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            seen.append(metadata.offset if error is None else error)
            raise RuntimeError("on_acknowledgement")

        def close(self) -> None:
            seen.append("closed")

    def callback(delivery: Any) -> None:
        seen.append(delivery)
        raise RuntimeError("callback")

    async def body(producer: Any) -> None:
        async with producer(shared_tidelog, interceptors=[Stamping()]) as sending:
            for number in range(4):
                await (await sending.send(topic, b"%d" % number, on_delivery=callback))

    run(body)
    assert [each for each in seen if isinstance(each, int | str)] == [0, 1, 2, 3, "closed"]
    assert [each.result().offset for each in seen if not isinstance(each, int | str)] == [0, 1, 2, 3]
    headers = [list(record.headers) for record in log_of(shared_tidelog, topic)]
    assert headers == [[("by", b"me")], [("by", b"me")], [], [("by", b"me")]]
    # Eleven errors, and a message for each place.
    assert len(caplog.records) == 3


def test_closing_sends_what_is_queued_and_refuses_more(
    run: Callable[[Body], None], shared_tidelog: str
) -> None:
    topic = new_topic(shared_tidelog)

    async def body(producer: Any) -> None:
        async with producer(shared_tidelog, linger_ms=3_600_000) as sending:
            delivery = await sending.send(topic, b"x")
        assert (await delivery).offset == 0
        with pytest.raises(ClientClosed):
            await sending.send(topic, b"y")
        await sending.close()

    run(body)


def test_closing_without_any_broker_fails_what_is_queued(run: Callable[[Body], None]) -> None:
    async def body(producer: Any) -> None:
        sending = producer("127.0.0.1:9")
        delivery = await sending.send("t", b"x")
        with pytest.raises(TimeoutError):
            await sending.flush(timeout=0.01)
        await sending.close(timeout=0.01)
        with pytest.raises(ClientClosed):
            await delivery

    run(body)


def test_a_full_queue_makes_send_wait(run: Callable[[Body], None], shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)

    async def body(producer: Any) -> None:
        async with producer(
            shared_tidelog, queue_buffering_max_messages=10, buffer_memory=10_000, batch_size=500
        ) as sending:
            sent = [await sending.send(topic, bytes(200)) for _ in range(500)]
            await sending.flush()
            assert [(await delivery).offset for delivery in sent] == list(range(500))
            with pytest.raises(client_errors.RecordTooLarge):
                await sending.send(topic, bytes(20_000))

    run(body)
