"""The consumer over each driver, against tidelog and Apache Kafka: each record once, in order."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.client.consumer.three_drivers import RUNNERS, Body, Consumers
from tests.tables import for_each
from tidelog.client import TopicPartition
from tidelog.plugins.client import BlockingClient, NewRecord, NewTopic, or_raise
from tidelog.plugins.client.errors import (
    ClientClosed,
    DecodingFailed,
    ErrorResponse,
    NoOffset,
    NotAssigned,
    RequestTimedOut,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
HOUR_MS = 3_600_000


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the consumers of a driver."""
    return RUNNERS[request.param]


def new_topic(bootstrap: str, partitions: int = 1) -> str:
    name = f"t-{uuid.uuid4()}"
    with BlockingClient(bootstrap) as client:
        or_raise(client.create_topics([NewTopic(name, partitions)]))
    return name


def fill(bootstrap: str, topic: str, counts: list[int], *, compression: str = "none") -> None:
    """Number the records of each partition from 0 on, some in a batch; a record's time is a second later."""
    with BlockingClient(bootstrap) as client:
        for partition, count in enumerate(counts):
            for start in range(0, count, 7):
                records = [
                    NewRecord(b"%d" % number, b"k" if number % 2 else None, timestamp=1000 * number)
                    for number in range(start, min(start + 7, count))
                ]
                client.produce(TopicPartition(topic, partition), records, compression=compression)


def places(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


async def read(consumer: Any, count: int) -> list[Any]:
    """So many records of `poll`."""
    found: list[Any] = []
    while len(found) < count:
        some = await consumer.poll(DEADLINE_S)
        assert some
        found += some
    return found


@for_each("compression", COMPRESSIONS)
def test_poll_returns_each_record_once_and_in_order(
    run: Callable[[Body], None], shared_tidelog: str, compression: str
) -> None:
    topic = new_topic(shared_tidelog, 2)
    fill(shared_tidelog, topic, [100, 40], compression=compression)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            shared_tidelog, auto_offset_reset="earliest", max_poll_records=9
        ) as consumer:
            consumer.assign(places(topic, 2))
            found = await read(consumer, 140)
            assert await consumer.poll(0) == []
            for partition, count in enumerate((100, 40)):
                ours = [each for each in found if each.partition == partition]
                assert [(each.offset, each.value) for each in ours] == [
                    (number, b"%d" % number) for number in range(count)
                ]
                assert {each.topic for each in ours} == {topic}
                assert [each.timestamp_ms for each in ours] == [1000 * each.offset for each in ours]
                assert [each.key for each in ours] == [b"k" if each.offset % 2 else None for each in ours]

    run(body)


def test_iteration_commits_what_was_returned(run: Callable[[Body], None], real_broker: str) -> None:
    topic = new_topic(real_broker)
    fill(real_broker, topic, [50])
    place = TopicPartition(topic, 0)
    options: dict[str, Any] = {"group_id": str(uuid.uuid4()), "auto_offset_reset": "earliest"}

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(real_broker, enable_auto_commit=False, **options) as consumer:
            consumer.assign([place])
            async for record in consumer:
                if record.offset == 16:
                    break
            assert await consumer.position(place) == 17
            assert await consumer.lag(place) == 33
            await consumer.commit()
            assert (await consumer.committed([place]))[place].offset == 17
            assert [each.offset for each in await read(consumer, 33)] == list(range(17, 50))
        async with consumers.consumer(real_broker, **options) as consumer:
            consumer.assign([place])
            assert [each.offset for each in await read(consumer, 33)] == list(range(17, 50))
        # Closing has committed it.
        async with consumers.consumer(real_broker, **options) as consumer:
            consumer.assign([place])
            assert await consumer.position(place) == 50

    options["group_id"] = str(uuid.uuid4())
    run(body)


def test_batches_and_tables_have_the_same_records(run: Callable[[Body], None], real_broker: str) -> None:
    pytest.importorskip("pyarrow")
    topic = new_topic(real_broker)
    place = TopicPartition(topic, 0)
    headers = [("name", b"x"), ("none", None)]
    with BlockingClient(real_broker) as client:
        client.produce(place, [NewRecord(b"a", b"key", headers, 5), NewRecord(None, b"", timestamp=6)])
        client.produce(place, [NewRecord(b"", None, timestamp=7)], compression="lz4")

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(real_broker, auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            records = await read(consumer, 3)
            rows = [(each.offset, each.timestamp_ms, each.key, each.value) for each in records]
            assert rows == [(0, 5, b"key", b"a"), (1, 6, b"", None), (2, 7, None, b"")]
            assert records[0].headers == tuple(headers)
            # Also from the middle of a batch.
            for start in (0, 1):
                consumer.seek(place, start)
                batches = await consumer.poll_batches(DEADLINE_S)
                while len(batches) < 2:
                    batches += await consumer.poll_batches(DEADLINE_S)
                found = [each for batch in batches for each in batch.records()]
                assert list(map(repr, found)) == list(map(repr, records[start:]))
                assert [batch.next_offset for batch in batches] == [2, 3]
                consumer.seek(place, start)
                table = await consumer.poll_arrow(DEADLINE_S)
                table.validate(full=True)
                first = table.to_pylist()[0]
                assert (first["offset"], first["key"], first["value"]) == (start, *rows[start][2:])
                expected = [] if start else [{"name": "name", "value": b"x"}, {"name": "none", "value": None}]
                assert first["headers"] == expected
            consumer.seek(place, 3)
            assert (await consumer.poll_arrow(0)).num_rows == 0

    run(body)


def test_seek_by_offset_and_by_time(run: Callable[[Body], None], real_broker: str) -> None:
    topic = new_topic(real_broker)
    fill(real_broker, topic, [30])
    place = TopicPartition(topic, 0)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(real_broker) as consumer:
            consumer.assign([place])
            for seek, expected in (
                (lambda: consumer.seek(place, 7), 7),
                (consumer.seek_to_beginning, 0),
                (consumer.seek_to_end, 30),
                (lambda: consumer.seek_to_time(12_500), 13),
                (lambda: consumer.seek_to_time(99_000_000), 30),
            ):
                moved = seek()
                if moved is not None:
                    await moved
                assert await consumer.position(place) == expected
                if expected < 30:
                    assert (await consumer.poll(DEADLINE_S))[0].offset == expected
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 30}
            found = await consumer.offsets_for_times({place: 12_500})
            assert (found[place].offset, found[place].timestamp) == (13, 13_000)
            assert await consumer.offsets_for_times({place: 99_000_000}) == {place: None}
            assert await consumer.partitions_for(topic) == [0]
            with pytest.raises(NotAssigned, match="not assigned"):
                consumer.seek(TopicPartition(topic, 1), 0)
            with pytest.raises(ValueError, match="at least 0"):
                consumer.seek(place, -1)

    run(body)


def test_a_seek_in_an_iteration_takes_effect_at_once(
    run: Callable[[Body], None], shared_tidelog: str
) -> None:
    topic = new_topic(shared_tidelog)
    fill(shared_tidelog, topic, [30])
    place = TopicPartition(topic, 0)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(shared_tidelog, auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            found: list[int] = []
            async for record in consumer:
                found.append(record.offset)
                if found == [0, 1, 2]:
                    consumer.seek(place, 20)
                if record.offset == 29:
                    break
            assert found == [0, 1, 2, *range(20, 30)]

    run(body)


def test_paused_partitions_return_nothing(run: Callable[[Body], None], shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog, 2)
    fill(shared_tidelog, topic, [20, 20])
    first, second = places(topic, 2)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            shared_tidelog, auto_offset_reset="earliest", max_poll_records=5
        ) as consumer:
            consumer.assign([first, second])
            some = await consumer.poll(DEADLINE_S)
            consumer.pause(first)
            assert consumer.paused() == {first}
            seen = sum(record.partition == 1 for record in some)
            others = await read(consumer, 20 - seen)
            assert {record.partition for record in others} == {1}
            assert await consumer.poll(0) == []
            consumer.resume(first)
            some += others + await read(consumer, 40 - len(some) - len(others))
            assert sorted((each.partition, each.offset) for each in some) == [
                (partition, offset) for partition in (0, 1) for offset in range(20)
            ]

    run(body)


@for_each(
    ("reset", "expected"),
    [("earliest", 0), ("latest", 3), ("by_duration:P3DT1H", 1), ("by_duration:PT0.5S", 3)],
)
def test_auto_offset_reset(run: Callable[[Body], None], real_broker: str, reset: str, expected: int) -> None:
    topic = new_topic(real_broker)
    place = TopicPartition(topic, 0)
    now_ms = time.time_ns() // 1_000_000
    with BlockingClient(real_broker) as client:
        for hours in (200, 73, 1):
            client.produce(place, [NewRecord(b"", timestamp=now_ms - HOUR_MS * hours + 60_000)])

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(real_broker, auto_offset_reset=reset) as consumer:
            consumer.assign([place])
            assert await consumer.position(place) == expected
            # Beyond the end of the log it is the same.
            consumer.seek(place, 99)
            if expected < 3:
                assert (await consumer.poll(DEADLINE_S))[0].offset == expected

    run(body)


def test_auto_offset_reset_none(run: Callable[[Body], None], real_broker: str) -> None:
    topic = new_topic(real_broker)
    fill(real_broker, topic, [3])
    place = TopicPartition(topic, 0)

    async def body(consumers: Consumers) -> None:
        options = {"auto_offset_reset": "none", "group_id": str(uuid.uuid4())}
        async with consumers.consumer(real_broker, **options) as consumer:
            consumer.assign([place])
            with pytest.raises(NoOffset, match="none is committed"):
                await consumer.poll(DEADLINE_S)
            consumer.seek(place, 4)
            with pytest.raises(NoOffset, match="does not have 4"):
                await consumer.poll(DEADLINE_S)
            consumer.seek(place, 1)
            assert [each.offset for each in await read(consumer, 2)] == [1, 2]

    run(body)


def test_read_committed_leaves_out_aborted_transactions(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker)
    place = TopicPartition(topic, 0)
    with BlockingClient(real_broker) as client:
        producer = client.init_transactions(f"p-{uuid.uuid4()}")
        for value in (b"a", b"b", b"c"):
            producer.begin_transaction()
            client.produce(place, [NewRecord(value)], producer=producer)
            (client.abort_transaction if value == b"b" else client.commit_transaction)(producer)
        producer.begin_transaction()
        client.produce(place, [NewRecord(b"open")], producer=producer)
        found: dict[str, list[bytes]] = {}

        async def body(consumers: Consumers) -> None:
            for level, count, end in (("read_committed", 2, 6), ("read_uncommitted", 4, 7)):
                options = {"isolation_level": level, "auto_offset_reset": "earliest"}
                async with consumers.consumer(real_broker, **options) as consumer:
                    consumer.assign([place])
                    found[level] = [each.value for each in await read(consumer, count)]
                    # Behind the markers, too.
                    await consumer.poll(0)
                    assert await consumer.position(place) == end
                    assert await consumer.end_offsets([place]) == {place: end}
                    assert await consumer.lag(place) == 0

        run(body)
        client.abort_transaction(producer)
    assert found == {"read_committed": [b"a", b"c"], "read_uncommitted": [b"a", b"b", b"c", b"open"]}


def test_decoders_make_objects_of_keys_and_values(run: Callable[[Body], None], shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)
    place = TopicPartition(topic, 0)
    with BlockingClient(shared_tidelog) as client:
        values = [b"[1]", b"2", b"no", b"3", None]
        client.produce(place, [NewRecord(value, b"k") for value in values])

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            shared_tidelog, auto_offset_reset="earliest", key_decoder=bytes.decode, value_decoder=json.loads
        ) as consumer:
            consumer.assign([place])
            found = await read(consumer, 2)
            assert [(each.key, each.value) for each in found] == [("k", [1]), ("k", 2)]
            with pytest.raises(DecodingFailed, match="decoder of the value raised at offset 2") as caught:
                await consumer.poll(DEADLINE_S)
            assert caught.value.offset == await consumer.position(place) == 2
            consumer.seek(place, 3)
            assert [each.value for each in await read(consumer, 2)] == [3, None]

    run(body)


def test_decoders_are_called_once_for_each_record(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)
    fill(shared_tidelog, topic, [7])

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(
            shared_tidelog, auto_offset_reset="earliest", value_decoder=int
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            async for record in consumer:
                if record.offset == 3:
                    break
            assert [each.value for each in await read(consumer, 3)] == [4, 5, 6]

    RUNNERS["threads"](body)


def test_commits_of_chosen_offsets(run: Callable[[Body], None], real_broker: str) -> None:
    topic = new_topic(real_broker, 2)
    first, second = places(topic, 2)

    async def body(consumers: Consumers) -> None:
        async with consumers.consumer(real_broker) as consumer:
            with pytest.raises(NotAssigned, match="without group_id"):
                await consumer.commit({first: 1})
            with pytest.raises(NotAssigned, match="without group_id"):
                await consumer.committed([first])
        async with consumers.consumer(real_broker, group_id=str(uuid.uuid4())) as consumer:
            assert await consumer.committed([first]) == {first: None}
            await consumer.commit({first: 1})
            committed: list[Any] = []
            consumer.commit_async({second: 2}, lambda offsets, error: committed.append((offsets, error)))
            # Of the same connection, in order.
            found = await consumer.committed([first, second])
            assert {place: each.offset for place, each in found.items()} == {first: 1, second: 2}
            ((offsets, error),) = committed
            assert (offsets[second].offset, error) == (2, None)

    run(body)


def test_a_topic_that_is_not_there_is_waited_for(run: Callable[[Body], None], shared_tidelog: str) -> None:
    async def body(consumers: Consumers) -> None:
        options = {"auto_offset_reset": "earliest", "default_api_timeout_ms": 300}
        async with consumers.consumer(shared_tidelog, **options) as consumer:
            name = f"t-{uuid.uuid4()}"
            consumer.assign([TopicPartition(name, 0)])
            assert await consumer.poll(0.05) == []
            with pytest.raises((RequestTimedOut, ErrorResponse)):
                await consumer.position(TopicPartition(name, 0))
            with pytest.raises(ErrorResponse) as caught:
                await consumer.partitions_for("no/topic")
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(body)


def test_a_closed_consumer_says_so(run: Callable[[Body], None], shared_tidelog: str) -> None:
    async def body(consumers: Consumers) -> None:
        consumer = consumers.consumer(shared_tidelog)
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClientClosed):
            await consumer.poll(0)
        with pytest.raises(ClientClosed):
            consumer.assign([])

    run(body)
