"""The compiled codec against the reference codec, for every layout of every message."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plugins.protocol_kafka.messages.strategies import (
    all_versions,
    messages,
    minimal,
    newest_of_each_layout,
    structs_of,
)
from tests.tables import for_each
from tidelog.plugins.schema import EncodeError, decode, decoder, encode
from tidelog.plugins.schema.layout import Field, message_layout
from tidelog.plugins.schema.reference import reference_decode, reference_encode
from tidelog.plugins.schema.types import STRING, UUID, Array, Primitive

QUICK = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(("cls", "version"), newest_of_each_layout(all_versions(), older=[pytest.mark.long]))
@QUICK
@given(data=st.data())
def test_encode_and_decode_agree_with_reference_encode_and_reference_decode(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(cls, version))
    encoded = encode(message, version)
    assert encoded == reference_encode(message, version)
    assert decode(cls, version, encoded) == message
    assert reference_decode(cls, version, encoded) == (message, len(encoded))


@for_each(("cls", "version"), all_versions())
def test_decoder_reads_a_message_from_the_middle_of_a_buffer(cls: type[Any], version: int) -> None:
    message = minimal(cls, version)
    encoded = encode(message, version)
    assert encoded == reference_encode(message, version)
    buffer = memoryview(bytearray(b"before" + encoded + b"behind"))
    assert decoder(cls, version)(buffer, 6) == (message, 6 + len(encoded))


@for_each(("cls", "version"), all_versions())
def test_encode_drops_or_refuses_fields_that_the_version_lacks(cls: type[Any], version: int) -> None:
    layout = message_layout(cls, version)
    plain = encode(minimal(cls, version), version)
    for place, (_, inner) in enumerate(structs_of(minimal(cls, version), layout)):
        for field in inner.absent:
            message = minimal(cls, version)
            changed = list(structs_of(message, layout))[place][0]
            setattr(changed, field.name, other_than_default(field))
            if field.ignorable:
                assert encode(message, version) == reference_encode(message, version) == plain
            else:
                with pytest.raises(EncodeError, match=rf"{cls.__name__} v{version}, field .*{field.name}:"):
                    encode(message, version)


def other_than_default(field: Field) -> Any:
    """A value that is not the field's default."""
    if isinstance(field.kind, Primitive):
        if field.kind is STRING:
            return "something else"
        return b"\1" * 16 if field.kind is UUID else 1 - int(field.default)
    return (
        [None] if isinstance(field.kind, Array) else attrs.evolve(field.default, **one_changed(field.default))
    )


def one_changed(default: Any) -> dict[str, int]:
    name = attrs.fields(type(default))[0].name
    return {name: getattr(default, name) + 1}
