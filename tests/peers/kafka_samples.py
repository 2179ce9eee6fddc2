"""Samples of declared messages, with the JSON by which `KafkaMessages.java` knows the same values.

Every field takes each of its candidates once while the others stay as they are: edge values of integers,
null, empty and long content, characters of one to four bytes, defaults and values that are not.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from tidelog.plugins.schema.declare import versions_of
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import (
    BOOL,
    BYTES,
    FLOAT64,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    Struct,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.plugins.schema.layout import Field, Layout
    from tidelog.plugins.schema.types import Kind, Primitive

_TEXTS = ("a", "", "naïve Ж €", "\U0001f30a\0", "x" * 300)
_CONTENTS = (b"\0\1", b"", bytes(range(256)))
_NUMBERS = (0.0, -1.5, 1e300)
_UUIDS = (bytes(range(16)), ZERO_UUID, b"\xff" * 16)


class Sample(NamedTuple):
    """A message in one version."""

    message: Any
    version: int


def samples_of(cls: type[Any]) -> Iterator[Sample]:
    """Samples of a message in all of its versions."""
    span = versions_of(cls)
    for version in range(span.low, span.high + 1):
        for message in _messages(message_layout(cls, version)):
            yield Sample(message, version)


def kafka_json(sample: Sample, names: Mapping[str, str]) -> Any:
    """What a sample is to Kafka's converters; `names` are fields that are called otherwise there."""
    return _json_struct(message_layout(type(sample.message), sample.version), sample.message, names)


def field_names(cls: type[Any], names: Mapping[str, str]) -> dict[str, set[str]]:
    """The fields that a message has in any version, by its class and those within it."""
    found = {cls.__name__: {_kafka_name(attribute.name, names) for attribute in attrs.fields(cls)}}
    layout = message_layout(cls, versions_of(cls).high)
    for inner in _inner_classes(layout):
        found[inner.__name__] = {_kafka_name(attribute.name, names) for attribute in attrs.fields(inner)}
    return found


def _inner_classes(layout: Layout) -> Iterator[type[Any]]:
    for field in layout.fields + layout.tagged:
        kind = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(kind, Struct):
            yield kind.cls
            yield from _inner_classes(layout.nested(kind))


def _messages(layout: Layout) -> Iterator[Any]:
    fields = layout.fields + layout.tagged
    absent = {field.name: field.make_default() for field in layout.absent}
    candidates = {field.name: list(_candidates(layout, field)) for field in fields}
    first = {name: values[0] for name, values in candidates.items()}
    yield layout.cls(**absent, **first)
    for name, values in candidates.items():
        for value in values[1:]:
            yield layout.cls(**absent, **{**first, name: value})


def _candidates(layout: Layout, field: Field) -> Iterator[Any]:
    yield from _values(layout, field.kind)
    if field.nullable:
        yield None
    if field.tag is not None:
        yield field.make_default()


def _values(layout: Layout, kind: Kind) -> Iterator[Any]:
    if isinstance(kind, Array):
        inner = list(_values(layout, kind.element))
        yield inner[:1]
        yield []
        yield inner
    elif isinstance(kind, Struct):
        yield from _messages(layout.nested(kind))
    else:
        yield from _primitives(kind)


def _primitives(kind: Primitive[Any]) -> Iterator[Any]:
    by_kind: dict[object, tuple[Any, ...]] = {
        STRING: _TEXTS, BYTES: _CONTENTS, FLOAT64: _NUMBERS, UUID: _UUIDS, BOOL: (True, False)
    }  # fmt: skip
    if kind in by_kind:
        yield from by_kind[kind]
        return
    bits = kind.size * 8
    low, high = (0, 2**bits - 1) if kind.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    yield from (1, 0, low, high)
    if low:
        yield -1


def _kafka_name(name: str, names: Mapping[str, str]) -> str:
    head, *rest = names.get(name, name).split("_")
    return head + "".join(part.capitalize() for part in rest)


def _json_struct(layout: Layout, message: Any, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        _kafka_name(field.name, names): _json(layout, field.kind, getattr(message, field.name), names)
        for field in layout.fields + layout.tagged
    }


def _json(layout: Layout, kind: Kind, value: Any, names: Mapping[str, str]) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_json(layout, kind.element, element, names) for element in value]
    if isinstance(kind, Struct):
        return _json_struct(layout.nested(kind), value, names)
    if kind is UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if kind is BYTES else value
