"""Batches of state records: what is written is read back, by us and as any other batch; damage is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.message_sets import GZIP, Row, plain_set, wrapper
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header, stamp_offset, verify_crc
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.records.record import Record, encode_record, iter_records
from tidelog.kernel.testing import make_batch
from tidelog.plugins.coordinator.runtime import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime.batches import decode_batches, encode_batch

NOW_MS = 1_700_000_000_000
records = st.lists(
    st.builds(StateRecord, st.binary(max_size=200), st.none() | st.binary(max_size=200)),
    min_size=1,
    max_size=300,
)


@given(
    records, st.integers(0, 4), st.none() | st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
)
def test_decode_batches_reads_what_encode_batch_wrote(
    written: list[StateRecord], codec: int, producer: tuple[int, int] | None
) -> None:
    batch = encode_batch(written, NOW_MS, producer=producer, codec=codec)
    header = parse_header(batch)
    assert verify_crc(batch, header)
    assert [(record.key, record.value) for record in iter_records(batch, header)] == written
    assert {record.timestamp for record in iter_records(batch, header)} == {NOW_MS}
    (found,), end = decode_batches(memoryview(batch), 0)
    assert end == len(written)
    producer_id, epoch = producer or (-1, -1)
    assert found == LoadedBatch(0, written, producer_id, epoch, producer is not None)


def test_decode_batches_of_other_writers() -> None:
    """With timestamps, without keys, after compaction, markers."""
    values = [b"v" * 300, None, b"lost"]
    mixed = make_batch(values, keys=[b"k" * 200, b"", None], timestamps=[NOW_MS, NOW_MS + 9999, 0])
    emptied = make_batch([], 3, last_offset_delta=4)
    marker, _ = marker_batch(7, 1, EndMarker(True, 3), NOW_MS)
    stamp_offset(marker, 8, 0)
    batches, end = decode_batches(memoryview(bytes(mixed + emptied + marker)), 0)
    assert end == 9
    assert batches == [
        LoadedBatch(0, [(b"k" * 200, b"v" * 300), (b"", None)], offsets=(0, 1)),
        LoadedBatch(3, []),
        LoadedBatch(8, (), 7, 1, True, EndMarker(True, 3)),
    ]


def test_decode_batches_reads_messages_of_old_formats() -> None:
    rows: list[Row] = [(NOW_MS, b"k", b"1"), (NOW_MS + 1, None, b"no key"), (NOW_MS + 2, b"gone", None)]
    data = b"".join(
        [
            plain_set(rows, 0),
            wrapper(plain_set(rows, 1), 1, GZIP, 5, NOW_MS + 2),
            bytes(make_batch([b"v"], 6, keys=[b"new"], timestamps=[NOW_MS])),
            plain_set(rows[:1], 1, 7),
        ]
    )
    batches, end = decode_batches(memoryview(data + data[:20]), 0)
    assert end == 8
    records = [
        (batch.offset_of(index), *record) for batch in batches for index, record in enumerate(batch.records)
    ]
    assert records == [
        (0, b"k", b"1"),
        (2, b"gone", None),
        (3, b"k", b"1"),
        (5, b"gone", None),
        (6, b"new", b"v"),
        (7, b"k", b"1"),
    ]
    (last,), end = decode_batches(memoryview(data), 7)
    assert (last.base_offset, end) == (7, 8)


def test_decode_batches_keeps_offsets_of_a_compacted_batch() -> None:
    records = bytearray()
    for offset in (11, 14, 17):
        encode_record(records, Record(offset, NOW_MS, b"k", b"v"), 10, NOW_MS)
    template = parse_header(make_batch([b"v"] * 3, 10, last_offset_delta=9))
    (batch,), end = decode_batches(memoryview(pack_batch(template, records)), 0)
    assert ([batch.offset_of(index) for index in range(3)], end) == ([11, 14, 17], 20)
    (whole,), _ = decode_batches(memoryview(make_batch([b"v"] * 3, 10, keys=[b"k"] * 3)), 0)
    assert [whole.offset_of(index) for index in range(3)] == [10, 11, 12]


def test_decode_batches_reads_whole_batches_that_reach_the_offset() -> None:
    data = bytearray()
    for offset in range(0, 30, 10):
        data += make_batch([b"v"] * 10, offset, keys=[b"%d" % offset] * 10)
    batches, end = decode_batches(memoryview(data), 10)
    assert ([batch.base_offset for batch in batches], end) == ([10, 20], 30)
    batches, end = decode_batches(memoryview(data)[:-1], 0)
    assert ([batch.base_offset for batch in batches], end) == ([0, 10], 20)
    assert decode_batches(memoryview(b""), 5) == ([], 5)


@given(st.data())
def test_decode_batches_reports_damage(data: st.DataObject) -> None:
    batch = encode_batch([StateRecord(b"key", b"value"), StateRecord(b"k", None)], NOW_MS)
    body = bytearray(batch[HEADER_BYTES:])
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] = data.draw(st.integers(0, 255))
    damaged = pack_batch(parse_header(batch), body[: data.draw(st.integers(0, len(body)))])
    try:
        batches, _ = decode_batches(memoryview(damaged), 0)
    except CorruptBatch:
        return
    assert sum(len(batch.records) for batch in batches) <= 2


def test_decode_batches_reports_a_record_that_is_cut_off() -> None:
    batch = encode_batch([StateRecord(b"key", b"value")], NOW_MS)
    for size in range(1, len(batch) - HEADER_BYTES):
        with pytest.raises(CorruptBatch):
            decode_batches(memoryview(pack_batch(parse_header(batch), batch[HEADER_BYTES:-size])), 0)
