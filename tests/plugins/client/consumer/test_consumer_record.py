"""Records as objects are those that the kernel reads, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.client.consumer.batches import batch_of, new_records
from tests.tables import for_each
from tidelog.kernel.records.batch import parse_header, stamp_append_time
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord, build_batch
from tidelog.plugins.client.consumer.fetched_cursor import FetchedCursor
from tidelog.plugins.client.consumer.record_batch import RecordBatch
from tidelog.plugins.client.consumer.settings import ConsumerSettings, reset_duration_ms
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.client.fetched import Fetched

PLACE = TopicPartition("orders", 3)


def fields(record: Any) -> tuple[Any, ...]:
    timestamp = getattr(record, "timestamp_ms", None)
    timestamp = record.timestamp if timestamp is None else timestamp
    return (record.offset, timestamp, record.key, record.value, tuple(record.headers))


@given(
    st.lists(new_records, min_size=1, max_size=30),
    st.integers(0, 2**62),
    st.integers(0, 30),
    st.booleans(),
    st.sampled_from(["none", "zstd"]),
)
def test_records_of_a_batch_are_those_that_the_kernel_reads(
    records: list[NewRecord], base: int, skipped: int, is_append_time: bool, compression: str
) -> None:
    batch = batch_of(records, base, compression)
    if is_append_time:
        stamp_append_time(batch, parse_header(batch), 77)
    header = parse_header(batch)
    expected = [fields(each) for each in iter_records(batch, header) if each.offset >= base + skipped]
    view = RecordBatch(PLACE, header, memoryview(batch), base + skipped)
    found = view.records()
    assert [fields(each) for each in found] == expected
    assert {(each.topic, each.partition) for each in found} <= {("orders", 3)}


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.lists(st.integers(-1, 12), max_size=40),
    st.integers(0, 20),
)
def test_cursor_reads_each_record_once_whatever_is_called(
    sizes: list[int], calls: list[int], start: int
) -> None:
    data, base = bytearray(), 0
    for size in sizes:
        data += batch_of([NewRecord(b"%d" % (base + each)) for each in range(size)], base)
        base += size
    start = min(start, base - 1)
    fetched = Fetched(PLACE, start, base, base, 0, memoryview(data))
    cursor = FetchedCursor(fetched, ConsumerSettings())
    found: list[int] = []
    for call in calls:
        before = cursor.next_offset
        if call < 0:
            batch = cursor.read_batch()
            records = batch.records() if batch else []
        elif call > 9:
            # As when an iteration is left in the middle.
            records = cursor.read_records(call)
            if len(records) > 1:
                records = records[:-1]
                cursor.go_back_to(records[-1].offset + 1)
        else:
            records = cursor.read_records(max(1, call))
        assert not records or records[0].offset == before
        found += [int(record.value) for record in records]
        assert cursor.next_offset == start + len(found)
    while records := cursor.read_records(1000):
        found += [int(record.value) for record in records]
    assert found == list(range(start, base))
    assert (cursor.next_offset, cursor.read_batch()) == (base, None)


def test_cursor_stays_before_a_batch_that_cannot_be_read() -> None:
    whole = batch_of([NewRecord(b"0")])
    broken = batch_of([NewRecord(b"1")], 1)
    broken[-1] ^= 1
    fetched = Fetched(PLACE, 0, 2, 2, 0, memoryview(whole + broken))
    cursor = FetchedCursor(fetched, ConsumerSettings())
    assert [record.value for record in cursor.read_records(9)] == [b"0"]
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="CRC of the batch at offset 1"):
            cursor.read_records(9)
        with pytest.raises(CorruptRecords, match="CRC of the batch at offset 1"):
            cursor.read_batch()
    assert cursor.next_offset == 1
    unchecked = FetchedCursor(fetched, ConsumerSettings(check_crcs=False))
    assert unchecked.read_batch() is not None
    assert unchecked.read_batch() is not None


def test_a_batch_with_an_offset_beyond_it_is_corrupt() -> None:
    batch = build_batch([NewRecord(b"a"), NewRecord(b"b")], now_ms=0)
    header = parse_header(batch)._replace(last_offset_delta=0)
    with pytest.raises(CorruptRecords, match="offset of a record is none of its batch"):
        RecordBatch(PLACE, header, memoryview(batch), 0).records()


@for_each(
    ("text", "expected"),
    [("P1D", 86_400_000), ("PT1H2M", 3_720_000), ("PT0.5S", 500), ("P2DT3S", 172_803_000)],
)
def test_reset_by_duration(text: str, expected: int) -> None:
    assert reset_duration_ms(f"by_duration:{text}") == expected


@for_each("text", ["sometimes", "by_duration:", "by_duration:P", "by_duration:1H", "by_duration:PT-1H"])
def test_reset_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="auto_offset_reset"):
        ConsumerSettings(auto_offset_reset=text)
