"""`append_message_set`: small sets at once, others in steps or in a thread, and as one batch in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
import trio.lowlevel

from tests.kernel.log.parts import open_partition
from tests.kernel.records.message_sets import GZIP, Row, by_kafka_python
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.config.keys import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
)
from tidelog.kernel.errors import InvalidRecord, InvalidTimestamp, MessageTooLarge, UnknownTopicOrPartition
from tidelog.kernel.log import UnifiedLog, record_checks
from tidelog.kernel.log.message_sets import QUICK_SET_BYTES
from tidelog.kernel.records.batch import parse_header, verify_crc
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.partition import AppendResult, Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.plugins.compression.keys import TOPIC_GZIP_LEVEL

T = TypeVar("T")
NOW = FakeClock().now_ms
SMALL: list[Row] = [(NOW, b"key", b"value")] * 3
LARGE: list[Row] = [(NOW + index % 9, None, b"value" * 10) for index in range(5000)]


def last_batch(partition: UnifiedLog) -> bytes:
    """The newest batch of the log."""
    offset = partition.log_end_offset - 1
    found = partition.read(offset, 1, Isolation.READ_UNCOMMITTED)
    return b"".join(map(region_bytes, found.regions))


async def appended(partition: UnifiedLog, messages: bytes) -> AppendResult:
    """The result of appending a set, however long that takes."""
    result = partition.append_message_set(bytearray(messages))
    return result if isinstance(result, AppendResult) else await result


def test_append_message_set_of_a_small_set_returns_at_once() -> None:
    partition = open_partition()
    partition.append_nowait(make_batch([b"value"] * 2))
    result = partition.append_message_set(bytearray(by_kafka_python(SMALL, 1)))
    assert isinstance(result, AppendResult)
    assert (result.base_offset, result.last_offset, result.log_append_time_ms) == (2, 4, -1)
    batch = last_batch(partition)
    header = parse_header(batch)
    assert (header.base_offset, header.record_count, header.producer_id) == (2, 3, -1)
    assert verify_crc(batch, header)


@pytest.mark.parametrize("codec", [0, GZIP])
async def test_append_message_set_of_a_large_or_compressed_set_is_awaitable(codec: int) -> None:
    partition = open_partition()
    messages = by_kafka_python(LARGE if not codec else SMALL, 1, codec)
    assert codec or len(messages) > QUICK_SET_BYTES
    result = partition.append_message_set(bytearray(messages))
    assert not isinstance(result, AppendResult)
    assert partition.log_end_offset == 0
    assert (await result).base_offset == 0
    assert parse_header(last_batch(partition)).codec == codec


async def test_append_message_set_of_a_large_set_does_not_block_other_appends() -> None:
    partition, other = open_partition(), open_partition()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(appended, partition, by_kafka_python(LARGE, 1, GZIP))
        while not partition.log_end_offset:
            other.append_nowait(make_batch())
            await trio.lowlevel.checkpoint()
    assert other.log_end_offset > 2
    assert partition.unpacking.checks.borrowed_tokens == 0


@pytest.mark.parametrize(
    ("level", "threads"), [(None, 0), (6, 0), (7, 1)], ids=["of the producer", "quick", "slow"]
)
async def test_append_message_set_converts_on_an_idle_event_loop_if_the_codec_packs_quickly(
    level: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "OTHERS_SECONDS", 60.0)  # whatever the machine does meanwhile
    config = TopicConfig({COMPRESSION_TYPE.name: "gzip", TOPIC_GZIP_LEVEL.name: level} if level else {})
    partition = open_partition(config=config)
    jobs: list[object] = []
    in_thread = partition.unpacking.check_in_thread

    async def noted_in_thread(job: Callable[[], T]) -> T:
        jobs.append(job)
        return await in_thread(job)

    monkeypatch.setattr(partition.unpacking, "check_in_thread", noted_in_thread)
    await appended(partition, by_kafka_python(LARGE, 1, GZIP))
    assert parse_header(last_batch(partition)).codec == GZIP
    assert len(jobs) == threads


async def test_append_message_set_follows_the_configuration_of_the_topic() -> None:
    partition = open_partition(
        config=TopicConfig({MESSAGE_TIMESTAMP_TYPE.name: "LogAppendTime", COMPRESSION_TYPE.name: "lz4"})
    )
    result = await appended(partition, by_kafka_python([(5, None, b"value")], 1))
    header = parse_header(last_batch(partition))
    assert (result.log_append_time_ms, header.max_timestamp, header.codec) == (NOW, NOW, 3)
    assert header.is_append_time
    partition = open_partition(config=TopicConfig({CLEANUP_POLICY.name: ("compact",)}))
    with pytest.raises(InvalidRecord, match="no key"):
        await appended(partition, by_kafka_python([(NOW, None, b"value")], 0, GZIP))
    partition = open_partition(config=TopicConfig({MAX_MESSAGE_BYTES.name: 4096}))
    with pytest.raises(MessageTooLarge):
        await appended(partition, by_kafka_python(LARGE, 0))
    partition = open_partition(config=TopicConfig({MESSAGE_TIMESTAMP_AFTER_MAX_MS.name: 10}))
    with pytest.raises(InvalidTimestamp):
        await appended(partition, by_kafka_python([(NOW + 11, None, b"value")], 1))
    await appended(partition, by_kafka_python([(NOW + 11, None, b"value")], 0))
    batch = last_batch(partition)
    assert [record.timestamp for record in iter_records(batch, parse_header(batch))] == [-1]


def test_append_message_set_is_refused_by_a_partition_that_is_gone() -> None:
    partition = open_partition()
    partition.take_offline()
    with pytest.raises(UnknownTopicOrPartition):
        partition.append_message_set(bytearray(by_kafka_python(SMALL, 1)))
