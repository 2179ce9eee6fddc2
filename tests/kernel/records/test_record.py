"""Records inside a batch: there and back, as other implementations write and read them, and corrupt ones."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as OtherRecordBatch

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import (
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    pack_batch,
    parse_header,
    stamp_append_time,
    verify_crc,
)
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import Record, encode_record, iter_records, iter_timestamps
from tidelog.kernel.records.varint import write_varlong

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BASE_TIMESTAMP = 1_700_000_000_000
MAX_DELTA = 2**40

each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)

maybe_bytes = st.none() | st.binary(max_size=30)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3)
contents = st.tuples(st.integers(0, MAX_DELTA), maybe_bytes, maybe_bytes, header_lists)


def record_lists(base_offset: int = 0) -> st.SearchStrategy[list[Record]]:
    """Records with consecutive offsets, timestamps in any order."""

    def build(rows: Sequence[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> Any:
        return [
            Record(base_offset + index, BASE_TIMESTAMP + delta, key, value, tuple(headers))
            for index, (delta, key, value, headers) in enumerate(rows)
        ]

    return st.lists(contents, min_size=1, max_size=8).map(build)


def packed(
    records: Sequence[Record], base_offset: int = 0, base_timestamp: int = BASE_TIMESTAMP
) -> bytearray:
    """An uncompressed batch of these records."""
    body = bytearray()
    for record in records:
        encode_record(body, record, base_offset, base_timestamp)
    return pack_batch(a_header(len(records), base_offset, base_timestamp, records), body)


def a_header(
    count: int, base_offset: int = 0, base_timestamp: int = 0, records: Sequence[Record] = ()
) -> BatchHeader:
    """A header for `count` records."""
    newest = max((record.timestamp for record in records), default=base_timestamp)
    return BatchHeader(base_offset, 0, 0, 2, 0, 0, count - 1, base_timestamp, newest, -1, -1, -1, count)


def of_body(body: bytes, count: int = 1, attributes: int = 0) -> bytearray:
    """A batch whose records' bytes are `body`, whatever that is."""
    return pack_batch(a_header(count)._replace(attributes=attributes), body)


def all_records(batch: bytes | bytearray) -> list[Record]:
    """The batch's records."""
    return list(iter_records(batch, parse_header(batch)))


def of_aiokafka(records: Sequence[Record], codec: int) -> bytearray:
    """The batch that aiokafka builds from these records."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 2**30)
    for index, record in enumerate(records):
        added = builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
        assert added is not None
    return bytearray(builder.build())


@given(st.integers(0, 2**62).flatmap(lambda base: st.tuples(st.just(base), record_lists(base))))
def test_iter_records_reads_what_encode_record_wrote(case: tuple[int, list[Record]]) -> None:
    base_offset, records = case
    batch = packed(records, base_offset)
    header = parse_header(batch)
    assert list(iter_records(batch, header)) == records
    assert list(iter_timestamps(batch, header)) == [(record.offset, record.timestamp) for record in records]


@given(record_lists())
def test_encode_record_is_read_by_other_client_libraries(records: list[Record]) -> None:
    batch = bytes(packed(records))
    ours = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
    readers: list[Callable[[bytes], Any]] = [DefaultRecordBatch, OtherRecordBatch]
    for reader in readers:
        read = reader(batch)
        assert read.validate_crc()
        theirs = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in read]
        assert theirs == ours


@each_codec
@given(records=record_lists())
def test_iter_records_reads_batches_of_another_client_library(codec: int, records: list[Record]) -> None:
    batch = of_aiokafka(records, codec)
    header = parse_header(batch)
    assert verify_crc(batch, header)
    assert header.codec == codec
    assert header.record_count == len(records) == header.last_offset_delta + 1
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert all_records(batch) == records
    assert list(iter_timestamps(batch, header)) == [(record.offset, record.timestamp) for record in records]


@each_codec
def test_append_time_holds_for_every_record(codec: int) -> None:
    records = [Record(index, BASE_TIMESTAMP + index, None, b"v") for index in range(3)]
    batch = of_aiokafka(records, codec)
    stamp_append_time(batch, parse_header(batch), 4711)
    header = parse_header(batch)
    assert [record.timestamp for record in iter_records(batch, header)] == [4711] * 3
    assert list(iter_timestamps(batch, header)) == [(0, 4711), (1, 4711), (2, 4711)]
    assert [record.timestamp for record in DefaultRecordBatch(bytes(batch))] == [4711] * 3


def test_iter_records_keeps_offset_gaps_left_by_compaction() -> None:
    """The remaining records keep their offsets, so deltas have gaps and may begin above 0."""
    records = [Record(offset, BASE_TIMESTAMP, b"k", None) for offset in (102, 107)]
    body = bytearray()
    for record in records:
        encode_record(body, record, 100, BASE_TIMESTAMP)
    header = a_header(2, 100, BASE_TIMESTAMP)._replace(last_offset_delta=9)
    batch = pack_batch(header, body)
    assert all_records(batch) == records
    assert [offset for offset, _ in iter_timestamps(batch, parse_header(batch))] == [102, 107]


@each_codec
def test_iter_records_of_a_batch_emptied_by_compaction_is_empty(codec: int) -> None:
    header = a_header(10)._replace(record_count=0, attributes=0)
    batch = pack_batch(header, b"")
    assert all_records(batch) == []
    assert list(iter_timestamps(batch, parse_header(batch))) == []


def varints(*values: int) -> bytes:
    """These numbers as varints."""
    out = bytearray()
    for value in values:
        write_varlong(out, value)
    return bytes(out)


def a_record(body: bytes) -> bytes:
    """`body` with its length in front."""
    return varints(len(body)) + body


NULL_KEY_AND_VALUE = varints(-1, -1)
FIELDS = b"\0" + varints(0, 0)

CORRUPT: dict[str, bytes] = {
    "nothing at all": b"",
    "a length that does not end": b"\xff",
    "a negative length": varints(-1),
    "a length beyond the batch": varints(100) + FIELDS + NULL_KEY_AND_VALUE + varints(0),
    "a length of 2^62": varints(2**62) + FIELDS,
    "a record of no bytes": varints(0),
    "no timestamp": a_record(b"\0"),
    "no offset": a_record(b"\0\0"),
    "no key": a_record(FIELDS),
    "no value": a_record(FIELDS + varints(-1)),
    "no count of headers": a_record(FIELDS + NULL_KEY_AND_VALUE),
    "a key longer than the record": a_record(FIELDS + varints(50) + b"key" + varints(-1, 0)),
    "a key of 2^62 bytes": a_record(FIELDS + varints(2**62, -1, 0)),
    "a value longer than the record": a_record(FIELDS + varints(-1, 50) + b"value" + varints(0)),
    "a negative count of headers": a_record(FIELDS + NULL_KEY_AND_VALUE + varints(-1)),
    "more headers than bytes": a_record(FIELDS + NULL_KEY_AND_VALUE + varints(2**40)),
    "a header without a key": a_record(FIELDS + NULL_KEY_AND_VALUE + varints(1, -1, -1)),
    "a header without a value": a_record(FIELDS + NULL_KEY_AND_VALUE + varints(1, 0)),
    "bytes behind the headers": a_record(FIELDS + NULL_KEY_AND_VALUE + varints(0) + b"more"),
    "an offset before the batch": a_record(b"\0" + varints(0, -1) + NULL_KEY_AND_VALUE + varints(0)),
    "an offset behind the batch": a_record(b"\0" + varints(0, 1) + NULL_KEY_AND_VALUE + varints(0)),
    "an offset of 2^62": a_record(b"\0" + varints(0, 2**62) + NULL_KEY_AND_VALUE + varints(0)),
}


@for_each("body", CORRUPT.values(), ids=CORRUPT)
def test_records_that_contradict_themselves_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        all_records(of_body(body))


def test_a_field_may_not_reach_into_the_next_record() -> None:
    """The value's length says three bytes, one of which belongs to the next record."""
    first = FIELDS + varints(-1, 3) + b"ab"
    whole = a_record(FIELDS + NULL_KEY_AND_VALUE + varints(0))
    with pytest.raises(CorruptBatch):
        all_records(of_body(a_record(first) + whole, count=2))


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63)])
def test_a_timestamp_beyond_64_bits_wraps_as_in_kafka(delta: int) -> None:
    body = a_record(b"\0" + varints(delta, 0) + NULL_KEY_AND_VALUE + varints(0))
    base = 1000 if delta > 0 else -1000
    batch = pack_batch(a_header(1)._replace(base_timestamp=base), body)
    wrapped = base + delta + (2**64 if delta < 0 else -(2**64))
    assert [record.timestamp for record in iter_records(batch, parse_header(batch))] == [wrapped]
    assert [timestamp for _, timestamp in iter_timestamps(batch, parse_header(batch))] == [wrapped]


@pytest.mark.parametrize("delta", [-1, 1, 2**62])
def test_iter_timestamps_refuses_offsets_outside_of_the_batch(delta: int) -> None:
    body = a_record(b"\0" + varints(0, delta) + NULL_KEY_AND_VALUE + varints(0))
    batch = of_body(body)
    with pytest.raises(CorruptBatch):
        list(iter_timestamps(batch, parse_header(batch)))


def test_fewer_records_than_counted_are_corrupt() -> None:
    batch = of_body(a_record(FIELDS + NULL_KEY_AND_VALUE + varints(0)), count=2)
    for iterate in (iter_records, iter_timestamps):
        with pytest.raises(CorruptBatch):
            list(iterate(batch, parse_header(batch)))


def test_iter_records_refuses_a_record_count_of_two_billion_without_bytes() -> None:
    batch = pack_batch(a_header(2**31 - 1), b"")
    for iterate in (iter_records, iter_timestamps):
        with pytest.raises(CorruptBatch):
            list(iterate(batch, parse_header(batch)))


def test_iter_records_reads_a_header_key_that_is_not_utf_8() -> None:
    """The Java client replaces such bytes as well."""
    body = FIELDS + NULL_KEY_AND_VALUE + varints(1, 2) + b"\xff\xfe" + varints(-1)
    assert all_records(of_body(a_record(body)))[0].headers == (("\ufffd\ufffd", None),)


def test_iter_records_refuses_an_unknown_codec() -> None:
    with pytest.raises(UnsupportedCompression):
        all_records(of_body(b"", attributes=5))


@given(
    body=st.binary(max_size=80),
    count=st.integers(-1, 5),
    codec=st.sampled_from(sorted(CODECS.values())),
    append_time=st.booleans(),
)
def test_any_bytes_are_records_or_corrupt(body: bytes, count: int, codec: int, append_time: bool) -> None:
    attributes = codec | (TIMESTAMP_TYPE_BIT if append_time else 0)
    batch = of_body(body, count, attributes)
    for iterate in (iter_records, iter_timestamps):
        with suppress(CorruptBatch):
            list(iterate(batch, parse_header(batch)))


@each_codec
@given(records=record_lists(), at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_iter_records_of_a_flipped_byte_raises_nothing_but_corrupt_batch(
    codec: int, records: list[Record], at: int, flip: int
) -> None:
    batch = of_aiokafka(records, codec)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    at = 61 + at % (len(batch) - 61)
    batch[at] ^= flip
    for iterate in (iter_records, iter_timestamps):
        with suppress(CorruptBatch):
            list(iterate(batch, parse_header(batch)))


@for_each("length", [-1, -2, -100_000_000, -(2**31)])
def test_iter_records_collects_nothing_for_a_record_of_negative_length(length: int) -> None:
    records = bytearray()
    write_varlong(records, length)
    batch = of_body(compress(4, bytes(records) + bytes(50_000_000)), 1, attributes=4)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            next(iter_records(batch, parse_header(batch)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
