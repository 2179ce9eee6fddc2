"""Zigzag varints: vectors, every 64-bit value there and back, and bytes that are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.varint import read_varint, read_varlong, write_varlong

INT64 = st.integers(-(2**63), 2**63 - 1)

VECTORS = {
    0: "00",
    -1: "01",
    1: "02",
    -64: "7f",
    63: "7e",
    64: "8001",
    -65: "8101",
    300: "d804",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


@for_each(("value", "encoded"), VECTORS.items())
def test_write_varlong_and_read_varlong_match_known_vectors(value: int, encoded: str) -> None:
    out = bytearray()
    write_varlong(out, value)
    assert out.hex() == encoded
    assert read_varlong(out, 0) == (value, len(out))


@given(st.lists(INT64))
def test_read_varlong_reads_successive_values_of_write_varlong(values: list[int]) -> None:
    out = bytearray()
    for value in values:
        write_varlong(out, value)
    position = 0
    for value in values:
        found, position = read_varlong(out, position)
        assert found == value
    assert position == len(out)


@pytest.mark.parametrize("content", ["", "80", "ffffff", "80" * 9])
def test_a_varint_that_ends_early_is_corrupt(content: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex(content), 0)


@pytest.mark.parametrize("content", ["80" * 10 + "00", "ff" * 11])
def test_a_varint_of_more_than_ten_bytes_is_corrupt(content: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex(content), 0)


@pytest.mark.parametrize("content", ["80" * 5 + "00", "ff" * 6, "80" * 4])
def test_a_varint_of_32_bits_has_five_bytes_at_most(content: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(bytes.fromhex(content), 0)


@for_each(
    ("read", "content", "value"),
    [
        (read_varlong, "80" * 9 + "02", 0),
        (read_varlong, "ff" * 9 + "7f", -(2**63)),
        (read_varlong, "8000", 0),
        (read_varint, "80" * 4 + "10", 0),
        (read_varint, "ff" * 4 + "7f", -(2**31)),
        (read_varint, "8600", 3),
    ],
)
def test_read_varint_and_read_varlong_drop_bits_beyond_the_width_as_kafka_does(
    read: Callable[[bytes, int], tuple[int, int]], content: str, value: int
) -> None:
    assert read(bytes.fromhex(content), 0) == (value, len(content) // 2)


@given(st.binary(max_size=12), st.integers(0, 14))
def test_read_varlong_of_any_bytes_gives_64_bits_or_is_corrupt(content: bytes, position: int) -> None:
    try:
        value, end = read_varlong(content, position)
    except CorruptBatch:
        return
    assert -(2**63) <= value < 2**63
    assert position < end <= len(content)
