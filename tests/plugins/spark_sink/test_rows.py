"""Rows of record batches: what they say is what the decoder of single records says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.made_batches import Written, batches, framed, of_body
from tidelog.kernel.records import parse_header, stamp_offset
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT, pack_batch
from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client import NewRecord
from tidelog.plugins.client.batches import build_batch
from tidelog.plugins.client.errors import CorruptRecords
from tidelog.plugins.spark_sink import rows
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.rows import ROWS_BYTES, FetchedBatch, rows_of

PARTITION = TopicPartition("tides", 7)
ALL = OffsetRange(PARTITION, 0, 2**63 - 1)
LAST_US = (2**63 - 1) // 1000 * 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fetched(parts: Sequence[bytes | bytearray]) -> Iterator[FetchedBatch]:
    """The batches as the client has them."""
    for part in parts:
        yield parse_header(part), memoryview(part)


def micros(timestamp_ms: int) -> int:
    """A timestamp in microseconds, as far as 64 bits can hold it."""
    return min(max(timestamp_ms * 1000, -LAST_US), LAST_US)


def table_of(parts: Sequence[bytes | bytearray], wanted: OffsetRange = ALL, **options: bool) -> pa.Table:
    """All rows in one table."""
    schema = rows.SCHEMA_WITH_HEADERS if options.get("include_headers") else rows.SCHEMA
    table = pa.Table.from_batches(list(rows_of(fetched(parts), wanted, **options)), schema)
    table.validate(full=True)
    return table


def expected_row(record: Record, append_time: bool) -> dict[str, Any]:
    """The row of a record, its timestamp as a number."""
    headers = [{"key": key, "value": value} for key, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": PARTITION.topic,
        "partition": PARTITION.partition,
        "offset": record.offset,
        "timestamp": micros(record.timestamp),
        "timestampType": int(append_time),
        "headers": headers or None,
    }


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """The rows, timestamps as numbers: Python's own end with the year 9999."""
    place = table.schema.get_field_index("timestamp")
    found: list[dict[str, Any]] = table.set_column(
        place, "timestamp", table["timestamp"].cast(pa.int64())
    ).to_pylist()
    return found


@given(
    st.lists(batches(), max_size=4),
    st.integers(0, 80) | st.integers(2**40, 2**40 + 80),
    st.integers(0, 80) | st.integers(2**40, 2**40 + 80) | st.just(2**63 - 1),
    st.sampled_from([1, 50, 10_000]),
)
def test_rows_of_has_each_record_of_the_range(
    written: list[Written], start: int, stop: int, rows_bytes: int
) -> None:
    expected = [
        expected_row(record, parse_header(each.batch).is_append_time)
        for each in written
        for record in each.records
        if start <= record.offset < stop
    ]
    wanted = OffsetRange(PARTITION, start, stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "ROWS_BYTES", rows_bytes)
        table = table_of([each.batch for each in written], wanted, include_headers=True)
        without = table_of([each.batch for each in written], wanted)
    assert plain(table) == expected
    assert without.equals(table.drop_columns(["headers"]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_of_yields_pieces_of_a_bounded_size(codec: str) -> None:
    """However many batches there are, and however large they become."""
    value = b"v" * 1000
    large = build_batch([NewRecord(value)] * 5000, now_ms=0, compression=codec)
    small = [build_batch([NewRecord(value)] * 10, now_ms=0, compression=codec) for _ in range(300)]
    for offset, batch in enumerate([large, *small]):
        stamp_offset(batch, offset * 5000, 0)
    pieces = list(rows_of(fetched([large, *small]), ALL))
    assert sum(piece.num_rows for piece in pieces) == 8000
    assert all(value_bytes(piece) <= 2 * ROWS_BYTES for piece in pieces)
    assert len(pieces) <= 12, "but not in many small ones"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_of_yields_equal_pieces_of_batches_that_are_alike(codec: str) -> None:
    """However well they are compressed."""
    random = Random(1)
    values = [random.randbytes(300).hex().encode() for _ in range(150)]
    batch = build_batch([NewRecord(value) for value in values], now_ms=0, compression=codec)
    many = [bytes(stamped(batch, offset * len(values))) for offset in range(120)]
    pieces = [value_bytes(piece) for piece in rows_of(fetched(many), ALL)]
    assert sum(pieces) == sum(map(len, values)) * len(many)
    assert all(0.8 * ROWS_BYTES <= each <= 1.1 * ROWS_BYTES for each in pieces[2:-1])
    assert len(pieces) >= 9


def test_rows_of_yields_pieces_of_a_bounded_size_where_batches_are_not_alike() -> None:
    """Zeros, of which thousands would be one piece if they were compressed, and bytes that are not."""
    zeros = [NewRecord(bytes(1000))] * 100
    noise = [NewRecord(Random(each).randbytes(1000)) for each in range(100)]
    kinds = [zeros] * 40 + [noise] * 40 + [zeros] * 3 + [noise, zeros] * 20
    many = [
        bytes(stamped(build_batch(records, now_ms=0, compression="zstd"), offset * 100))
        for offset, records in enumerate(kinds)
    ]
    pieces = list(rows_of(fetched(many), ALL))
    assert pa.concat_arrays([each.column("offset") for each in pieces]).to_pylist() == list(
        range(100 * len(kinds))
    )
    assert all(value_bytes(each) <= 2 * ROWS_BYTES for each in pieces)


def stamped(batch: bytearray, offset: int) -> bytearray:
    """A copy of the batch at that offset."""
    copied = bytearray(batch)
    stamp_offset(copied, offset, 0)
    return copied


def value_bytes(piece: pa.RecordBatch) -> int:
    """Bytes of all values."""
    return sum(len(value) for value in piece.column("value").to_pylist())


def test_rows_of_holds_no_more_batches_than_it_needs() -> None:
    taken = 0

    def source() -> Iterator[FetchedBatch]:
        nonlocal taken
        batch = build_batch([NewRecord(bytes(ROWS_BYTES // 2))], now_ms=0)
        for taken in range(1, 100):
            stamp_offset(batch, taken, 0)
            yield from fetched([batch])

    next(rows_of(source(), ALL))
    assert taken <= 3


def test_rows_of_has_the_time_of_the_log_append() -> None:
    batch = build_batch([NewRecord(b"v", timestamp=1)], now_ms=0)
    header = parse_header(batch)._replace(attributes=TIMESTAMP_TYPE_BIT, max_timestamp=1_700_000_000_123)
    (row,) = table_of([pack_batch(header, batch[61:])]).to_pylist()
    assert row["timestampType"] == 1
    assert row["timestamp"] == EPOCH + timedelta(milliseconds=1_700_000_000_123)


def test_rows_of_replaces_header_keys_that_are_no_text() -> None:
    body = b"\x00\x00\x00\x01\x01" + b"\x02" + b"\x04\xffk" + b"\x02v"
    (row,) = table_of([of_body(framed(body))], include_headers=True).to_pylist()
    assert row["headers"] == [{"key": "\N{REPLACEMENT CHARACTER}k", "value": b"v"}]


@pytest.mark.parametrize("include_headers", [True, False])
def test_rows_of_names_the_partition_and_offset_of_malformed_records(include_headers: bool) -> None:
    good = build_batch([NewRecord(b"v")], now_ms=0)
    bad = of_body(framed(b"\x00\x00\x00\x01\x01\x02" if include_headers else b"\x00"))
    with pytest.raises(CorruptRecords, match=r"tides-7.*offset 100"):
        list(rows_of(fetched([bad, good]), ALL, include_headers=include_headers))


def test_rows_of_refuses_an_unknown_codec() -> None:
    with pytest.raises(CorruptRecords, match="codec 7"):
        list(rows_of(fetched([of_body(b"", attributes=7)]), ALL))
