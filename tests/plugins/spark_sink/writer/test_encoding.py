"""Columns as record batches: what the kernel's decoder reads is what was encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.records import parse_header, verify_crc
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.client.batches import EncodedBatch, NewRecord, codec_of, encode_batch
from tidelog.plugins.spark_sink.writer.encoding import RecordColumns, encode_batches

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS = st.builds(
    NewRecord,
    value=st.none() | st.binary(max_size=150),
    key=st.none() | st.binary(max_size=70),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3),
    timestamp=st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_000_500),
)


def columns(records: Sequence[NewRecord], *, with_headers: bool = True) -> RecordColumns:
    headers = [[{"key": key, "value": value} for key, value in each.headers] for each in records]
    return RecordColumns(
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
        pa.array(headers, HEADERS) if with_headers else None,
        np.array([each.timestamp for each in records], np.int64),
    )


def decoded(batch: EncodedBatch) -> list[Record]:
    data = batch.stamped()
    header = parse_header(data)
    assert verify_crc(data, header)
    return list(iter_records(data, header))


def expected(records: Sequence[NewRecord]) -> list[Record]:
    return [
        Record(index, each.timestamp or 0, each.key, each.value, tuple(each.headers))
        for index, each in enumerate(records)
    ]


def starts_of(cuts: Sequence[int], count: int) -> list[int]:
    return sorted({0, *(cut % count for cut in cuts)})


@given(
    records=st.lists(RECORDS, min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 100), max_size=4),
    compression=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    first=st.integers(0, 2),
)
def test_encode_batches_round_trips_records(
    records: list[NewRecord], cuts: list[int], compression: str, first: int
) -> None:
    before = [NewRecord(b"before", b"k", [("h", None)], 5)] * first
    whole = columns([*before, *records]).slice(first, first + len(records))
    starts = starts_of(cuts, len(records))
    encoded = list(encode_batches(whole, starts, codec_of(compression)))
    for batch, start, after in zip(encoded, starts, [*starts[1:], len(records)], strict=True):
        part = records[start:after]
        found = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in decoded(batch)]
        assert found == expected(part)
        assert batch.max_timestamp == max(each.timestamp or 0 for each in part)


@given(records=st.lists(RECORDS, min_size=1, max_size=10))
def test_encode_batches_writes_the_bytes_that_the_encoder_of_single_records_writes(
    records: list[NewRecord],
) -> None:
    (batch,) = encode_batches(columns(records), [0], 0)
    assert batch.stamped() == encode_batch(records, now_ms=0).stamped()


@given(records=st.lists(RECORDS, min_size=1, max_size=10))
def test_most_sizes_are_bounds_of_the_sizes_of_records(records: list[NewRecord]) -> None:
    whole = columns(records)
    for index, most in enumerate(whole.most_sizes().tolist()):
        (batch,) = encode_batches(whole.slice(index, index + 1), [0], 0)
        assert most - 100 <= len(batch.records) <= most


def test_encode_batches_without_headers_and_values() -> None:
    records = [NewRecord(None, None, (), 7)] * 3
    (batch,) = encode_batches(columns(records, with_headers=False), [0], 0)
    assert [(each.key, each.value, each.timestamp) for each in decoded(batch)] == [(None, None, 7)] * 3


def test_take_returns_the_rows_in_another_order() -> None:
    records = [NewRecord(b"%d" % index, b"k", [("h", b"%d" % index)], index) for index in range(4)]
    taken = columns(records).take(np.array([2, 0]))
    (batch,) = encode_batches(taken, [0], 0)
    assert [(each.value, list(each.headers)) for each in decoded(batch)] == [
        (b"2", [("h", b"2")]),
        (b"0", [("h", b"0")]),
    ]


@for_each("size", [63, 64, 8191, 8192, 1_048_575, 1_048_576])
def test_encode_batches_at_the_edges_of_varints(size: int) -> None:
    records = [NewRecord(bytes(size), bytes(size), [("h" * (size % 10_000), bytes(size))], 2**40)]
    (batch,) = encode_batches(columns(records), [0], 0)
    assert decoded(batch)[0].value == bytes(size)


def test_most_sizes_count_keys_values_headers_and_the_longest_varints() -> None:
    records = [
        NewRecord(b"12345", b"123", [("ab", b"1"), ("c", None)], 1),
        NewRecord(None, None, [], 2),
        NewRecord(b"1", None, [("abc", b"1234")], 3),
    ]
    expected = [36 + 8 + (10 + 3) + (10 + 1), 36, 36 + 1 + 10 + 7]
    assert columns(records).most_sizes().tolist() == expected
    assert columns(records).slice(1, 3).most_sizes().tolist() == expected[1:]
    assert columns(records, with_headers=False).most_sizes().tolist() == [44, 36, 37]
    assert columns(records).data_bytes == 9
