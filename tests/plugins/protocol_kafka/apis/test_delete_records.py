"""DeleteRecords: what lies below an offset is gone, and nothing else."""

from __future__ import annotations

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import DELETE_RECORDS
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of
from .topics import fill, new_topic


async def delete(
    client: Client, version: int, name: str, *below: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """(partition, where it begins, code) of each (partition, offset)."""
    asked = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in below]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=asked)], timeout_ms=1000)
    (topic,) = (await client.ask(DELETE_RECORDS, version, request)).topics
    assert topic.name == name
    return [(found.partition_index, found.low_watermark, found.error_code) for found in topic.partitions]


@pytest.mark.parametrize("version", versions_of(DELETE_RECORDS))
async def test_delete_records_raises_the_log_start_offset_in_every_version(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker, partitions=3)
    for index in range(3):
        fill(topic, index, [2, 2, 2])
    found = await delete(client, version, "flights", (0, 3), (1, HIGH_WATERMARK), (2, 0))
    assert found == [(0, 3, 0), (1, 6, 0), (2, 0, 0)]
    assert [partition.log.log_start_offset for partition in topic.partitions] == [3, 6, 0]
    with pytest.raises(OffsetOutOfRange):
        topic.partitions[0].log.read(2, 1000, Isolation.READ_UNCOMMITTED)
    assert await delete(client, version, "flights", (0, 1)) == [(0, 3, 0)]


@pytest.mark.parametrize(
    ("partition", "offset", "code"),
    [
        (0, 7, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_delete_records_of_unknown_partitions_and_offsets_out_of_range(
    client: Client, broker: Broker, partition: int, offset: int, code: ErrorCode
) -> None:
    topic = await new_topic(broker)
    fill(topic, 0, [6])
    assert await delete(client, 2, "flights", (partition, offset)) == [(partition, -1, code)]
    assert topic.partitions[0].log.log_start_offset == 0


async def test_delete_records_of_unknown_and_internal_topics(client: Client, broker: Broker) -> None:
    await new_topic(broker, "__consumer_offsets")
    assert await delete(client, 2, "nope", (0, 0)) == [(0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    found = await delete(client, 2, "__consumer_offsets", (0, 0))
    assert found == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]


@pytest.mark.parametrize(
    ("policy", "code"),
    [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", ErrorCode.NONE), ("delete", ErrorCode.NONE)],
)
async def test_delete_records_of_a_topic_that_is_only_compacted_is_refused_as_in_kafka(
    client: Client, broker: Broker, policy: str, code: ErrorCode
) -> None:
    topic = await new_topic(broker, config={"cleanup.policy": policy})
    topic.partitions[0].log.append_nowait(make_batch([b"value"] * 3, keys=[b"a", b"b", b"c"]))
    ((_, begin, found),) = await delete(client, 2, "flights", (0, 2))
    assert found == code
    assert begin == (-1 if code else 2)
    assert topic.partitions[0].log.log_start_offset == (0 if code else 2)
    # A partition that does not exist comes first.
    assert (await delete(client, 2, "flights", (1, 0)))[0][2] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
