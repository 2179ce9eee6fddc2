"""ListOffsets: times and special times, each from the version that brought it."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.kernel.log.parts import open_partition
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import pack_batch, parse_header
from tidelog.kernel.seams.partition import AppendOrigin
from tidelog.kernel.seams.storage import SegmentView
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.apis.list_offsets import segment_offsets_before
from tidelog.plugins.protocol_kafka.messages.api import LIST_OFFSETS
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .client import Client, versions_of
from .topics import new_topic

BASE = 1_600_000_000_000
EPOCHS_SINCE = 4


def request(
    time: int,
    *,
    name: str = "flights",
    indexes: tuple[int, ...] = (0,),
    isolation_level: int = 0,
    **more: int,
) -> ListOffsetsRequest:
    """Ask for one time in some partitions."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=time, **more) for index in indexes]
    topic = ListOffsetsTopic(name=name, partitions=partitions)
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])


def parts_of(response: Any) -> list[ListOffsetsPartitionResponse]:
    """All partitions of an answer."""
    return [partition for topic in response.topics for partition in topic.partitions]


async def ask(
    client: Client, version: int, time: int, current_leader_epoch: int = -1
) -> ListOffsetsPartitionResponse:
    """The answer for partition 0."""
    asked = request(time, current_leader_epoch=current_leader_epoch)
    (part,) = parts_of(await client.ask(LIST_OFFSETS, version, asked))
    assert part.partition_index == 0
    return part


async def filled(broker: Broker) -> Topic:
    """Records 0 to 5 with times 10, 30, 20, 40, 40, 5 after BASE, in three batches of epochs 0, 0 and 3."""
    topic = await new_topic(broker)
    for epoch, times in ((0, (10, 30)), (0, (20, 40)), (3, (40, 5))):
        log = topic.partitions[0].log
        log.leader_epoch = epoch
        log.append_nowait(make_batch([b"v"] * 2, timestamps=[BASE + time for time in times]))
    return topic


Answer = tuple[int, int, int]
NOTHING: Answer = (-1, -1, -1)

TIMES: dict[str, tuple[int, int, Answer]] = {
    "earliest": (EARLIEST_TIMESTAMP, 1, (-1, 0, 0)),
    "latest": (LATEST_TIMESTAMP, 1, (-1, 6, 3)),
    "largest": (MAX_TIMESTAMP, 7, (BASE + 40, 3, 0)),
    "earliest here": (EARLIEST_LOCAL_TIMESTAMP, 8, (-1, 0, 0)),
    "latest elsewhere": (LATEST_TIERED_TIMESTAMP, 9, NOTHING),
    "earliest to go elsewhere": (EARLIEST_PENDING_UPLOAD_TIMESTAMP, 11, NOTHING),
    "time 0": (0, 1, (BASE + 10, 0, 0)),
    "the first record's": (BASE + 10, 1, (BASE + 10, 0, 0)),
    "between": (BASE + 11, 1, (BASE + 30, 1, 0)),
    "in another batch": (BASE + 31, 1, (BASE + 40, 3, 0)),
    "the last": (BASE + 40, 1, (BASE + 40, 3, 0)),
    "after all": (BASE + 41, 1, NOTHING),
    "the end of time": (2**63 - 1, 1, NOTHING),
}


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 1))
@pytest.mark.parametrize(("time", "since", "expected"), TIMES.values(), ids=TIMES)
async def test_list_offsets_by_timestamp(
    client: Client, broker: Broker, version: int, time: int, since: int, expected: Answer
) -> None:
    await filled(broker)
    part = await ask(client, version, time)
    if version < since:
        assert (part.error_code, part.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        return
    timestamp, offset, epoch = expected
    assert (part.error_code, part.timestamp, part.offset) == (0, timestamp, offset)
    assert part.leader_epoch == (epoch if version >= EPOCHS_SINCE else -1)


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 1))
async def test_list_offsets_of_an_empty_partition(client: Client, broker: Broker, version: int) -> None:
    await new_topic(broker)
    answers = [
        (part.error_code, part.timestamp, part.offset)
        for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, 0, BASE)
        for part in [await ask(client, version, time)]
    ]
    assert answers == [(0, -1, 0), (0, -1, 0), (0, -1, -1), (0, -1, -1)]
    if version >= 7:
        assert (await ask(client, version, MAX_TIMESTAMP)).offset == -1


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 1))
@pytest.mark.parametrize("time", [-7, -100, -(2**63)])
async def test_list_offsets_refuses_unknown_special_timestamps(
    client: Client, broker: Broker, version: int, time: int
) -> None:
    await filled(broker)
    assert (await ask(client, version, time)).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 2))
async def test_list_offsets_by_time_shows_committed_readers_nothing_above_the_last_stable_offset(
    client: Client, broker: Broker, version: int
) -> None:
    (partition,) = (await filled(broker)).partitions
    undecided = make_batch(
        timestamps=BASE + 50, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.log.append_nowait(undecided, in_transaction=True)
    partition.log.append_nowait(make_batch(timestamps=BASE + 60))

    async def found(isolation_level: int) -> list[int]:
        times = [BASE + 40, BASE + 41, BASE + 60, *([MAX_TIMESTAMP] if version >= 7 else [])]
        asked = [request(time, isolation_level=isolation_level) for time in times]
        return [parts_of(await client.ask(LIST_OFFSETS, version, each))[0].offset for each in asked]

    assert await found(0) == [3, 6, 7, 7][: 4 if version >= 7 else 3]
    assert await found(1) == [3, -1, -1, -1][: 4 if version >= 7 else 3]


async def test_list_offsets_returns_the_log_start_offset_as_earliest(client: Client, broker: Broker) -> None:
    topic = await filled(broker)
    topic.partitions[0].log.raise_log_start(5)
    part = await ask(client, 11, EARLIEST_TIMESTAMP)
    assert (part.offset, part.leader_epoch) == (5, 3)


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
async def test_list_offsets_of_unknown_partitions(client: Client, broker: Broker, version: int) -> None:
    await new_topic(broker)
    for name, index in (("nope", 0), ("flights", 1), ("flights", -1)):
        (part,) = parts_of(await client.ask(LIST_OFFSETS, version, request(-1, name=name, indexes=(index,))))
        assert (part.partition_index, part.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_list_offsets_in_version_0_returns_a_duplicate_partition_once(
    client: Client, broker: Broker
) -> None:
    await new_topic(broker, partitions=2)
    parts = parts_of(await client.ask(LIST_OFFSETS, 0, request(-1, indexes=(0, 1, 0), max_num_offsets=9)))
    assert [(part.partition_index, part.old_style_offsets) for part in parts] == [(0, [0]), (1, [0])]


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 1))
async def test_list_offsets_refuses_a_duplicate_partition(
    client: Client, broker: Broker, version: int
) -> None:
    await new_topic(broker, partitions=2)
    parts = parts_of(await client.ask(LIST_OFFSETS, version, request(-1, indexes=(0, 1, 0))))
    codes = {part.partition_index: part.error_code for part in parts}
    assert (len(parts), codes) == (2, {0: ErrorCode.INVALID_REQUEST, 1: 0})


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, EPOCHS_SINCE))
async def test_list_offsets_checks_the_leader_epoch(client: Client, broker: Broker, version: int) -> None:
    await filled(broker)
    codes = [
        (await ask(client, version, LATEST_TIMESTAMP, current_leader_epoch=epoch)).error_code
        for epoch in (-1, 2, 3, 4)
    ]
    assert codes == [0, ErrorCode.FENCED_LEADER_EPOCH, 0, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS, 2))
async def test_list_offsets_with_an_unknown_isolation_level(
    client: Client, broker: Broker, version: int
) -> None:
    await new_topic(broker)
    with pytest.raises(ProtocolViolation, match="isolation level 2 "):
        await client.ask(LIST_OFFSETS, version, request(-1, isolation_level=2))


@pytest.mark.parametrize(
    ("time", "most", "expected"),
    [
        (LATEST_TIMESTAMP, 10, [4, 3, 2, 1, 0]),
        (LATEST_TIMESTAMP, 1, [4]),
        (LATEST_TIMESTAMP, 3, [4, 3, 2]),
        (LATEST_TIMESTAMP, 0, []),
        (LATEST_TIMESTAMP, -1, []),
        (EARLIEST_TIMESTAMP, 10, [0]),
        (EARLIEST_TIMESTAMP, 0, []),
        (150, 10, [1, 0]),
        (150, 1, [1]),
        (-150, 10, []),
        (400, 10, [4, 3, 2, 1, 0]),
        (399, 10, [3, 2, 1, 0]),
    ],
)
async def test_list_offsets_in_version_0_returns_segment_offsets(
    client: Client, broker: Broker, clock: FakeClock, time: int, most: int, expected: list[int]
) -> None:
    topic = await new_topic(broker, config={"segment.bytes": str(2**20), "max.message.bytes": str(2**20)})
    start = clock.now_ms
    for _ in range(4):
        topic.partitions[0].log.append_nowait(make_batch([b"x" * 800_000]))
        clock.advance(100)
    if time not in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        time += start
    (part,) = parts_of(await client.ask(LIST_OFFSETS, 0, request(time, max_num_offsets=most)))
    assert (part.error_code, part.old_style_offsets) == (0, expected)


@pytest.mark.parametrize(
    ("time", "most", "expected"),
    [
        # What Apache Kafka 3.9.1 returned of such a log, whose times are those of the appends.
        (150, 10, [2, 2]),
        (250, 10, [2, 2, 2]),
        (350, 10, [3, 2, 2, 2]),
        (10_000, 10, [4, 3, 2, 2, 2]),
        (10_000, 3, [4, 3, 2]),
        (50, 10, [2]),
        (LATEST_TIMESTAMP, 10, [4, 3, 2, 2, 2]),
        (EARLIEST_TIMESTAMP, 10, [2]),
        # A segment that was last changed at that very moment counts.
        (100, 10, [2, 2]),
    ],
)
def test_segment_offsets_before_have_no_offset_below_the_log_start(
    time: int, most: int, expected: list[int]
) -> None:
    partition, clock = of_four_segments()
    partition.raise_log_start(2)
    time += 0 if time in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP) else BASE
    assert segment_offsets_before(partition, time, most, clock.now_ms) == expected


def test_segment_offsets_before_count_all_below_the_newest_match() -> None:
    """A replaced segment is newer than those that follow it."""
    partition, clock = of_four_segments()
    times = [BASE + 9_000, BASE + 100, BASE + 9_000, BASE + 300]
    views = [
        view._replace(last_modified_ms=time) for view, time in zip(segments_of(partition), times, strict=True)
    ]
    partition.store.segments = lambda: views  # type: ignore[method-assign]
    assert segment_offsets_before(partition, BASE + 150, 10, clock.now_ms) == [1, 0]
    assert segment_offsets_before(partition, BASE + 350, 10, clock.now_ms) == [3, 2, 1, 0]
    assert segment_offsets_before(partition, BASE + 50, 10, clock.now_ms) == []


def test_segment_offsets_before_an_empty_last_segment_have_no_log_end_of_now() -> None:
    partition, clock = of_four_segments()
    views = segments_of(partition)
    views[-1] = views[-1]._replace(size_bytes=0, last_modified_ms=BASE + 300)
    partition.store.segments = lambda: views  # type: ignore[method-assign]
    assert segment_offsets_before(partition, LATEST_TIMESTAMP, 10, clock.now_ms) == [3, 2, 1, 0]


@pytest.mark.parametrize(("replica_id", "expected"), [(-1, [2, 2, 1, 0]), (-2, [4, 3, 2, 1, 0])])
async def test_list_offsets_in_version_0_shows_consumers_nothing_above_the_high_watermark(
    client: Client, broker: Broker, replica_id: int, expected: list[int]
) -> None:
    topic = await new_topic(broker, config={"segment.bytes": str(2**20), "max.message.bytes": str(2**20)})
    for _ in range(4):
        topic.partitions[0].log.append_nowait(make_batch([b"x" * 800_000]))
    topic.partitions[0].log.watermarks.high_watermark = 2
    asked = request(LATEST_TIMESTAMP, max_num_offsets=10)
    asked.replica_id = replica_id
    (part,) = parts_of(await client.ask(LIST_OFFSETS, 0, asked))
    assert part.old_style_offsets == expected


async def test_list_offsets_in_version_0_refuses_other_special_timestamps(
    client: Client, broker: Broker
) -> None:
    await new_topic(broker)
    (part,) = parts_of(await client.ask(LIST_OFFSETS, 0, request(MAX_TIMESTAMP, max_num_offsets=10)))
    assert (part.error_code, part.old_style_offsets) == (ErrorCode.UNSUPPORTED_VERSION, [])


def of_four_segments() -> tuple[UnifiedLog, FakeClock]:
    """A record in each of four segments, last changed 0, 100, 200 and 300 ms after BASE; and the clock."""
    clock = FakeClock(BASE)
    partition = open_partition(config=TopicConfig({"segment.bytes": 300}), clock=clock)
    for _ in range(4):
        partition.append_nowait(make_batch([b"x" * 200], timestamps=BASE))
        clock.advance(100)
    return partition, clock


def segments_of(partition: UnifiedLog) -> list[SegmentView]:
    return list(partition.store.segments())


async def test_list_offsets_in_version_0_of_an_empty_partition(client: Client, broker: Broker) -> None:
    await new_topic(broker)
    for time in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        (part,) = parts_of(await client.ask(LIST_OFFSETS, 0, request(time, max_num_offsets=10)))
        assert part.old_style_offsets == [0]


async def test_list_offsets_returns_an_error_for_unreadable_batches(client: Client, broker: Broker) -> None:
    """A log of another broker may have what no one can decode; its header and its CRC are right."""
    topic = await new_topic(broker)
    header = parse_header(make_batch([b"v"] * 2, timestamps=BASE))
    unreadable = pack_batch(header._replace(attributes=4), b"not zstd at all")
    topic.partitions[0].log.append_nowait(unreadable, origin=AppendOrigin.COORDINATOR)
    part = await ask(client, 5, BASE)
    assert (part.error_code, part.timestamp, part.offset) == (0, BASE, 0)


@pytest.mark.parametrize("time", [BASE, MAX_TIMESTAMP])
async def test_list_offsets_returns_kafka_storage_error_when_the_disk_fails(
    client: Client, broker: Broker, time: int
) -> None:
    topic = await filled(broker)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    store = topic.partitions[0].log.store
    store.batch_at_timestamp = fail  # type: ignore[method-assign, assignment]
    store.batch_of_max_timestamp = fail  # type: ignore[method-assign]
    assert (await ask(client, 7, time)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
