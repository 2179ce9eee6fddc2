"""Every kind of field, byte by byte, in both codecs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.plugins.schema.samples import (
    CLASSIC,
    FLEXIBLE,
    Batches,
    Content,
    Lists,
    Nested,
    NullableContent,
    NullablePairs,
    NullableText,
    Numbers,
    Pair,
    Pairs,
    Text,
)
from tests.tables import for_each
from tidelog.plugins.schema import DecodeError, EncodeError, decode, encode
from tidelog.plugins.schema.reference import reference_decode, reference_encode

ID = bytes(range(16))
NUMBERS = (
    "80 8000 80000000 8000000000000000 ffff ffffffff 4009000000000000 01 000102030405060708090a0b0c0d0e0f"
)
LONG = "x" * 300

VECTORS = [
    pytest.param(
        Numbers(
            a=-128, b=-(1 << 15), c=-(1 << 31), d=-(1 << 63), e=0xFFFF, f=0xFFFFFFFF, g=3.125, h=True, i=ID
        ),
        NUMBERS,
        NUMBERS + "00",
        id="numbers",
    ),
    pytest.param(Text(value=""), "0000", "01 00", id="empty string"),
    pytest.param(Text(value="é"), "0002 c3a9", "03 c3a9 00", id="string"),
    pytest.param(Text(value=LONG), "012c" + "78" * 300, "ad02" + "78" * 300 + "00", id="long string"),
    pytest.param(NullableText(value=None), "ffff", "00 00", id="null string"),
    pytest.param(NullableText(value="a"), "0001 61", "02 61 00", id="nullable string"),
    pytest.param(Content(value=b""), "00000000", "01 00", id="empty bytes"),
    pytest.param(Content(value=b"\xff\x00"), "00000002 ff00", "03 ff00 00", id="bytes"),
    pytest.param(NullableContent(value=None), "ffffffff", "00 00", id="null bytes"),
    pytest.param(NullableContent(value=b"a"), "00000001 61", "02 61 00", id="nullable bytes"),
    pytest.param(Batches(value=None), "0001 ffffffff 0002", "0001 00 0002 00", id="null records"),
    pytest.param(Batches(value=b"\xaa"), "0001 00000001 aa 0002", "0001 02 aa 0002 00", id="records"),
    pytest.param(Pairs(value=[]), "00000000", "01 00", id="empty list"),
    pytest.param(
        Pairs(value=[Pair(key="a", number=1), Pair(key="", number=2)]),
        "00000002 0001 61 00000001 0000 00000002",
        "03 02 61 00000001 00 01 00000002 00 00",
        id="list",
    ),
    pytest.param(NullablePairs(value=None), "ffffffff", "00 00", id="null list"),
    pytest.param(NullablePairs(value=[]), "00000000", "01 00", id="empty nullable list"),
    pytest.param(
        Lists(numbers=[1, -1], texts=["a", ""], ids=[ID]),
        "00000002 0001 ffff 00000002 0001 61 0000 00000001" + ID.hex(),
        "03 0001 ffff 03 02 61 01 02" + ID.hex() + "00",
        id="lists of primitives",
    ),
    pytest.param(
        Nested(always=Pair(key="a", number=1), perhaps=None),
        "0001 61 00000001 ff",
        "02 61 00000001 00 ff 00",
        id="null structure",
    ),
    pytest.param(
        Nested(always=Pair(key="a", number=1), perhaps=Pair(key="", number=2)),
        "0001 61 00000001 01 0000 00000002",
        "02 61 00000001 00 01 01 00000002 00 00",
        id="nullable structure",
    ),
]


@for_each(("message", "classic", "flexible"), VECTORS)
def test_encode_and_decode_every_kind_of_field_byte_by_byte(
    message: Any, classic: str, flexible: str
) -> None:
    for version, written in ((CLASSIC, classic), (FLEXIBLE, flexible)):
        encoded = bytes.fromhex(written)
        assert encode(message, version) == encoded
        assert reference_encode(message, version) == encoded
        assert decode(type(message), version, encoded) == message
        assert reference_decode(type(message), version, encoded) == (message, len(encoded))


def test_decode_reads_any_boolean_byte_but_0_as_true() -> None:
    encoded = bytes.fromhex(NUMBERS.replace("4009000000000000 01", "4009000000000000 02"))
    assert decode(Numbers, CLASSIC, encoded).h is True


def test_numbers_that_are_none() -> None:
    message = Numbers(a=0, b=0, c=0, d=0, e=0, f=0, g=math.nan, h=False, i=ID)
    assert math.isnan(decode(Numbers, CLASSIC, encode(message, CLASSIC)).g)


def test_decoded_records_are_no_copy() -> None:
    buffer = bytearray(encode(Batches(value=b"abc"), CLASSIC))
    message = decode(Batches, CLASSIC, memoryview(buffer))
    assert isinstance(message.value, memoryview)
    buffer[6:9] = b"xyz"
    assert bytes(message.value) == b"xyz"


def test_decoded_bytes_are_a_copy() -> None:
    buffer = bytearray(encode(Content(value=b"abc"), CLASSIC))
    message = decode(Content, CLASSIC, memoryview(buffer))
    buffer[4:7] = b"xyz"
    assert message.value == b"abc"


REFUSED_BYTES = [
    pytest.param(Text, CLASSIC, "ffff", "null", id="null string"),
    pytest.param(Text, FLEXIBLE, "00 00", "null", id="null compact string"),
    pytest.param(Text, CLASSIC, "fffe", "negative length, -2", id="negative string"),
    pytest.param(Text, CLASSIC, "0003 6161", "3 bytes are needed but 2 are left", id="cut string"),
    pytest.param(Text, CLASSIC, "0001 ff", "not UTF-8", id="string of other bytes"),
    pytest.param(
        Text, FLEXIBLE, "818002" + "61" * 32768 + "00", "32768 bytes, more than 32767", id="huge string"
    ),
    pytest.param(Text, FLEXIBLE, "ffffffff7f", "varint of more than 32 bits", id="overflowing varint"),
    pytest.param(Text, FLEXIBLE, "808080808000", "varint of more than 5 bytes", id="overlong varint"),
    pytest.param(Text, FLEXIBLE, "ff", "varint is cut off", id="cut varint"),
    pytest.param(Content, CLASSIC, "ffffffff", "null", id="null bytes"),
    pytest.param(
        Content, CLASSIC, "7fffffff 00", "2147483647 bytes are needed but 1 are left", id="huge bytes"
    ),
    pytest.param(Batches, CLASSIC, "0001 80000000", "negative length", id="negative records"),
    pytest.param(Batches, CLASSIC, "0001 7fffffff aa", "bytes are needed", id="huge records"),
    pytest.param(Pairs, CLASSIC, "7fffffff", "2147483647 elements cannot be in the 0 bytes", id="huge list"),
    pytest.param(
        Pairs, CLASSIC, "00000002 000000000000 0000000000", "2 elements cannot be", id="list too long"
    ),
    pytest.param(Pairs, CLASSIC, "ffffffff", "null", id="null list"),
    pytest.param(Lists, CLASSIC, "7fffffff 0001", "2147483647 elements cannot", id="huge list of numbers"),
    pytest.param(Numbers, CLASSIC, "00 0000 000000", "4 bytes are needed but 3 are left", id="cut number"),
]


@for_each(("cls", "version", "written", "reason"), REFUSED_BYTES)
def test_refused_bytes(cls: type[Any], version: int, written: str, reason: str) -> None:
    with pytest.raises(
        DecodeError, match=rf"^{cls.__name__} v{version}, field \w+: .*{reason}.* at byte \d+$"
    ):
        decode(cls, version, bytes.fromhex(written))


def test_bytes_left_behind_are_refused() -> None:
    with pytest.raises(DecodeError, match="Text v0: 2 bytes are left behind the message"):
        decode(Text, CLASSIC, bytes.fromhex("0000 0000"))


def test_decode_error_names_message_version_field_and_position() -> None:
    encoded = encode(Pairs(value=[Pair(key="a", number=1), Pair(key="b", number=2)]), CLASSIC)
    with pytest.raises(DecodeError) as caught:
        decode(Pairs, CLASSIC, encoded[:-1])
    fault = caught.value
    assert (fault.message, fault.version, fault.field) == ("Pairs", CLASSIC, "value[1].number")
    assert fault.reason == "4 bytes are needed but 3 are left at byte 14"


PLAIN: dict[str, Any] = {"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0, "g": 0.0, "h": False, "i": ID}


def numbers(**changed: Any) -> Numbers:
    """Harmless numbers but for one."""
    return Numbers(**(PLAIN | changed))


REFUSED_VALUES: list[Any] = [
    pytest.param(numbers(a=128), "a", "128 cannot be written", id="int8"),
    pytest.param(numbers(c=1 << 31), "c", "cannot be written", id="int32"),
    pytest.param(numbers(e=-1), "e", "-1 cannot be written", id="uint16"),
    pytest.param(numbers(i=b"short"), "i", "16 bytes are needed", id="short uuid"),
    pytest.param(numbers(d=None), "d", "null is not allowed", id="null number"),
    pytest.param(Text(value=None), "value", "null is not allowed", id="null string"),  # type: ignore[arg-type]
    pytest.param(Text(value=b"a"), "value", "is not a string", id="bytes as string"),  # type: ignore[arg-type]
    pytest.param(Text(value="\ud800"), "value", "has no UTF-8 encoding", id="lone surrogate"),
    pytest.param(Text(value="x" * 32768), "value", "32768 bytes, more than 32767", id="huge string"),
    pytest.param(Content(value=None), "value", "null is not allowed", id="null bytes"),  # type: ignore[arg-type]
    pytest.param(Content(value="a"), "value", "str cannot be written as bytes", id="text as bytes"),  # type: ignore[arg-type]
    pytest.param(Batches(value="a"), "value", "str cannot be written as records", id="text as records"),  # type: ignore[arg-type]
    pytest.param(Pairs(value=None), "value", "null is not allowed", id="null list"),  # type: ignore[arg-type]
    pytest.param(Pairs(value=7), "value", "7 is not a list", id="number as list"),  # type: ignore[arg-type]
    pytest.param(Pairs(value=[None]), r"value\[0\]", "null is not allowed", id="null element"),  # type: ignore[list-item]
    pytest.param(Pairs(value=[1]), r"value\[0\]", "1 is not a Pair", id="other element"),  # type: ignore[list-item]
]


@for_each(("message", "field", "reason"), REFUSED_VALUES)
@for_each("version", [CLASSIC, FLEXIBLE])
def test_refused_values(message: Any, version: int, field: str, reason: str) -> None:
    with pytest.raises(
        EncodeError, match=rf"^{type(message).__name__} v{version}, field {field}: .*{reason}"
    ):
        encode(message, version)
