"""Rows as Spark hands them over, and what has become of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tests.deadlines import wait_until
from tidelog.plugins.client import BlockingClient, FetchLimits, NewTopic, TopicPartition, or_raise
from tidelog.plugins.spark_sink.writer.options import WriterOptions, parse_writer_options

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
    "timestamp": pa.timestamp("us", tz="UTC"),
}
COMMITTED = FetchLimits(read_committed=True)


def options(bootstrap: str, *, streaming: bool = False, **given: str) -> WriterOptions:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return parse_writer_options({"kafka.bootstrap.servers": bootstrap, **named}, streaming=streaming)


def rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Columns as Spark passes them."""
    arrays = [pa.array(values, TYPES[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def values_of(*blocks: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Blocks of rows with values only."""
    return iter([rows(value=[value.encode() for value in block]) for block in blocks])


def create(client: BlockingClient, name: str, partitions: int, **configs: str) -> list[TopicPartition]:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    or_raise(client.create_topics([NewTopic(name, partitions, config=named)]))
    parts = [TopicPartition(name, index) for index in range(partitions)]
    or_raise(client.list_offsets(parts))
    return parts


def committed(client: BlockingClient, parts: Sequence[TopicPartition]) -> list[str]:
    """The values of committed records, sorted, once no transaction is open."""

    def is_settled() -> bool:
        ends = [client.list_offsets(parts, read_committed=stable) for stable in (False, True)]
        return or_raise(ends[0]) == or_raise(ends[1])

    wait_until(is_settled, "the end of all transactions")
    found = [r.value.decode() for part in parts for r in client.read(part, 0, None, COMMITTED) if r.value]
    return sorted(found)
