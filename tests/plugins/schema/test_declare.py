"""Declarations: what they check, and what users of messages see of them."""

from __future__ import annotations

import pytest

from tests.plugins.schema.samples import Pair, Point, Text
from tests.tables import for_each
from tidelog.plugins.schema import decode, decoder, encode, encoder
from tidelog.plugins.schema.declare import VersionSpan, int8, struct
from tidelog.plugins.schema.decoder import decoder_source
from tidelog.plugins.schema.encoder import encoder_source


@struct(VersionSpan(2, 12, flexible=None))
class Ranges:
    """Fields of various versions."""

    always: int = int8()
    since: int = int8(versions="10+", default=1)
    between: int = int8(versions="3-10", default=2)
    once: int = int8(versions="4", default=3)


@for_each(("version", "size"), [(2, 1), (3, 2), (4, 3), (5, 2), (9, 2), (10, 3), (11, 2), (12, 2)])
def test_struct_fields_are_encoded_in_their_versions_only(version: int, size: int) -> None:
    assert (
        encode(Ranges(always=7), version) == bytes([7, 1, 2, 3][:1]) + encode(Ranges(always=7), version)[1:]
    )
    assert len(encode(Ranges(always=7), version)) == size
    assert decode(Ranges, version, encode(Ranges(always=7), version)) == Ranges(always=7)


@pytest.mark.parametrize("version", [-1, 0, 1, 13])
def test_decoder_and_encoder_refuse_versions_outside_of_the_version_span(version: int) -> None:
    with pytest.raises(ValueError, match=rf"Ranges has versions 2 to 12, not {version}"):
        decoder(Ranges, version)
    with pytest.raises(ValueError, match="Ranges has versions"):
        encoder(Ranges, version)


def test_a_structure_is_no_message() -> None:
    with pytest.raises(TypeError, match="Pair is not a message"):
        decoder(Pair, 0)


def test_a_field_that_can_be_lacking_needs_a_default() -> None:
    @struct(VersionSpan(0, 1))
    class Broken:
        """No default for version 0."""

        value: int = int8(versions="1+")

    with pytest.raises(TypeError, match=r"Broken.value needs a default: version 0 can lack it"):
        decoder(Broken, 0)


def test_decoder_and_encoder_of_a_struct_are_compiled_once_per_version() -> None:
    assert decoder(Text, 0) is decoder(Text, 0)
    assert encoder(Text, 0) is encoder(Text, 0)
    assert decoder(Text, 0) is not decoder(Text, 1)


def test_struct_compares_by_value_and_refuses_changes_when_frozen() -> None:
    assert Pair(key="a", number=1) == Pair(key="a", number=1) != Pair(key="a", number=2)
    assert repr(Pair(key="a", number=1)) == "Pair(key='a', number=1)"
    with pytest.raises(AttributeError):
        Point().x = 1  # type: ignore[misc]


def test_decoder_source_and_encoder_source_of_a_struct_are_python_code() -> None:
    assert "def decode(buf, pos):" in decoder_source(Text, 0)
    assert "def encode(message, parts):" in encoder_source(Text, 0)
