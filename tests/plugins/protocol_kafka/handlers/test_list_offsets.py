"""ListOffsets: times and special times, each from the version that brought it."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.kernel.partition.parts import open_partition
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.records.batch import pack_batch, parse_header
from tidelog.kernel.seams.partition import AppendOrigin
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.handlers.list_offsets import segment_offsets_before
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
        topic.partitions[0].leader_epoch = epoch
        topic.partitions[0].append_nowait(make_batch([b"v"] * 2, timestamps=[BASE + time for time in times]))
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


async def test_list_offsets_returns_the_log_start_offset_as_earliest(client: Client, broker: Broker) -> None:
    topic = await filled(broker)
    topic.partitions[0].raise_log_start(5)
    part = await ask(client, 11, EARLIEST_TIMESTAMP)
    assert (part.offset, part.leader_epoch) == (5, 3)


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
async def test_list_offsets_of_unknown_partitions(client: Client, broker: Broker, version: int) -> None:
    await new_topic(broker)
    for name, index in (("nope", 0), ("flights", 1), ("flights", -1)):
        (part,) = parts_of(await client.ask(LIST_OFFSETS, version, request(-1, name=name, indexes=(index,))))
        assert (part.partition_index, part.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
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
    ],
)
async def test_list_offsets_in_version_0_returns_segment_offsets(
    client: Client, broker: Broker, clock: FakeClock, time: int, most: int, expected: list[int]
) -> None:
    topic = await new_topic(broker, config={"segment.bytes": str(2**20), "max.message.bytes": str(2**20)})
    start = clock.now_ms
    for _ in range(4):
        topic.partitions[0].append_nowait(make_batch([b"x" * 800_000]))
        clock.advance(100)
    if time not in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        time += start
    (part,) = parts_of(await client.ask(LIST_OFFSETS, 0, request(time, max_num_offsets=most)))
    assert (part.error_code, part.old_style_offsets) == (0, expected)


def test_segment_offsets_before() -> None:
    clock = FakeClock(BASE)
    partition = open_partition(config=TopicConfig({"segment.bytes": 300}), clock=clock)
    for _ in range(4):
        partition.append_nowait(make_batch([b"x" * 200], timestamps=BASE))
        clock.advance(100)
    assert segment_offsets_before(partition, BASE + 150, 10) == [1, 0]
    assert segment_offsets_before(partition, BASE + 1000, 10) == [3, 2, 1, 0]
    assert segment_offsets_before(partition, BASE + 1000, 2) == [3, 2]
    assert segment_offsets_before(partition, BASE - 1, 10) == []
    assert segment_offsets_before(partition, BASE + 1000, 0) == []
    # The first one was last changed at that very moment.
    assert segment_offsets_before(partition, BASE, 10) == [0]


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
    topic.partitions[0].append_nowait(unreadable, origin=AppendOrigin.COORDINATOR)
    part = await ask(client, 5, BASE)
    assert (part.error_code, part.timestamp, part.offset) == (0, BASE, 0)


@pytest.mark.parametrize("time", [BASE, MAX_TIMESTAMP])
async def test_list_offsets_returns_kafka_storage_error_when_the_disk_fails(
    client: Client, broker: Broker, time: int
) -> None:
    topic = await filled(broker)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    store = topic.partitions[0].store
    store.batch_at_timestamp = fail  # type: ignore[method-assign, assignment]
    store.batch_of_max_timestamp = fail  # type: ignore[method-assign]
    assert (await ask(client, 7, time)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
