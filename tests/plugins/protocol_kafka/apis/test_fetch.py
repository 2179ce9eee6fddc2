"""Fetch: what comes at once, what is waited for, how much fits, and what does not exist."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
import trio
from aiokafka.record.memory_records import MemoryRecords
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.broker import Broker
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.storage import LogSlice, WouldBlock
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

from .client import Client, versions_of
from .topics import fill, new_topic

IDS_SINCE = 13
SESSIONS_SINCE = 7
BATCHES_SINCE = 4
BATCH = len(make_batch())
PLENTY = 2**31 - 1


def fetch(
    topic: Topic,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = PLENTY,
    partition_max_bytes: int = PLENTY,
    current_leader_epoch: int = -1,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    """Ask for partitions of a topic from these offsets on."""
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        for index, offset in offsets.items()
    ]
    asked = FetchTopic(topic=topic.name, topic_id=topic.topic_id.bytes, partitions=partitions)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[asked],
    )


def parts_of(response: Any) -> list[PartitionData]:
    """All partitions of an answer."""
    return [partition for topic in response.responses for partition in topic.partitions]


def records_of(part: PartitionData) -> bytes:
    """The records field as bytes."""
    assert isinstance(part.records, bytes | memoryview)
    return bytes(part.records)


def offsets_of(part: PartitionData) -> list[int]:
    """Offsets of the records in it, as a client reads them."""
    records, found = MemoryRecords(records_of(part)), list[int]()
    while (batch := records.next_batch()) is not None:
        found += [record.offset for record in batch]
    return found


@pytest.mark.parametrize("version", versions_of(FETCH))
async def test_fetch_reads_in_every_version(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [3, 2])
    response = await client.ask(FETCH, version, fetch(topic, {0: 0}))
    (answer,) = response.responses
    if version >= IDS_SINCE:
        assert answer.topic_id == topic.topic_id.bytes
    else:
        assert answer.topic == "flights"
    (part,) = answer.partitions
    assert (part.partition_index, part.error_code, part.high_watermark) == (0, 0, 5)
    assert part.last_stable_offset == (5 if version >= 4 else -1)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.aborted_transactions is None
    assert part.preferred_read_replica == -1
    assert response.session_id == 0
    assert response.error_code == 0
    assert offsets_of(part) == [0, 1, 2, 3, 4]
    assert records_of(part)[16] == (2 if version >= BATCHES_SINCE else version // 2)


@pytest.mark.parametrize("version", versions_of(FETCH))
async def test_fetch_at_an_offset_within_a_batch(client: Client, broker: Broker, version: int) -> None:
    """Batches come whole and clients skip; message sets begin with the message."""
    topic = await new_topic(broker)
    fill(topic, 0, [3, 3])
    (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 4})))
    assert offsets_of(part) == ([3, 4, 5] if version >= BATCHES_SINCE else [4, 5])


@pytest.mark.parametrize("version", versions_of(FETCH))
async def test_fetch_of_unknown_topics_partitions_and_offsets(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    for index in (1, -1):
        (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {index: 0}, max_wait_ms=60_000)))
        assert (part.partition_index, part.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert part.high_watermark == -1
        assert records_of(part) == b""
    for offset in (2, -1):
        (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: offset}, max_wait_ms=60_000)))
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    await broker.topics.delete("flights")
    (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 0}, max_wait_ms=60_000)))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert part.error_code == unknown


@pytest.mark.parametrize("version", versions_of(FETCH, 9))
async def test_fetch_checks_the_leader_epoch(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    topic.partitions[0].log.leader_epoch = 5
    codes: list[int] = []
    for epoch in (-1, 4, 5, 6):
        request = fetch(topic, {0: 0}, max_wait_ms=60_000, current_leader_epoch=epoch)
        codes.append(parts_of(await client.ask(FETCH, version, request))[0].error_code)
    assert codes == [0, ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize(
    ("session_id", "epoch", "served"),
    [(0, -1, True), (0, 0, True), (99, 0, True), (99, -1, True), (99, 1, False), (0, 1, False)],
)
@pytest.mark.parametrize("version", [7, 12, 13, 18])
async def test_fetch_opens_a_session_for_epoch_0(
    client: Client, broker: Broker, version: int, session_id: int, epoch: int, served: bool
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    request = fetch(topic, {0: 0}, session=(session_id, epoch))
    response = await client.ask(FETCH, version, request)
    assert bool(response.session_id) is (epoch == 0)
    if served:
        assert response.error_code == 0
        assert offsets_of(parts_of(response)[0]) == [0]
    else:
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert response.responses == []


@pytest.mark.parametrize("level", [2, -1, 127])
async def test_fetch_with_an_unknown_isolation_level_closes_the_connection(
    client: Client, broker: Broker, level: int
) -> None:
    topic = await new_topic(broker)
    with pytest.raises(ProtocolViolation, match=f"isolation level {level} "):
        client.start(FETCH, 11, fetch(topic, {0: 0}, isolation_level=level))


@pytest.mark.parametrize(("level", "found"), [(0, [0, 1, 2]), (1, [0])])
async def test_fetch_by_isolation_level(client: Client, broker: Broker, level: int, found: list[int]) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1, 1, 1])
    topic.partitions[0].log.watermarks.last_stable_offset = 1
    (part,) = parts_of(await client.ask(FETCH, 11, fetch(topic, {0: 0}, isolation_level=level)))
    assert offsets_of(part) == found
    assert (part.high_watermark, part.last_stable_offset) == (3, 1)


# How much


async def sizes(
    client: Client,
    topic: Topic,
    offsets: Mapping[int, int],
    max_bytes: int = PLENTY,
    partition_max_bytes: int = PLENTY,
) -> list[int]:
    """How many bytes each partition gets."""
    request = fetch(topic, offsets, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)
    parts = parts_of(await client.ask(FETCH, 12, request))
    return [len(records_of(part)) for part in parts]


@pytest.mark.parametrize("limit", [-1, 0, 1, BATCH - 1, BATCH])
@pytest.mark.parametrize("which", ["max_bytes", "partition_max_bytes"])
async def test_fetch_returns_the_first_batch_whole(
    client: Client, broker: Broker, which: str, limit: int
) -> None:
    topic = await new_topic(broker, partitions=3)
    for index in (1, 2):
        fill(topic, index, [1, 1, 1])
    found = await sizes(client, topic, {0: 0, 1: 0, 2: 0}, **{which: limit})
    assert found[:2] == [0, BATCH]
    assert found[2] in (0, BATCH if which == "partition_max_bytes" and limit == BATCH else 0)


async def test_fetch_limits_each_partition_by_its_partition_max_bytes(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=2)
    for index in (0, 1):
        fill(topic, index, [1] * 5)
    found = await sizes(client, topic, {0: 0, 1: 0}, partition_max_bytes=2 * BATCH)
    assert found == [2 * BATCH, 2 * BATCH]


@pytest.mark.parametrize("limit", [BATCH, BATCH + 1, 2 * BATCH - 1, 2 * BATCH, 3 * BATCH, 4 * BATCH])
async def test_fetch_of_further_partitions_returns_what_fits(
    client: Client, broker: Broker, limit: int
) -> None:
    topic = await new_topic(broker, partitions=4)
    for index in range(4):
        fill(topic, index, [1])
    found = await sizes(client, topic, dict.fromkeys(range(4), 0), max_bytes=limit)
    assert found[0] == BATCH
    assert sum(found) <= limit
    assert [size for size in found if size >= BATCH] == [BATCH] * (limit // BATCH)


async def test_fetch_leaves_a_large_batch_after_a_small_one_to_the_next_request(
    client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker, partitions=2)
    fill(topic, 0, [1])
    fill(topic, 1, [1], value=b"x" * 10_000)
    assert await sizes(client, topic, {0: 0, 1: 0}, max_bytes=1000) == [BATCH, 0]
    assert (await sizes(client, topic, {1: 0, 0: 1}, max_bytes=1000))[0] > 10_000


@pytest.fixture
async def small_answers() -> AsyncGenerator[Broker]:
    """A broker that answers with few bytes, whatever is asked for."""
    async with running_broker({"fetch.max.bytes": 1024}) as broker:
        yield broker


async def test_fetch_limits_the_response_by_fetch_max_bytes(small_answers: Broker) -> None:
    topic = await new_topic(small_answers, partitions=2)
    for index in (0, 1):
        fill(topic, index, [1] * 100)
    assert sum(await sizes(Client(small_answers), topic, {0: 0, 1: 0})) <= 1024
    fill(topic, 1, [1], value=b"x" * 5000)
    assert (await sizes(Client(small_answers), topic, {1: 100}))[0] > 5000


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_fetch_in_old_versions_returns_at_least_one_message(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [3], value=b"x" * 500)
    (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 1}, partition_max_bytes=10)))
    assert offsets_of(part) == [1]
    (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 0}, partition_max_bytes=1200)))
    assert offsets_of(part) == [0, 1]


async def test_fetch_without_partitions(client: Client) -> None:
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[])
    assert (await client.ask(FETCH, 12, request)).responses == []


# How long


class Stopwatch:
    """Milliseconds of trio's time."""

    def __init__(self) -> None:
        self._start = trio.current_time()

    def ms(self) -> int:
        """Since the start."""
        return round((trio.current_time() - self._start) * 1000)


def be_patient_with_threads(clock: MockClock, version: int = 0) -> None:
    """Message sets are made in a thread, and the clock must not jump while it works."""
    if version < BATCHES_SINCE:
        clock.autojump_threshold = 0.1


@pytest.mark.parametrize("version", versions_of(FETCH))
async def test_fetch_waits_at_an_empty_partition(
    autojump_clock: MockClock, client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    be_patient_with_threads(autojump_clock, version)
    watch = Stopwatch()
    (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 0}, max_wait_ms=500)))
    assert watch.ms() == 500
    assert (part.error_code, records_of(part)) == (0, b"")


@pytest.mark.parametrize(
    ("max_wait_ms", "min_bytes", "waited"),
    [
        (500, 1, 0),
        (500, 0, 0),
        (500, -1, 0),
        (500, BATCH, 0),
        (500, BATCH + 1, 500),
        (0, 10_000, 0),
        (-1, 10_000, 0),
        (2000, 2**31 - 1, 2000),
    ],
)
async def test_fetch_waits_for_min_bytes(
    autojump_clock: MockClock,
    client: Client,
    broker: Broker,
    max_wait_ms: int,
    min_bytes: int,
    waited: int,
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    watch = Stopwatch()
    request = fetch(topic, {0: 0}, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    (part,) = parts_of(await client.ask(FETCH, 12, request))
    assert watch.ms() == waited
    assert offsets_of(part) == [0]


@pytest.mark.parametrize(("idle_ms", "waited"), [(5000, 5000), (-1, 60_000), (90_000, 60_000)])
async def test_fetch_waits_no_longer_than_connections_max_idle_ms(
    autojump_clock: MockClock, idle_ms: int, waited: int
) -> None:
    async with running_broker({"connections.max.idle.ms": idle_ms}) as broker:
        topic = await new_topic(broker)
        watch = Stopwatch()
        request = fetch(topic, {0: 0}, max_wait_ms=60_000)
        (part,) = parts_of(await Client(broker).ask(FETCH, 12, request))
        assert (watch.ms(), offsets_of(part)) == (waited, [])


async def test_fetch_returns_immediately_with_an_error_of_one_partition(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    watch = Stopwatch()
    response = await client.ask(FETCH, 12, fetch(topic, {0: 0, 7: 0}, max_wait_ms=60_000))
    assert watch.ms() == 0
    assert [part.error_code for part in parts_of(response)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def produced_after(topic: Topic, delays_ms: Sequence[int], partition: int = 0) -> None:
    """Append a batch after each delay."""
    for delay in delays_ms:
        await trio.sleep(delay / 1000)
        fill(topic, partition, [1])


@pytest.mark.parametrize("version", [0, 3, 4, 11, 12, 13, 18])
async def test_fetch_is_woken_by_an_append(
    autojump_clock: MockClock, client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    be_patient_with_threads(autojump_clock, version)
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [200])
        (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 0}, max_wait_ms=60_000)))
    assert watch.ms() == 200
    assert offsets_of(part) == [0]
    assert part.high_watermark == 1


async def test_fetch_is_woken_by_the_append_that_reaches_min_bytes(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker, partitions=2)
    fill(topic, 0, [1])
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [100, 100, 100], 1)
        request = fetch(topic, {0: 0, 1: 0}, max_wait_ms=60_000, min_bytes=3 * BATCH)
        parts = parts_of(await client.ask(FETCH, 12, request))
        assert watch.ms() == 200
    assert [offsets_of(part) for part in parts] == [[0], [0, 1]]


async def test_fetch_is_not_woken_by_an_append_to_another_partition(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker, partitions=2)
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [200], 1)
        await client.ask(FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=1000))
    assert watch.ms() == 1000


async def test_fetch_sees_an_append_between_reading_and_waiting(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    """The server sends earlier answers before it awaits this one, and that may take a while."""
    topic = await new_topic(broker)
    step = client.start(FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=60_000))
    fill(topic, 0, [1])
    watch = Stopwatch()
    (part,) = parts_of(await client.finish(FETCH, 12, step))
    assert watch.ms() == 0
    assert offsets_of(part) == [0]


async def test_fetch_counts_an_append_between_reading_and_waiting(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    request = fetch(topic, {0: 0}, max_wait_ms=60_000, min_bytes=3 * BATCH)
    step = client.start(FETCH, 12, request)
    fill(topic, 0, [1])
    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [100, 100, 100])
        (part,) = parts_of(await client.finish(FETCH, 12, step))
        assert watch.ms() == 200
    assert offsets_of(part) == [0, 1, 2]


async def test_fetch_of_a_topic_that_is_deleted_between_reading_and_waiting(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    step = client.start(FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=60_000))
    await broker.topics.delete("flights")
    watch = Stopwatch()
    (part,) = parts_of(await client.finish(FETCH, 12, step))
    assert watch.ms() == 0
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_fetch_is_woken_by_the_deletion_of_the_topic(
    autojump_clock: MockClock, client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    watch = Stopwatch()

    async def delete() -> None:
        await trio.sleep(0.1)
        await broker.topics.delete("flights")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(delete)
        (part,) = parts_of(await client.ask(FETCH, version, fetch(topic, {0: 0}, max_wait_ms=60_000)))
    assert watch.ms() == 100
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert part.error_code == unknown


async def test_fetch_does_not_wait_while_the_broker_stops(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    """Neither those who wait already nor those whose request was still on its way."""
    topic = await new_topic(broker)
    watch = Stopwatch()

    async def stop() -> None:
        await trio.sleep(0.1)
        broker.topics.wake_all_waiters()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        await client.ask(FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=60_000))
    assert watch.ms() == 100
    (part,) = parts_of(await client.ask(FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=60_000)))
    assert watch.ms() == 100
    assert part.error_code == 0


async def test_fetch_ends_its_wait_when_the_client_disconnects(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.ask, FETCH, 12, fetch(topic, {0: 0}, max_wait_ms=60_000))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    fill(topic, 0, [1])
    assert offsets_of(parts_of(await Client(broker).ask(FETCH, 12, fetch(topic, {0: 0})))[0]) == [0]


# A slow disk


def make_slow(topic: Topic) -> list[bool]:
    """Let the partition's store refuse to wait; how it was asked is noted."""
    store = topic.partitions[0].log.store
    read, waited = store.read_batches, list[bool]()

    def slow(offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        waited.append(wait)
        if not wait:
            raise WouldBlock
        return read(offset, max_bytes, limit_offset, wait=True)

    store.read_batches = slow  # type: ignore[method-assign]
    return waited


async def test_fetch_reads_in_a_thread_what_is_not_in_memory(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [2])
    waited = make_slow(topic)
    (part,) = parts_of(await client.ask(FETCH, 12, fetch(topic, {0: 0})))
    assert offsets_of(part) == [0, 1]
    assert waited == [False, True]


async def test_fetch_waits_after_a_read_in_a_thread_below_min_bytes(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    make_slow(topic)
    request = fetch(topic, {0: 0}, max_wait_ms=60_000, min_bytes=2 * BATCH)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produced_after, topic, [50])
        (part,) = parts_of(await client.ask(FETCH, 12, request))
    assert offsets_of(part) == [0, 1]


async def test_fetch_sees_an_append_during_a_read_in_a_thread(
    autojump_clock: MockClock, client: Client, broker: Broker
) -> None:
    """The thread has found the log's end when the loop appends behind it."""
    topic = await new_topic(broker)
    fill(topic, 0, [1])
    make_slow(topic)
    store = topic.partitions[0].log.store
    read, late = store.read_batches, [True]

    def read_and_append(offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        found = read(offset, max_bytes, limit_offset, wait=wait)
        if late.pop():
            trio.from_thread.run_sync(fill, topic, 0, [1])
        late.append(False)
        return found

    store.read_batches = read_and_append  # type: ignore[method-assign]
    be_patient_with_threads(autojump_clock)
    watch = Stopwatch()
    request = fetch(topic, {0: 0}, max_wait_ms=60_000, min_bytes=2 * BATCH)
    (part,) = parts_of(await client.ask(FETCH, 12, request))
    assert offsets_of(part) == [0, 1]
    assert watch.ms() == 0


async def test_fetch_returns_kafka_storage_error_when_the_disk_fails(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=2)
    for index in (0, 1):
        fill(topic, index, [1])

    def fail(*_: object, **__: object) -> LogSlice:
        raise OSError(5, "Input/output error")

    topic.partitions[0].log.store.read_batches = fail  # type: ignore[method-assign]
    parts = parts_of(await client.ask(FETCH, 12, fetch(topic, {0: 0, 1: 0})))
    assert [part.error_code for part in parts] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert offsets_of(parts[1]) == [0]


async def test_fetch_returns_the_bytes_of_the_log(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    batch = make_batch([b"one", b"two"])
    topic.partitions[0].log.append_nowait(batch)
    step = client.start(FETCH, 12, fetch(topic, {0: 0}))
    assert isinstance(step, list)
    assert bytes(batch) in [bytes(part) for part in step if isinstance(part, bytes | memoryview)]
    assert parse_header(batch).base_offset == 0
    assert struct.unpack_from(">i", bytes(step[0]))[0] > len(batch)  # type: ignore[arg-type]
