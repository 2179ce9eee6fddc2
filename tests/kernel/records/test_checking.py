"""Going through records: what is whole passes, and nothing that a reader would stumble over does."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections import deque
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch, InvalidRecord, InvalidTimestamp
from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.checking import RECORDS_PER_STEP, RecordRules, check_in_steps
from tidelog.kernel.records.compression import compress, unpack
from tidelog.kernel.records.record import Record, encode_record, iter_records
from tidelog.kernel.testing import make_batch

Headers = tuple[tuple[str, bytes | None], ...]

fields = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), fields), max_size=3).map(tuple)
contents = st.lists(st.tuples(fields, fields, headers, st.integers(-(2**40), 2**40)), min_size=1, max_size=20)


def encoded(rows: list[tuple[bytes | None, bytes | None, Headers, int]]) -> bytes:
    """Records of keys, values, headers and timestamp deltas."""
    out = bytearray()
    for index, (key, value, of_record, delta) in enumerate(rows):
        encode_record(out, Record(index, delta, key, value, of_record), 0, 0)
    return bytes(out)


def of(values: list[bytes | None], keys: list[bytes | None] | None = None) -> bytes:
    """The records of a batch."""
    return bytes(make_batch(values, keys=keys)[HEADER_BYTES:])


def check_records(pieces: Iterable[bytes], count: int, *, keys_required: bool = False) -> None:
    """Take all steps."""
    for _ in check_in_steps(pieces, count, RecordRules(keys_required=keys_required)):
        pass


def test_check_in_steps_reports_at_most_max_record_errors() -> None:
    """The number is that of docs/protocol.md."""
    rules = RecordRules(keys_required=True)
    with pytest.raises(InvalidRecord, match="and 999 more") as error:
        deque(check_in_steps([of([b"v"] * 3000)], 3000, rules), maxlen=0)
    assert [each.batch_index for each in error.value.record_errors] == list(range(1000))


def test_check_in_steps_limits_the_bytes_of_each_record_wherever_it_is_split() -> None:
    records = of([b"a", b"b" * 93])
    for split in range(len(records)):
        pieces = [records[:split], records[split:]]
        deque(check_in_steps(pieces, 2, RecordRules(most_bytes=100)), maxlen=0)
        with pytest.raises(InvalidRecord, match=r"record 1 has 100 bytes, more than max\.decompressed"):
            deque(check_in_steps(pieces, 2, RecordRules(most_bytes=99)), maxlen=0)


THREE = of([b"a", b"b", b"c"])
ONE = of([b"a"])


@given(contents)
def test_check_in_steps_accepts_any_encoded_records(
    rows: list[tuple[bytes | None, bytes | None, Headers, int]],
) -> None:
    check_records([encoded(rows)], len(rows))


@for_each("count", [1, 63, 64, 65, RECORDS_PER_STEP, RECORDS_PER_STEP + 1, 1100, 9000])
def test_check_in_steps_checks_at_most_records_per_step_in_each_step(count: int) -> None:
    steps = list(check_in_steps([of([b"x" * 70] * count)], count, RecordRules()))
    assert len(steps) == (count - 1) // RECORDS_PER_STEP


USUAL: dict[str, tuple[bytes | None, bytes | None, Headers]] = {
    "neither key nor value": (None, None, ()),
    "a short key": (b"key", b"v", ()),
    "a key of more than 63 bytes": (b"k" * 64, b"v" * 8191, ()),
    "a long key": (b"k" * 8192, b"v", ()),
    "a long value": (b"key", b"v" * 8192, ()),
    "a header": (b"key", b"v", (("h", b"value"),)),
    "a header without a value at the end": (None, b"v", (("h", b"value"), ("last", None))),
    "a header with a value of more than 63 bytes": (b"key", b"v", (("h", b"x" * 64), ("last", b""))),
    "some headers": (b"key", b"v", tuple((f"header-{number}", b"v" * number) for number in range(8))),
}


@for_each("record", USUAL.values(), ids=USUAL)
def test_check_in_steps_takes_few_steps_for_usual_records(
    record: tuple[bytes | None, bytes | None, Headers],
) -> None:
    """Those that are read field by field have steps of their own."""
    key, value, headers = record
    data = encoded([(key, value, headers, number) for number in range(RECORDS_PER_STEP)])
    assert list(check_in_steps([data], RECORDS_PER_STEP, RecordRules())) == []


def test_check_in_steps_makes_each_piece_a_step_of_its_own() -> None:
    unpacked: list[bytes] = []

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(THREE), 2):
            unpacked.append(THREE[start : start + 2])
            yield unpacked[-1]

    seen = [len(unpacked) for _ in check_in_steps(pieces(), 3, RecordRules())]
    assert set(seen) == set(range(1, len(THREE) // 2 + 1))


@pytest.mark.parametrize("size", [50, 8200, 3_000_000])
def test_large_fields(size: int) -> None:
    check_records([of([b"x" * size], [b"k" * size])], 1, keys_required=True)


LONG_FORM = b"\x90\x00\x00\x00\x80\x00\x01\x02a\x00"
"""A record whose length and offset delta are varints of more bytes than they need, which Kafka takes too."""


def test_varints_that_are_longer_than_they_need() -> None:
    check_records([LONG_FORM], 1)


REFUSED: dict[str, tuple[bytes, int, str]] = {
    "one fewer than counted": (THREE, 4, "end early: 4 are counted"),
    "one more than counted": (THREE, 2, "bytes follow the 2 records"),
    "a byte behind": (THREE + b"\0", 3, "bytes follow"),
    "no bytes": (b"", 1, "end early"),
    "a delta twice": (ONE + ONE, 2, "record 1 has offset delta 0"),
    "a delta left out": (ONE + of([b"a", b"b", b"c"])[2 * len(ONE) :], 2, "record 1 has offset delta 2"),
    "a negative length": (b"\x01" + ONE[1:], 1, "negative length"),
    "a length too short": (bytes([ONE[0] - 2]) + ONE[1:], 1, "do not end where the record does"),
    "a length too long": (bytes([ONE[0] + 2]) + ONE[1:] + b"\0", 1, "do not end where the record does"),
    "a negative number of headers": (ONE[:-1] + b"\x01", 1, "cannot have -1 headers"),
    "headers that are not there": (ONE[:-1] + b"\x7e", 1, "do not end where the record does"),
    "a header without a key": (b"\x10" + ONE[1:-1] + b"\x02\x01\x01", 1, "header without a key"),
    "a varint without an end": (b"\xff" * 11, 1, "do not end where the record does"),
    "a header beyond its record, and another behind it": (
        b"\x0c\0\0\0\x08\x01\0\x0c\0\0\x02\x01\x01\0",
        2,
        "do not end where the record does",
    ),
}


@for_each(("data", "count", "sentence"), REFUSED.values(), ids=REFUSED)
def test_check_in_steps_refuses_malformed_records(data: bytes, count: int, sentence: str) -> None:
    with pytest.raises(InvalidRecord, match=sentence):
        check_records([data], count)


def test_check_in_steps_with_keys_required_refuses_a_record_without_a_key() -> None:
    some = of([b"a", b"b"], [b"key", None])
    check_records([some], 2)
    check_records([of([b"a", b"b"], [b"key", b""])], 2, keys_required=True)
    with pytest.raises(InvalidRecord, match="record 1: there is no key"):
        check_records([some], 2, keys_required=True)


@given(st.binary(max_size=60) | st.binary(max_size=8).map(lambda tail: THREE + tail), st.integers(1, 4))
def test_check_in_steps_accepts_only_records_that_iter_records_reads(data: bytes, count: int) -> None:
    try:
        check_records([data], count)
    except InvalidRecord:
        return
    header = parse_header(make_batch([b"v"] * count))
    batch = pack_batch(header, data)
    found: list[Record] = []
    # Timestamps are for others to check.
    with contextlib.suppress(CorruptBatch):
        found += iter_records(batch, parse_header(batch))
    assert [record.offset for record in found] == list(range(len(found)))


@st.composite
def cut_up(draw: st.DrawFn) -> tuple[bytes, int, list[bytes]]:
    """Records, damaged or not, a count, and the same bytes in pieces."""
    rows = draw(contents)
    data = bytearray(encoded(rows))
    if draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    edges = sorted(draw(st.lists(st.integers(0, len(data)), max_size=30)))
    pieces = [bytes(data[start:end]) for start, end in zip([0, *edges], [*edges, len(data)], strict=True)]
    return bytes(data), len(rows) + draw(st.sampled_from([0, 0, 0, 1, -1])), pieces


def refusal(pieces: list[bytes], count: int) -> str | None:
    try:
        check_records(pieces, count)
    except InvalidRecord as error:
        return str(error)
    return None


def cut_after(data: bytes, count: int, *cuts: int) -> tuple[bytes, int, list[bytes]]:
    """The same as `cut_up`, at places that are given."""
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return data, count, pieces


KEY_BEYOND_THE_RECORD = b"\x0c\0\0\0\x08\x01\0" + b"\x0c\0\0\x02\x01\x01\0"
"""A key that reaches into the next record, where its bytes read as -1 headers."""
DELTA_BEYOND_THE_RECORD = b"\x02\0" + ONE
"""A record of one byte, whose offset delta would be in the next record."""


@example(cut_after(KEY_BEYOND_THE_RECORD, 2, 7))
@example(cut_after(DELTA_BEYOND_THE_RECORD, 2, 2))
@given(cut_up())
def test_check_in_steps_has_the_same_result_however_the_bytes_are_cut(
    sample: tuple[bytes, int, list[bytes]],
) -> None:
    data, count, pieces = sample
    assert refusal(pieces, count) == refusal([data], count)


def largest_timestamp(pieces: Iterable[bytes], count: int, rules: RecordRules) -> int:
    """Take all steps; return their result."""
    found: list[int] = []

    def steps() -> Iterator[None]:
        found.append((yield from check_in_steps(pieces, count, rules)))

    deque(steps(), maxlen=0)
    return found[0]


deltas = st.integers(-3, 3) | st.integers(-200, 200) | st.sampled_from([-(2**63), -(2**20), 2**20, 2**62])
ANY_TIMESTAMP = (-(2**63), 2**63 - 1)


@example([1, 2**62], 2**62, ANY_TIMESTAMP, 0)
@example([-2, -1, -3], 5, ANY_TIMESTAMP, 0)
@example([100, 5], 10, (0, 300), 0)
@example([-11, 3], 10, (5, 300), 0)
@given(
    deltas=st.lists(deltas, min_size=1, max_size=6) | st.lists(st.integers(-200, -1), min_size=1, max_size=3),
    base=st.integers(-3, 300),
    limits=st.just(ANY_TIMESTAMP) | st.tuples(st.integers(-3, 150), st.integers(150, 300)),
    cut=st.just(0) | st.integers(1, 40),
)
def test_check_in_steps_returns_the_largest_timestamp_or_names_each_beyond_the_limits(
    deltas: list[int], base: int, limits: tuple[int, int], cut: int
) -> None:
    """Records of a batch are added up as Java does, and -1 stands for no timestamp."""
    data = encoded([(b"k", b"v", (), delta) for delta in deltas])
    timestamps = [(base + delta + 2**63) % 2**64 - 2**63 for delta in deltas]
    oldest, newest = limits
    at_fault = [
        index for index, found in enumerate(timestamps) if found != -1 and not oldest <= found <= newest
    ]
    pieces, rules = [data[:cut], data[cut:]], RecordRules(base, oldest, newest)
    if not at_fault:
        assert largest_timestamp(pieces, len(deltas), rules) == max(-1, *timestamps)
        return
    with pytest.raises(InvalidTimestamp) as error:
        largest_timestamp(pieces, len(deltas), rules)
    assert [each.batch_index for each in error.value.record_errors] == at_fault


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_check_in_steps_of_large_compressed_records_takes_little_memory(codec: int) -> None:
    count = 2_000
    packed = compress(codec, of([b"x" * 10_000] * count))
    check_records(unpack(codec, packed, 2**30), count)
    tracemalloc.start()
    try:
        check_records(unpack(codec, packed, 2**30), count)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20
