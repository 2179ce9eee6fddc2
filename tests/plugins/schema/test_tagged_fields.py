"""Tagged fields: written when they differ from their default, found by tag, skipped when unknown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.schema.samples import CLASSIC, FLEXIBLE, Point, Tagged, TaggedStructure
from tests.tables import for_each
from tidelog.plugins.schema import DecodeError, EncodeError, decode, encode
from tidelog.plugins.schema.reference import reference_decode, reference_encode

VECTORS = [
    pytest.param(Tagged(plain=1), "01 00", id="all defaults"),
    pytest.param(Tagged(plain=1, number=7, point=Point(x=-1, y=-1)), "01 00", id="equal to the defaults"),
    pytest.param(Tagged(plain=1, number=8), "01 01 00 04 00000008", id="number"),
    pytest.param(Tagged(plain=1, text="a"), "01 01 03 02 02 61", id="text"),
    pytest.param(Tagged(plain=1, numbers=[1, 2]), "01 01 01 05 03 0001 0002", id="list"),
    pytest.param(Tagged(plain=1, maybe=""), "01 01 04 01 01", id="empty text where null is the default"),
    pytest.param(
        Tagged(plain=1, point=Point(x=1)), "01 01 c801 05 0001 ffff 00", id="structure with a large tag"
    ),
    pytest.param(
        Tagged(plain=1, text="a", number=8, numbers=[1], point=Point(x=1, y=2), maybe="b", note="c"),
        "01 06 00 04 00000008 01 03 02 0001 03 02 02 61 04 02 02 62 05 02 02 63 c801 05 0001 0002 00",
        id="all, in the order of their tags",
    ),
]


@for_each(("message", "written"), VECTORS)
def test_encode_and_decode_tagged_fields_byte_by_byte(message: Tagged, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert encode(message, FLEXIBLE) == reference_encode(message, FLEXIBLE) == encoded
    assert decode(Tagged, FLEXIBLE, encoded) == message
    assert reference_decode(Tagged, FLEXIBLE, encoded) == (message, len(encoded))


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (TaggedStructure(), "00"),
        (TaggedStructure(point=None), "01 00 01 00"),
        (TaggedStructure(point=Point(x=1, y=2)), "01 00 06 01 0001 0002 00"),
    ],
    ids=["default", "null", "another"],
)
def test_a_varint_is_in_front_of_a_nullable_structure(message: TaggedStructure, written: str) -> None:
    encoded = bytes.fromhex(written)
    assert encode(message, FLEXIBLE) == reference_encode(message, FLEXIBLE) == encoded
    assert decode(TaggedStructure, FLEXIBLE, encoded) == message
    assert reference_decode(TaggedStructure, FLEXIBLE, encoded) == (message, len(encoded))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("01 01 09 03 aabbcc", Tagged(plain=1), id="unknown"),
        pytest.param("01 02 00 04 00000008 8901 00", Tagged(plain=1, number=8), id="unknown behind known"),
        pytest.param("01 02 02 01 ff 03 02 02 61", Tagged(plain=1, text="a"), id="unknown before known"),
        pytest.param(
            "01 01 c801 07 0001 0002 01 05 00", Tagged(plain=1, point=Point(x=1, y=2)), id="unknown within"
        ),
        pytest.param(
            "01 02 03 02 02 61 00 04 00000008", Tagged(plain=1, number=8, text="a"), id="other order"
        ),
    ],
)
def test_decode_skips_unknown_tagged_fields(written: str, expected: Tagged) -> None:
    encoded = bytes.fromhex(written)
    assert decode(Tagged, FLEXIBLE, encoded) == expected
    assert reference_decode(Tagged, FLEXIBLE, encoded) == (expected, len(encoded))


@for_each(
    ("written", "reason"),
    [
        pytest.param(
            "01 01 00 05 00000008 00", "field number: the tagged field says", id="longer than its value"
        ),
        pytest.param(
            "01 01 00 03 00000008", "field number: the tagged field says", id="shorter than its value"
        ),
        pytest.param("01 01 00 04 0000", "field number: 4 bytes are needed", id="cut value"),
        pytest.param("01 01 09 7f 00", "127 bytes are needed but 1 are left", id="cut unknown"),
        pytest.param("01 ffffffff0f", "4294967295 tagged fields are more than 1000", id="too many"),
        pytest.param("01 02 00 04 00000008", "varint is cut off", id="one too few"),
        pytest.param("01", "varint is cut off", id="no section"),
        pytest.param("01 01 03 01 00", "field text: null", id="null text"),
    ],
)
def test_decode_refuses_malformed_tagged_fields(written: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"^Tagged v1.*{reason}"):
        decode(Tagged, FLEXIBLE, bytes.fromhex(written))


@pytest.mark.parametrize(
    ("values", "field"),
    [({"text": None}, "text"), ({"number": 1 << 40}, "number"), ({"point": None}, "point")],
)
def test_values_that_cannot_be_written(values: dict[str, Any], field: str) -> None:
    with pytest.raises(EncodeError, match=f"^Tagged v1, field {field}"):
        encode(Tagged(plain=1, **values), FLEXIBLE)


def test_encode_in_a_version_without_tagged_fields_drops_only_ignorable_ones() -> None:
    assert encode(Tagged(plain=1, note="lost"), CLASSIC) == b"\x01"
    assert decode(Tagged, CLASSIC, b"\x01") == Tagged(plain=1)
    with pytest.raises(EncodeError, match="Tagged v0, field text: this version has no such field, and 'a'"):
        encode(Tagged(plain=1, text="a"), CLASSIC)


def test_decoded_lists_are_not_shared() -> None:
    first, second = (decode(Tagged, FLEXIBLE, b"\x01\x00") for _ in range(2))
    first.numbers.append(1)
    assert second.numbers == []
    assert Tagged(plain=1).numbers == []
