"""Values that are read together with what is behind them: at the edges of what is short, few and empty."""

from __future__ import annotations

import itertools

import pytest

from tests.plugins.schema.samples import CLASSIC, FLEXIBLE, SPAN
from tidelog.plugins.schema import DecodeError, decode, encode
from tidelog.plugins.schema.declare import array, byte_string, int16, int32, string, struct
from tidelog.plugins.schema.errors import Malformed
from tidelog.plugins.schema.reference import reference_decode
from tidelog.plugins.schema.runs import FEW_NUMBERS, MAX_SHORT_BYTES, runs
from tidelog.plugins.schema.types import INT32


@struct()
class Inner:
    """A structure that is usually not there."""

    text: str = string()


@struct(SPAN)
class Mixed:
    """Values that are usually empty, more of them than one run guesses, among others that are not."""

    first: int = int16()
    name: str | None = string(nullable="0+")
    content: bytes | None = byte_string(nullable="0+")
    numbers: list[int] = array(INT32)
    inner: list[Inner] = array(Inner, factory=list)
    few: list[int] | None = array(INT32, nullable="0+")
    note: str | None = string(nullable="0+", default=None)
    last: int = int32()


NAMES = (None, "", "x", "é" * 63, "y" * (MAX_SHORT_BYTES + 1), "z" * (MAX_SHORT_BYTES + 2))
INNER: tuple[list[Inner], ...] = ([], [Inner(text="")], [Inner(text="a"), Inner(text="b")])
NOTES = (None, "", "note")


def mixed() -> list[Mixed]:
    """Each value of a field with each of its neighbours' values."""
    counts = (*FEW_NUMBERS, max(FEW_NUMBERS) + 1, 200)
    beginnings = itertools.product(NAMES, (None, b"", bytes(127)), counts)
    ends = itertools.cycle(itertools.product(INNER, (None, [], [1, 2]), NOTES))
    return [
        Mixed(
            first=1,
            name=name,
            content=content,
            numbers=[*range(count)],
            inner=inner,
            few=few,
            note=note,
            last=2,
        )
        for (name, content, count), (inner, few, note) in zip(beginnings, ends, strict=False)
    ]


@pytest.mark.parametrize("version", [CLASSIC, FLEXIBLE])
def test_decode_reads_values_of_every_length_with_every_neighbour(version: int) -> None:
    for message in mixed():
        data = encode(message, version)
        assert decode(Mixed, version, data) == message
        assert reference_decode(Mixed, version, data) == (message, len(data))


@pytest.mark.parametrize("version", [CLASSIC, FLEXIBLE])
def test_decode_refuses_a_run_that_is_cut_off_anywhere(version: int) -> None:
    message = Mixed(
        first=1, name="a", content=b"b", numbers=[1], inner=[Inner(text="c")], few=[2], note="d", last=3
    )
    data = encode(message, version)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(Mixed, version, data[:size])


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("name", "0001 fffe"),
        ("content", "0001 ffff fffffffe"),
        ("numbers", "0001 ffff ffffffff fffffffe"),
        ("inner", "0001 ffff ffffffff 00000000 ffffffff"),
        ("few", "0001 ffff ffffffff 00000000 00000000 fffffffe"),
    ],
)
def test_decode_names_the_field_with_a_negative_length(field: str, data: str) -> None:
    with pytest.raises(DecodeError, match=f"field {field}: "):
        decode(Mixed, CLASSIC, bytes.fromhex(data) + bytes(20))


def test_a_compact_length_of_two_bytes_may_be_null_or_short() -> None:
    """No encoder writes them like that, but the number is the same."""
    data = bytes.fromhex("0001 8000 8100 8100 8100 8000 8300 6162 00000002 00")
    message = Mixed(first=1, name=None, content=b"", numbers=[], inner=[], few=None, note="ab", last=2)
    assert decode(Mixed, FLEXIBLE, data) == message


def test_a_table_of_runs_has_a_format_for_each_short_length() -> None:
    table = runs("h", 1)
    for length in range(-1, 300):
        if 1 <= length <= MAX_SHORT_BYTES + 1:
            content, number = table[length](bytes(length - 1) + b"\1\2", 0)
            assert (len(content), number) == (length - 1, 0x0102)
        else:
            with pytest.raises(Malformed):
                table[length]
    assert len(table) == MAX_SHORT_BYTES + 1
    assert runs("h", 1) is table
