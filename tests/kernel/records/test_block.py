"""Records of many batches as columns: what they say is what a record at a time says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernel.records.made_batches import (
    BASE_TIMESTAMP,
    Written,
    batches,
    block_of,
    framed,
    of_body,
    placed,
    stretched,
    varint,
)
from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, pack_batch, parse_header, stamp_offset
from tidelog.kernel.records.block import NEVER, RecordBlock
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import Record, encode_record, iter_records


def keys_of(records: Sequence[Record]) -> list[bytes]:
    """The keys that are there."""
    return [record.key for record in records if record.key is not None]


def values_of(block: RecordBlock) -> list[bytes | None]:
    """The values by their positions and sizes."""
    return [
        None if size < 0 else block.data[start : start + size]
        for start, size in zip(block.value_start.tolist(), block.value_size.tolist(), strict=True)
    ]


@given(st.lists(batches(), max_size=4), st.sampled_from([b"", b"\x80\x00\xff"]))
def test_record_block_has_what_iter_records_finds(written: list[Written], between: bytes) -> None:
    block = RecordBlock(*placed([each.batch for each in written], between))
    meant = [record for each in written for record in each.records]
    found = [record for each in written for record in iter_records(each.batch, parse_header(each.batch))]
    assert found == meant
    assert len(block) == len(meant)
    assert list(block.records()) == meant
    assert [block.record(index) for index in range(len(block))] == meant
    assert block.offset.tolist() == [record.offset for record in meant]
    assert block.timestamp.tolist() == [record.timestamp for record in meant]
    assert block.is_tombstone.tolist() == [record.value is None for record in meant]
    assert block.key_size.tolist() == [-1 if each.key is None else len(each.key) for each in meant]
    assert block.value_size.tolist() == [-1 if each.value is None else len(each.value) for each in meant]
    assert block.keys(block.key_size >= 0) == keys_of(meant)
    assert values_of(block) == [record.value for record in meant]
    horizons = [
        NEVER if each.horizon_ms is None else each.horizon_ms for each in written for _ in each.records
    ]
    assert block.delete_horizon.tolist() == horizons
    assert block.batch.tolist() == [index for index, each in enumerate(written) for _ in each.records]
    counts = [len(each.records) for each in written]
    assert block.first.tolist() == [sum(counts[:index]) for index in range(len(counts) + 1)]


@given(st.lists(batches([0, 1]), min_size=1, max_size=4), st.data())
def test_start_and_end_enclose_the_bytes_of_each_record(written: list[Written], data: st.DataObject) -> None:
    block = block_of(*[each.batch for each in written])
    pieces = [block.data[start:end] for start, end in zip(block.start, block.end, strict=True)]
    for index, each in enumerate(written):
        own = b"".join(pieces[block.first[index] : block.first[index + 1]])
        header = parse_header(each.batch)._replace(attributes=block.headers[index].attributes & ~7)
        again = pack_batch(header, own)
        assert list(iter_records(again, parse_header(again))) == each.records


@given(st.lists(batches([0]), max_size=3), st.data())
def test_select_keeps_the_records_in_the_mask(written: list[Written], data: st.DataObject) -> None:
    block = block_of(*[each.batch for each in written])
    chosen = data.draw(st.lists(st.booleans(), min_size=len(block), max_size=len(block)))
    meant = [each for each, stays in zip(block.records(), chosen, strict=True) if stays]
    selected = block.select(np.array(chosen, np.bool_))
    assert list(selected.records()) == meant
    assert selected.offset.tolist() == [record.offset for record in meant]
    assert selected.keys(selected.key_size >= 0) == keys_of(meant)
    assert values_of(selected) == [record.value for record in meant]
    assert selected.headers == block.headers
    assert len(selected.delete_horizon) == len(selected.is_tombstone) == len(selected) == len(meant)
    first = 0
    for index, each in enumerate(written):
        left = sum(chosen[first : first + len(each.records)])
        assert selected.first[index + 1] - selected.first[index] == left
        first += len(each.records)
    assert len(block) == len(chosen), "the block itself stays as it is"


def test_select_can_be_repeated() -> None:
    body = b"".join(framed(b"\x00" + varint(0) + varint(delta) + b"\x01\x01\x00") for delta in range(6))
    block = block_of(of_body(body, 6, last_delta=5))
    half = block.select(block.offset % 2 == 0)
    assert half.select(half.offset > 100).offset.tolist() == [102, 104]


def test_keys_are_those_in_the_mask() -> None:
    records = [Record(index, 0, f"k{index}".encode(), b"") for index in range(5)]
    body = bytearray()
    for record in records:
        encode_record(body, record, 0, 0)
    block = block_of(of_body(body, 5, last_delta=4))
    assert block.keys(np.array([False, True, False, True, True])) == [b"k1", b"k3", b"k4"]
    assert block.keys(np.zeros(5, np.bool_)) == []


@given(st.lists(batches(), max_size=4), st.data())
def test_header_values_are_those_of_the_last_header_of_the_name(
    written: list[Written], data: st.DataObject
) -> None:
    block = block_of(*[each.batch for each in written])
    chosen = data.draw(st.lists(st.booleans(), min_size=len(block), max_size=len(block)))
    block = block.select(np.array(chosen, np.bool_))
    meant = [dict(record.headers) for record in block.records()]
    for name in {"absent", "", *(name for headers in meant for name in headers)}:
        expected = {index: headers[name] for index, headers in enumerate(meant) if name in headers}
        assert block.header_values(name) == expected


@pytest.mark.parametrize("codec", range(5))
def test_record_block_of_emptied_batches_has_no_records(codec: int) -> None:
    empty = of_body(b"", count=0, last_delta=9)
    full = of_body(compress(codec, framed(b"\x00\x00\x00\x01\x01\x00")), attributes=codec)
    assert len(block_of()) == 0
    assert len(block_of(empty)) == 0
    assert list(block_of(empty).records()) == []
    assert block_of(empty, full, empty).first.tolist() == [0, 0, 1, 1]
    assert block_of(empty, full, empty).batch.tolist() == [1]


@given(
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from([1, 2, 23, 24, 25, 700, 1024, 1025])), max_size=6)
)
@settings(max_examples=40)
@example([(66, 30), (130, 30)])  # lengths with the same first byte
def test_record_block_finds_runs_of_records_of_one_size(runs: list[tuple[int, int]]) -> None:
    """Their values look like the lengths of records."""
    body, starts = bytearray(), list[int]()
    for size, count in runs:
        record = framed(b"\x00\x00\x00\x01" + varint(size) + varint(size + 6)[:1] * size + b"\x00")
        starts += range(HEADER_BYTES + len(body), HEADER_BYTES + len(body) + len(record) * count, len(record))
        body += record * count
    assert block_of(of_body(body, len(starts))).start.tolist() == starts
    for wrong in (len(starts) - 1, len(starts) + 1):
        with pytest.raises(CorruptBatch):
            block_of(of_body(body, wrong), of_body(framed(WHOLE)))


@pytest.mark.parametrize("size", range(1, 6))
def test_varints_may_have_more_bytes_than_they_need(size: int) -> None:
    for timestamp_size in (size, 2 * size):
        timestamp_delta = stretched(-5, timestamp_size)
        body = b"\x00" + timestamp_delta + stretched(3, size) + stretched(2, size) + b"ke"
        body += stretched(-1, size) + stretched(0, size)
        content = stretched(len(body), 3) + body
        for count in (1, 2):
            batch = of_body(content * count, count, last_delta=3)
            block = block_of(batch)
            record = Record(103, BASE_TIMESTAMP - 5, b"ke", None)
            assert list(block.records()) == list(iter_records(batch, parse_header(batch))) == [record] * count
            assert block.timestamp.tolist() == [BASE_TIMESTAMP - 5] * count


def test_bits_of_a_varint_beyond_its_width_do_not_count() -> None:
    wide = bytearray(stretched(3, 5))
    wide[4] |= 0x70
    batch = of_body(framed(b"\x00\x00" + wide + b"\x01\x01\x00"), last_delta=3)
    assert block_of(batch).offset.tolist() == [103]
    assert list(block_of(batch).records()) == list(iter_records(batch, parse_header(batch)))


def test_records_that_are_as_long_on_average_as_the_first_one() -> None:
    body = bytearray()
    records = [Record(100 + index, BASE_TIMESTAMP, None, bytes(size)) for index, size in enumerate([5, 4, 6])]
    for record in records:
        encode_record(body, record, 100, BASE_TIMESTAMP)
    assert list(block_of(of_body(body, 3, last_delta=2)).records()) == records


WHOLE = b"\x00" + varint(0) + varint(0) + varint(1) + b"k" + varint(1) + b"v" + varint(0)
MALFORMED = [
    (b"", 1),
    (b"", -1),
    (framed(WHOLE), 2),
    (framed(WHOLE) * 2, 1),
    (framed(WHOLE), 0),
    (framed(WHOLE), -1),
    (framed(WHOLE), 2**31 - 1),
    (framed(WHOLE)[:-1], 1),
    (framed(WHOLE, 99), 1),
    (framed(WHOLE, -1), 1),
    (framed(b""), 1),
    (framed(b"") * 3, 3),
    (framed(WHOLE[:1]), 1),
    (framed(WHOLE[:3]), 1),
    (framed(WHOLE[:5]), 1),
    (framed(WHOLE[:7]), 1),
    (framed(b"\x00\x00" + varint(-1) + WHOLE[3:]), 1),
    (framed(b"\x00\x00" + varint(1) + WHOLE[3:]), 1),
    (framed(b"\x00\x00\x00" + varint(2**31 - 1) + b"k\x00\x00"), 1),
    (framed(b"\x00\x00\x00\x01" + varint(2**31 - 1) + b"v\x00"), 1),
    (framed(b"\x00\x00" + stretched(0, 6) + WHOLE[3:]), 1),
    (framed(b"\x00" + stretched(0, 11) + WHOLE[2:]), 1),
    (b"\xff" * 12, 1),
    (stretched(-1, 5) + WHOLE, 3),
    (stretched(len(WHOLE), 6) + WHOLE, 1),
]


@for_each(
    ("malformed", "codec", "followed"),
    itertools.product(MALFORMED, [0, 1, 4], [b"", b"\x00" * 100, framed(WHOLE) * 9]),
)
def test_record_block_refuses_malformed_records(
    malformed: tuple[bytes, int], codec: int, followed: bytes
) -> None:
    """Whatever follows in memory: nothing beyond a batch is taken for a part of it."""
    body, count = malformed
    batch = of_body(compress(codec, body) if codec else body, count, attributes=codec)
    content, found = placed([batch])
    with pytest.raises(CorruptBatch):
        RecordBlock(content + followed, found)


def test_record_block_refuses_the_record_of_another_batch() -> None:
    """One batch has a record too few, the other one too many: together they have as many as they say."""
    with pytest.raises(CorruptBatch):
        block_of(of_body(framed(WHOLE), 2), of_body(framed(WHOLE) * 2, 1))


def test_record_block_names_the_batch_with_the_malformed_record() -> None:
    bad = of_body(framed(b"\x00\x00" + varint(1) + WHOLE[3:]))
    with pytest.raises(CorruptBatch, match="batch at offset 100: a record has an offset beyond it"):
        block_of(of_body(framed(WHOLE)), bad)


@for_each(("body", "count"), MALFORMED)
def test_record_block_names_the_one_of_many_batches_that_is_malformed(body: bytes, count: int) -> None:
    bad = bytearray(of_body(body, count))
    stamp_offset(bad, 500, 0)
    good = [of_body(framed(WHOLE) * number, number) for number in range(1, 50)]
    with pytest.raises(CorruptBatch, match="batch at offset 500:"):
        block_of(*good, bad, *good)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_record_block_refuses_an_unknown_codec(codec: int) -> None:
    with pytest.raises(UnsupportedCompression):
        block_of(of_body(framed(WHOLE), attributes=codec))


@for_each(
    "headers",
    [
        varint(-1),
        varint(1),
        varint(2) + b"\x00\x00",
        varint(2**31 - 1) + b"\x00\x00",
        varint(0) + b"\x00",
        varint(1) + b"\x00\x00\x00",
        varint(1) + varint(-1) + b"\x00",
        varint(1) + varint(1) + b"k",
        varint(1) + varint(9) + b"k\x00",
        varint(1) + varint(0) + varint(9) + b"v",
        varint(1) + b"\x00" + b"\x80\x80",
        b"\x80" * 9,
    ],
)
@for_each("count", [1, 40])
def test_record_block_refuses_malformed_headers(headers: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        block_of(of_body(framed(WHOLE[:-1] + headers) * count, count))


def outcome(read: Callable[[], Sequence[Record]]) -> Sequence[Record] | None:
    """The records, None if they are malformed."""
    try:
        return read()
    except CorruptBatch:
        return None


@given(
    st.lists(batches(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4),
    st.none() | st.integers(1, 200),
)
def test_record_block_of_mutated_batches_raises_corrupt_batch_alone(
    written: list[Written], changes: list[tuple[int, int]], cut_off: int | None
) -> None:
    content, found = placed([each.batch for each in written])
    changed = bytearray(content)
    areas = [
        (each.position + HEADER_BYTES, each.header.size - HEADER_BYTES)
        for each in found
        if each.header.record_count
    ]
    for (at, byte), (start, size) in zip(changes, areas * 4, strict=False):
        changed[start + at % size] = byte
    if cut_off is not None:
        del changed[max(len(changed) - cut_off, 0) :]
    mutated = bytes(changed)

    def one_by_one() -> Sequence[Record]:
        return [
            record for header, at in found for record in iter_records(mutated[at : at + header.size], header)
        ]

    def at_once() -> Sequence[Record]:
        return list(RecordBlock(mutated, found).records())

    records, expected = outcome(at_once), outcome(one_by_one)
    if records is not None:
        assert records == expected


@pytest.mark.parametrize("codec", range(5))
def test_record_block_decompresses_no_more_batches_than_it_may(codec: int) -> None:
    parts: list[bytes] = []
    for offset in range(6):
        records = bytearray()
        encode_record(records, Record(0, BASE_TIMESTAMP, None, bytes(100_000)), 0, BASE_TIMESTAMP)
        header = BatchHeader(offset, 0, 0, 2, 0, codec, 0, BASE_TIMESTAMP, BASE_TIMESTAMP, -1, -1, -1, 1)
        parts.append(bytes(pack_batch(header, compress(codec, bytes(records)))))
    content, found = placed(parts)
    most = RecordBlock(content, found, 250_000)
    # What is not compressed is there anyway.
    assert most.offset.tolist() == ([0, 1, 2] if codec else [*range(6)])
    assert len(most.headers) == len(most)
    assert RecordBlock(content, found[3:], 1).offset.tolist() == ([3] if codec else [3, 4, 5])
