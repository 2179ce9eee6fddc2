"""`SimpleConsumer` and `AsyncSimpleConsumer`: fetch, multi-fetch, offsets before a time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.client.consumer.three_drivers import RUNNERS, Body, Consumers
from tests.plugins.client.fakes import ADDRESS, FakeBroker, metadata_message
from tests.plugins.client.manual_driver import ManualDriver
from tidelog.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise
from tidelog.plugins.client.batches import build_batch
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.errors import CorruptRecords, ErrorResponse
from tidelog.plugins.client.operations.fetching import FetchLimits, fetch
from tidelog.plugins.client.settings import ClientSettings
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the consumers of a driver."""
    return RUNNERS[request.param]


@pytest.fixture
def topic(real_broker: str) -> str:
    """A topic of two partitions: ten records, the time of each its offset in seconds, and three."""
    name = f"t-{uuid.uuid4()}"
    with BlockingClient(real_broker) as client:
        or_raise(client.create_topics([NewTopic(name, 2)]))
        for partition, count in enumerate((10, 3)):
            place = TopicPartition(name, partition)
            for number in range(count):
                client.produce(place, [NewRecord(b"%d" % number, timestamp=1000 * number)])
    return name


def test_fetch_returns_what_follows_an_offset(
    run: Callable[[Body], None], real_broker: str, topic: str
) -> None:
    async def body(consumers: Consumers) -> None:
        async with consumers.simple(real_broker) as consumer:
            fetched = await consumer.fetch(topic, 0, 4)
            assert [record.value for record in fetched.records()] == [b"%d" % each for each in range(4, 10)]
            assert fetched.next_offset() == fetched.high_watermark == 10
            with pytest.raises(ErrorResponse) as caught:
                await consumer.fetch(topic, 0, 11)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(body)


def test_multi_fetch_has_an_outcome_of_each_partition(
    run: Callable[[Body], None], real_broker: str, topic: str
) -> None:
    first, second, missing = (TopicPartition(topic, number) for number in (0, 1, 99))

    async def body(consumers: Consumers) -> None:
        async with consumers.simple(real_broker, retry_backoff_ms=1, retry_backoff_max_ms=1) as consumer:
            found = await consumer.multi_fetch({first: 9, second: 1, missing: 0})
            assert [record.value for record in found[first].records()] == [b"9"]
            assert [record.value for record in found[second].records()] == [b"1", b"2"]
            assert found[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(body)


def test_offsets_before_a_time(run: Callable[[Body], None], real_broker: str, topic: str) -> None:
    async def body(consumers: Consumers) -> None:
        async with consumers.simple(real_broker) as consumer:
            assert await consumer.offsets_before(topic, 0, LATEST_TIMESTAMP) == [10]
            assert await consumer.offsets_before(topic, 0, LATEST_TIMESTAMP, 9) == [10, 0]
            assert await consumer.offsets_before(topic, 0, EARLIEST_TIMESTAMP, 9) == [0]

    run(body)


def test_offsets_before_a_time_by_records(shared_kafka: str) -> None:
    place = TopicPartition(f"t-{uuid.uuid4()}", 0)
    with BlockingClient(shared_kafka) as client:
        or_raise(client.create_topics([NewTopic(place.topic, 1)]))
        client.produce(place, [NewRecord(b"", timestamp=time) for time in (1000, 2000, 3000)])

    async def body(consumers: Consumers) -> None:
        async with consumers.simple(shared_kafka) as consumer:
            assert await consumer.offsets_before(place.topic, 0, 1500, 5) == [1, 0]
            assert await consumer.offsets_before(place.topic, 0, 9999, 5) == [3, 0]
            assert await consumer.offsets_before(place.topic, 0, 1, 5) == [0]

    RUNNERS["threads"](body)


def cutting(batch: bytes, asked: list[int]) -> Callable[[FetchRequest], FetchResponse]:
    """A broker that cuts a batch to the size that is asked for, as those before 0.10.1 do."""

    def answer(request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        asked.append(wanted.partition_max_bytes)
        part = PartitionData(
            partition_index=0, error_code=0, high_watermark=1, records=batch[: wanted.partition_max_bytes]
        )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])]
        )

    return answer


def fetch_cut(size: int, most: int) -> tuple[list[int], Any]:
    """What is asked for to get a batch of a size, and what is fetched."""
    asked: list[int] = []
    batch = bytes(build_batch([NewRecord(b"x" * size)], now_ms=0))
    broker = FakeBroker({"Metadata": metadata_message({"orders": [1]}), "Fetch": cutting(batch, asked)})
    driver = ManualDriver({ADDRESS: broker})
    settings = ClientSettings(max_response_bytes=most)
    engine = driver.attach(Engine(str(ADDRESS), settings, driver))
    outcomes: list[Any] = []
    limits = FetchLimits(max_bytes=10)
    engine.spawn(fetch(engine.session, TopicPartition("orders", 0), 0, limits), outcomes.append)
    driver.run(lambda: bool(outcomes))
    driver.close()
    return asked, outcomes[0]


def test_fetch_doubles_the_size_until_a_message_fits() -> None:
    asked, fetched = fetch_cut(100, 10_000)
    assert asked == [10, 20, 40, 80, 160, 320]
    assert [record.value for record in fetched.records()] == [b"x" * 100]


def test_fetch_doubles_the_size_no_further_than_a_response_may_be() -> None:
    asked, fetched = fetch_cut(1000, 500)
    assert asked == [10, 20, 40, 80, 160, 320]
    with pytest.raises(CorruptRecords, match="no whole batch"):
        fetched.next_offset()
