"""What a few bytes from a peer can cost."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from tests.plugins.schema.samples import CLASSIC, FLEXIBLE, Lists, NullablePairs, Pairs, Tagged
from tests.tables import for_each
from tidelog.plugins.schema import DecodeError, decode
from tidelog.plugins.schema.declare import VersionSpan, array, struct
from tidelog.plugins.schema.layout import MAX_ELEMENTS, NUMBERS_PER_ELEMENT
from tidelog.plugins.schema.reference import EXPLAINED_ELEMENTS
from tidelog.plugins.schema.types import STRING, uvarint


@struct()
class Empty:
    """In flexible versions a structure takes a byte even without fields, in others none."""


@struct(VersionSpan(0, 1, flexible=1))
class Empties:
    """A list of structures of next to no bytes."""

    value: list[Empty] = array(Empty)


@struct(VersionSpan(0, 1, flexible=1))
class Names:
    """Two lists of strings, whose elements count together."""

    first: list[str] = array(STRING)
    second: list[str] = array(STRING)


@for_each(
    ("cls", "version", "written"),
    [
        (Pairs, CLASSIC, "7fffffff"),
        (NullablePairs, CLASSIC, "7fffffff"),
        (Lists, CLASSIC, "7fffffff"),
        (Lists, CLASSIC, "00000000 7fffffff"),
        (Lists, FLEXIBLE, "01 01 ffffffff0f"),
        (Pairs, FLEXIBLE, "ffffffff07"),
        (Empties, FLEXIBLE, "ffffffff07"),
        (Tagged, FLEXIBLE, "01 01 01 05 ffffffff07"),
    ],
)
def test_a_large_count_fails_at_once(cls: type[Any], version: int, written: str) -> None:
    with pytest.raises(DecodeError):
        decode(cls, version, bytes.fromhex(written))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(cls, version, bytes.fromhex(written))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_decode_limits_the_elements_of_all_lists_of_a_message_together() -> None:
    half = MAX_ELEMENTS // 2
    fits = b"".join((uvarint(half + 1), b"\x01" * half, uvarint(half + 1), b"\x01" * half, b"\x00"))
    message = decode(Names, FLEXIBLE, fits)
    assert len(message.first) + len(message.second) == MAX_ELEMENTS
    one_more = b"".join((uvarint(half + 1), b"\x01" * half, uvarint(half + 2), b"\x01" * (half + 1), b"\x00"))
    with pytest.raises(DecodeError, match=r"field first: a fault behind so many elements \(500000\)"):
        decode(Names, FLEXIBLE, one_more)
    with pytest.raises(
        DecodeError, match="1000001 elements are more than there may be in one message, 1000000,"
    ):
        decode(Names, FLEXIBLE, uvarint(MAX_ELEMENTS + 2) + b"\x01" * (MAX_ELEMENTS + 3))


def test_decode_does_not_locate_a_fault_behind_too_many_elements() -> None:
    count = EXPLAINED_ELEMENTS + 1
    encoded = uvarint(count + 1) + b"\x01" * count
    with pytest.raises(DecodeError, match=r"field first: a fault behind so many elements \(501\) is not"):
        decode(Names, FLEXIBLE, encoded)
    with pytest.raises(DecodeError, match="field second: a varint is cut off"):
        decode(Names, FLEXIBLE, uvarint(count) + b"\x01" * (count - 1))


def test_eight_numbers_count_as_one_element() -> None:
    most = (MAX_ELEMENTS + 1) * NUMBERS_PER_ELEMENT - 1
    fits = most.to_bytes(4, "big") + bytes(2 * most) + bytes(8)
    assert len(decode(Lists, CLASSIC, fits).numbers) == most
    one_more = (most + 1).to_bytes(4, "big") + bytes(2 * most + 2) + bytes(8)
    with pytest.raises(DecodeError, match="more than there may be in one message, 1000000, at byte"):
        decode(Lists, CLASSIC, one_more)


def test_lists_of_elements_without_bytes_cannot_be_declared() -> None:
    assert decode(Empties, FLEXIBLE, b"\x03\x00\x00\x00").value == [Empty(), Empty()]
    with pytest.raises(TypeError, match="Empties v0 has elements of no bytes"):
        decode(Empties, CLASSIC, bytes(4))
