"""One task's rows at real brokers: what is written, where to, and what is refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from tests.plugins.spark_sink.writer.written import create, options, rows
from tidelog.plugins.client import BlockingClient, TopicPartition
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.spark_sink.writer.producing import TaskProducer, gather
from tidelog.plugins.spark_sink.writer.rows import InvalidRow

NOW_MS = 1_700_000_000_000


@pytest.fixture
def client(real_broker: str) -> Iterator[BlockingClient]:
    with BlockingClient(real_broker) as client:
        yield client


def topic() -> str:
    return f"t-{uuid.uuid4()}"


def write(client: BlockingClient, bootstrap: str, batch: pa.RecordBatch, **given: str) -> TaskProducer:
    chosen = options(bootstrap, streaming=False, **given)
    writing = TaskProducer(client, chosen, client.init_producer() if chosen.idempotent else None)
    writing.write(batch, NOW_MS)
    return writing


def test_write_takes_all_columns_of_sparks_kafka_sink(client: BlockingClient, real_broker: str) -> None:
    first, second = create(client, topic(), 2)
    other = create(client, topic(), 1)[0]
    batch = rows(
        key=[b"k", None, b"k2"],
        value=[b"a", None, b"c"],
        topic=[first.topic, first.topic, other.topic],
        partition=[1, 0, None],
        headers=[[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []],
        timestamp=[datetime(2020, 1, 1, tzinfo=UTC), None, datetime(2020, 1, 2, 0, 0, 0, 1999, tzinfo=UTC)],
    )
    write(client, real_broker, batch)
    found = [(part, next(iter(client.read(part, 0)))) for part in (second, first, other)]
    assert [(r.key, r.value, list(r.headers), r.timestamp) for _, r in found] == [
        (b"k", b"a", [("h", b"x"), ("h", None)], 1_577_836_800_000),
        (None, None, [], NOW_MS),
        (b"k2", b"c", [], 1_577_923_200_001),
    ]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_write_sends_keys_to_the_partitions_of_the_default_partitioner(
    client: BlockingClient, real_broker: str, compression: str
) -> None:
    parts = create(client, topic(), 3)
    keys = [b"key %d" % index for index in range(300)]
    batch = rows(key=keys, value=keys)
    given = {"topic": parts[0].topic, "kafka__compression__type": compression, "kafka__batch__size": "1000"}
    written = write(client, real_broker, batch, **given).written
    assert (written.rows, written.data_bytes) == (300, 2 * sum(map(len, keys)))
    for part in parts:
        expected = [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 3 == part.partition]
        assert [record.key for record in client.read(part, 0)] == expected
        batches = [header for each in client.read_batches(part, 0) for header, _ in each]
        assert len(batches) > 3
        assert all(header.producer_id >= 0 for header in batches)


def test_write_spreads_rows_without_keys_over_the_partitions(
    client: BlockingClient, real_broker: str
) -> None:
    parts = create(client, topic(), 3)
    batch = rows(key=[b"same"] * 90, value=[bytes(100)] * 90)
    given = {
        "topic": parts[0].topic,
        "kafka__batch__size": "2000",
        "kafka__partitioner__ignore__keys": "true",
    }
    write(client, real_broker, batch, **given)
    counts = [len(list(client.read(part, 0))) for part in parts]
    assert sum(counts) == 90
    assert min(counts) > 10


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [b"v"], "partition": [9]}, "partition 9, and topic .* has 2"),
        ({"value": [b"v"], "partition": [-1]}, "partition -1: a partition is at least 0"),
        ({"value": [bytes(2000)]}, r"up to 20\d\d bytes, more than the option kafka.max.request.size"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b""}]]}, "a header of a row has no key"),
        ({"value": [b"v"], "headers": [[None]]}, "a header of a row has no key"),
        ({"value": [b"v"], "timestamp": [datetime(1969, 1, 1, tzinfo=UTC)]}, "none before 1970"),
    ],
)
def test_write_refuses_rows_that_no_record_can_have(
    client: BlockingClient, real_broker: str, columns: dict[str, list[Any]], message: str
) -> None:
    name = create(client, topic(), 2)[0].topic
    with pytest.raises(InvalidRow, match=message):
        write(client, real_broker, rows(**columns), topic=name, kafka__max__request__size="1000")


def test_write_refuses_a_row_without_a_topic(client: BlockingClient, real_broker: str) -> None:
    with pytest.raises(InvalidRow, match="its column topic is null"):
        write(client, real_broker, rows(value=[b"v"], topic=[None]))


def test_write_names_a_topic_that_cannot_exist(client: BlockingClient, real_broker: str) -> None:
    with pytest.raises(ErrorResponse, match="topic 'a/b': INVALID_TOPIC_EXCEPTION"):
        write(client, real_broker, rows(value=[b"v"]), topic="a/b")


def test_write_waits_for_a_topic_that_the_broker_creates(client: BlockingClient, real_broker: str) -> None:
    name = topic()
    write(client, real_broker, rows(value=[b"v"]), topic=name)
    assert [record.value for record in client.read(TopicPartition(name, 0), 0)] == [b"v"]


def test_write_waits_for_a_new_topic_for_max_block_ms(real_broker: str) -> None:
    chosen = options(real_broker, topic=topic(), kafka__max__block__ms="0")
    with (
        BlockingClient(real_broker, settings=chosen.client) as client,
        pytest.raises(ErrorResponse, match=r"not there after kafka\.max\.block\.ms"),
    ):
        TaskProducer(client, chosen, None).write(rows(value=[b"v"]), NOW_MS)


def test_write_with_acks_1_needs_no_producer_id(client: BlockingClient, real_broker: str) -> None:
    part: TopicPartition = create(client, topic(), 1)[0]
    write(client, real_broker, rows(value=[b"v"]), topic=part.topic, kafka__acks="1")
    ((header, _),) = next(client.read_batches(part, 0))
    assert header.producer_id == -1


def test_gather_joins_small_blocks_and_keeps_large_ones() -> None:
    blocks = [rows(value=[bytes(100)] * count) for count in (1, 2, 1, 50, 1)]
    assert [each.num_rows for each in gather(blocks, 300)] == [3, 51, 1]
    assert [each.num_rows for each in gather([blocks[0].slice(0, 0)] * 2)] == [0]
