"""Rows of Arrow tables are the records that the kernel reads, whatever is in them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.client.consumer.batches import batch_of, new_records
from tidelog.kernel.records.batch import parse_header, stamp_append_time
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord
from tidelog.plugins.client.consumer.record_batch import RecordBatch
from tidelog.plugins.client.errors import CorruptRecords

pytest.importorskip("pyarrow")
arrow_tables = pytest.importorskip("tidelog.plugins.client.consumer.arrow_tables")

batches = st.tuples(
    st.sampled_from([TopicPartition("orders", 3), TopicPartition("orders", 0), TopicPartition("menu", 0)]),
    st.lists(new_records, min_size=1, max_size=20),
    st.integers(0, 2**62),
    st.integers(0, 22),
    st.booleans(),
    st.sampled_from(["none", "zstd"]),
)


def rows_of(batch: RecordBatch) -> list[tuple[Any, ...]]:
    return [
        (*batch.partition, each.offset, each.timestamp, each.key, each.value, [*each.headers])
        for each in iter_records(batch.data, batch.header)
        if each.offset >= batch.first_offset
    ]


def rows_in(table: Any) -> list[tuple[Any, ...]]:
    arrow = pytest.importorskip("pyarrow")
    numbers = table.set_column(3, "timestamp", table["timestamp"].cast(arrow.int64()))
    return [
        (*row[:6], [(each["name"], each["value"]) for each in row[6]])
        for row in zip(*numbers.to_pydict().values(), strict=True)
    ]


@given(st.lists(batches, max_size=5), st.sampled_from([1, 200, 1024**3]))
def test_rows_are_the_records_that_the_kernel_reads(found: list[Any], chunk_bytes: int) -> None:
    views: list[RecordBatch] = []
    for place, records, base, skipped, is_append_time, compression in found:
        data = batch_of(records, base, compression)
        if is_append_time:
            stamp_append_time(data, parse_header(data), 77)
        views.append(RecordBatch(place, parse_header(data), memoryview(data), base + skipped))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_tables, "_CHUNK_BYTES", chunk_bytes)
        table = arrow_tables.table_of(views)
    table.validate(full=True)
    assert table.schema == arrow_tables.SCHEMA
    assert rows_in(table) == [row for view in views for row in rows_of(view)]


def test_an_offset_that_is_none_of_its_batch_is_named() -> None:
    good, bad = (batch_of([NewRecord(b"a"), NewRecord(b"b"), NewRecord(b"c")], base) for base in (0, 40))
    # The last offset delta, so that the last record is beyond it.
    struct.pack_into(">i", bad, 23, 1)
    views = [
        RecordBatch(TopicPartition("orders", 3), parse_header(each), memoryview(each), 0)
        for each in (good, bad)
    ]
    with pytest.raises(CorruptRecords, match=r"orders-3.* at offset 40"):
        arrow_tables.table_of(views)


def test_a_batch_with_fewer_records_than_it_says_takes_none_of_the_next_one() -> None:
    short, following = (batch_of([NewRecord(b"a")], base) for base in (0, 1))
    # Its count and its last offset delta are those of two records.
    struct.pack_into(">i", short, 57, 2)
    struct.pack_into(">i", short, 23, 1)
    views = [
        RecordBatch(TopicPartition("orders", 3), parse_header(each), memoryview(each), 0)
        for each in (short, following)
    ]
    with pytest.raises(CorruptRecords, match=r"orders-3.* at offset 0: a record is longer than the batch"):
        arrow_tables.table_of(views)
