"""Fingerprints of rows: equal for equal rows in any order and in any blocks, different for others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.spark_sink.writer.written import rows
from tests.tables import for_each
from tidelog.plugins.spark_sink.writer.fingerprint import Fingerprint, value_hashes
from tidelog.plugins.spark_sink.writer.rows import rows_by_topic

VALUES = (
    st.none() | st.binary(max_size=20) | st.sampled_from([bytes(255), bytes(256), bytes(257), bytes(300)])
)
ROW = st.fixed_dictionaries(
    {
        "key": VALUES,
        "value": VALUES,
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.none() | st.integers(0, 3),
        "headers": st.lists(st.fixed_dictionaries({"key": st.text(max_size=2), "value": VALUES}), max_size=3),
    }
)
TIME = datetime(2026, 1, 31, tzinfo=UTC)
BASE: dict[str, Any] = {
    "key": b"k",
    "value": b"v",
    "topic": "t",
    "partition": None,
    "timestamp": None,
    "headers": [{"key": "h", "value": b"1"}, {"key": "i", "value": b"2"}],
}


def fingerprint(*blocks: Sequence[dict[str, Any]]) -> Fingerprint:
    """The fingerprint of rows in blocks."""
    found = Fingerprint()
    for block in blocks:
        columns = {name: [row[name] for row in block] for name in (block or [BASE])[0]}
        for each in rows_by_topic(rows(**columns), None):
            found.add(each)
    return found


@given(data=st.data(), written=st.lists(ROW, min_size=1, max_size=12))
def test_a_fingerprint_does_not_depend_on_the_order_of_rows_or_on_blocks(
    data: st.DataObject, written: list[dict[str, Any]]
) -> None:
    again = data.draw(st.permutations(written))
    cut = data.draw(st.integers(0, len(again)))
    assert str(fingerprint(again[:cut], again[cut:])) == str(fingerprint(written))


@given(first=st.lists(VALUES, max_size=5), second=st.lists(VALUES, max_size=5))
def test_value_hashes_are_equal_for_equal_values_only(
    first: list[bytes | None], second: list[bytes | None]
) -> None:
    values = [*first, *second]
    hashes = value_hashes(pa.array([None, b"before", *values], pa.binary()).slice(2)).tolist()
    for value, found in zip(values, hashes, strict=True):
        for other, of_other in zip(values, hashes, strict=True):
            assert (found == of_other) == (value == other)


def test_a_value_that_begins_with_its_size_is_not_an_empty_one() -> None:
    values = [b"", b"\1", b"\2\0", b"\2", b"\3\0\0", b"\10\0\0\0\0\0\0\0"]
    assert len(set(value_hashes(pa.array(values, pa.binary())).tolist())) == len(values)
    swapped = [{**BASE, "key": key, "value": value} for key, value in ((b"\1", b""), (b"", b"\1"))]
    assert fingerprint(swapped[:1]).digest != fingerprint(swapped[1:]).digest


def test_value_hashes_stay_as_they_are() -> None:
    """Markers outlive releases."""
    values = [None, b"", b"a", b"eight...", b"more than eight", b"x" * 256, b"x" * 257]
    assert [f"{each:016x}" for each in value_hashes(pa.array(values, pa.binary())).tolist()] == [
        "ffffffffffffffff",
        "0000000000000000",
        "95da58fda43ea24c",
        "742ecc7a2f1fc9ba",
        "e510dd2a2fda5ad0",
        "ce0bf253e0f2642f",
        "76c3513e21d32a54",
    ]


@for_each(
    "change",
    [
        {"key": b"l"},
        {"key": None},
        {"key": b"v", "value": b"k"},
        {"value": b""},
        {"value": None},
        {"value": b"v\0"},
        {"topic": "u"},
        {"partition": 0},
        {"timestamp": TIME},
        {"headers": []},
        {"headers": [{"key": "h", "value": b"1"}]},
        {"headers": [{"key": "h", "value": b"1"}, {"key": "i", "value": None}]},
        {"headers": [{"key": "h", "value": b"1"}, {"key": "j", "value": b"2"}]},
        {"headers": [{"key": "i", "value": b"2"}, {"key": "h", "value": b"1"}]},
    ],
)
def test_a_fingerprint_has_all_columns(change: dict[str, Any]) -> None:
    assert fingerprint([{**BASE, **change}]).digest != fingerprint([BASE]).digest
    assert fingerprint([{**BASE, **change}, BASE]).digest != fingerprint([BASE, BASE]).digest


def test_headers_belong_to_their_row() -> None:
    one, none = [{"key": "h", "value": b"1"}], list[Any]()
    apart = [{**BASE, "value": b"1", "headers": one}, {**BASE, "value": b"2", "headers": none}]
    swapped = [{**BASE, "value": b"1", "headers": none}, {**BASE, "value": b"2", "headers": one}]
    assert fingerprint(apart).digest != fingerprint(swapped).digest


def test_a_row_with_its_own_time_differs_from_one_with_another() -> None:
    times = [{**BASE, "timestamp": TIME.replace(microsecond=ms * 1000)} for ms in range(3)]
    assert len({fingerprint([each]).digest for each in times}) == 3


def test_fingerprints_stay_as_they_are() -> None:
    """Markers outlive releases: a replay compares its rows with the text of one."""
    plain = {**BASE, "headers": []}
    full = {**BASE, "partition": 3, "timestamp": TIME, "value": b"x" * 300, "key": None}
    assert [str(fingerprint(each)) for each in ([plain], [BASE], [full], [BASE, full, plain])] == [
        "1 rows of 2 bytes with hash a31f1bc8a4a27f44",
        "1 rows of 2 bytes with hash 13198941e8331c0c",
        "1 rows of 300 bytes with hash 7e0273dd89316a7f",
        "3 rows of 304 bytes with hash 343b18e8160705cf",
    ]


def test_digests_have_all_of_their_digits() -> None:
    assert str(Fingerprint()) == "0 rows of 0 bytes with hash 0000000000000000"


@for_each("size", [*range(1, 40), 247, 248, 249, 255, 256, 257, 300])
def test_value_hashes_do_not_depend_on_the_values_beside(size: int) -> None:
    """Short values are hashed a word at a time, all of them together."""
    value = bytes(range(1, 252))[:size] + bytes(max(size - 251, 0))
    alone = value_hashes(pa.array([value], pa.binary())).tolist()[0]
    others = [b"before", b"", value[:-1], value, None, value + b"+", b"12345678", bytes(400)]
    among = value_hashes(pa.array(others, pa.binary()))
    assert among.tolist()[3] == alone
    assert value_hashes(pa.array(others, pa.binary()).slice(3, 1)).tolist() == [alone]
    assert len(set(among.tolist())) == len(set(others))
