"""Unsigned varints, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.schema.errors import Malformed
from tidelog.plugins.schema.types import (
    MAX_UVARINT,
    read_uvarint,
    skip_tagged_fields,
    uvarint,
)

VECTORS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (2097151, "ffff7f"),
    (2097152, "80808001"),
    (268435456, "8080808001"),
    (MAX_UVARINT, "ffffffff0f"),
]


@for_each(("value", "written"), VECTORS)
def test_uvarint_and_read_uvarint_byte_by_byte(value: int, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert uvarint(value) == encoded
    assert read_uvarint(b"\xaa" + encoded + b"\xbb", 1) == (value, 1 + len(encoded))


@given(value=st.integers(0, MAX_UVARINT))
def test_read_uvarint_returns_every_value_that_uvarint_writes(value: int) -> None:
    encoded = uvarint(value)
    assert len(encoded) <= 5
    assert read_uvarint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("written", ["ffffffff10", "ffffffff7f", "808080808000", "ffffffffffffffffff01"])
def test_read_uvarint_refuses_more_than_5_bytes_or_32_bits(written: str) -> None:
    with pytest.raises(Malformed):
        read_uvarint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("written", ["", "80", "ffffffff"])
def test_read_uvarint_raises_index_error_on_truncated_bytes(written: str) -> None:
    with pytest.raises(IndexError):
        read_uvarint(bytes.fromhex(written), 0)


@pytest.mark.parametrize(
    ("section", "end"), [("00", 1), ("01 00 00", 3), ("02 00 01 aa 8001 03 aabbcc", 10), ("01 07 00 ff", 3)]
)
def test_skip_tagged_fields_returns_the_position_behind_them(section: str, end: int) -> None:
    buffer = bytes.fromhex(section)
    assert skip_tagged_fields(buffer, 1, buffer[0], len(buffer)) == end


@for_each("section", ["01", "01 00", "01 00 01", "02 00 00", "ffffffff0f 00 00", "01 00 ffffffff0f"])
def test_skip_tagged_fields_refuses_malformed_sections(section: str) -> None:
    buffer = bytes.fromhex(section)
    with pytest.raises((Malformed, IndexError)):
        skip_tagged_fields(buffer, 1, buffer[0], len(buffer))
