"""Hypothesis strategies for messages, made from their declarations, and a list of all their versions."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest
from hypothesis import strategies as st

from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Primitive,
    Struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

    from hypothesis.strategies import SearchStrategy

    from tidelog.plugins.schema.layout import Field, Layout
    from tidelog.plugins.schema.types import Kind

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("x" * 200)
_CONTENT = st.binary(max_size=12) | st.just(bytes(200))
_PRIMITIVES: dict[Primitive[Any], SearchStrategy[Any]] = {
    STRING: _TEXT,
    BYTES: _CONTENT,
    RECORDS: _CONTENT.map(memoryview),
    UUID: st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    BOOL: st.booleans(),
    FLOAT64: st.floats(allow_nan=False),
}


def all_versions(*, requests_only: bool = False) -> list[Any]:
    """Every message class with every version that it has, as parameters of a test."""
    return [
        pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
        for api in APIS.values()
        for cls in ((api.request_class,) if requests_only else (api.request_class, api.response_class))
        for version in range(api.versions.low, api.versions.high + 1)
    ]


def newest_of_each_layout(versions: Iterable[Any], older: Collection[pytest.MarkDecorator] = ()) -> list[Any]:
    """Of versions whose messages have the same fields in the same places, the last one.

    The compiled codecs of such versions are equal: random messages would find the same in each of them. All
    get the marks `older` but the last one of each class, and the last one that is not flexible.
    """
    found = list({_fingerprint(message_layout(*each.values)): each for each in versions}.values())
    newest = {(each.values[0], message_layout(*each.values).flexible): each for each in found}.values()
    return [each if each in newest else pytest.param(*each.values, id=each.id, marks=older) for each in found]


def _fingerprint(layout: Layout) -> Hashable:
    """All of a layout but its number."""
    return (
        layout.cls,
        layout.flexible,
        *(
            tuple(
                (
                    field.name,
                    _kind_of(layout, field.kind),
                    field.nullable,
                    field.ignorable,
                    field.tag,
                    repr(field.default),
                )
                for field in fields
            )
            for fields in (layout.fields, layout.tagged)
        ),
        tuple(field.name for field in layout.absent),
    )


def _kind_of(layout: Layout, kind: Kind) -> Hashable:
    if isinstance(kind, Struct):
        return _fingerprint(layout.nested(kind))
    return ("array", _kind_of(layout, kind.element)) if isinstance(kind, Array) else id(kind)


def _nothing_special(_: Field) -> SearchStrategy[Any] | None:
    return None


def messages(
    cls: type[Any],
    version: int,
    special: Callable[[Field], SearchStrategy[Any] | None] = _nothing_special,
) -> SearchStrategy[Any]:
    """Messages that a version can carry; fields that it lacks have their defaults.

    `special` may give a field a strategy of its own.
    """
    return _messages(cast("Hashable", cls), version, special)


# To make and validate a strategy takes as long as all that is drawn from it in a test.
@cache
def _messages(
    cls: Hashable, version: int, special: Callable[[Field], SearchStrategy[Any] | None]
) -> SearchStrategy[Any]:
    return _structs(message_layout(cast("type[Any]", cls), version), special)


def _structs(layout: Layout, special: Callable[[Field], SearchStrategy[Any] | None]) -> SearchStrategy[Any]:
    values: dict[str, SearchStrategy[Any]] = {}
    for field in layout.fields + layout.tagged:
        own = special(field)
        values[field.name] = _values(layout, field.kind, field.nullable, special) if own is None else own
    for field in layout.tagged:
        values[field.name] = st.builds(field.make_default) | values[field.name]
    return st.builds(layout.cls, **values)


def _values(
    layout: Layout, kind: Kind, nullable: bool, special: Callable[[Field], SearchStrategy[Any] | None]
) -> SearchStrategy[Any]:
    if isinstance(kind, Struct):
        strategy = _structs(layout.nested(kind), special)
    elif isinstance(kind, Array):
        strategy = st.lists(_values(layout, kind.element, False, special), max_size=3)
    else:
        strategy = _primitives(kind)
    return st.none() | strategy if nullable else strategy


def _primitives(kind: Primitive[Any]) -> SearchStrategy[Any]:
    return _PRIMITIVES[kind] if kind in _PRIMITIVES else _integers(kind)


def _integers(kind: Primitive[Any]) -> SearchStrategy[int]:
    signed = kind.code.islower()
    bits = 8 * struct.calcsize(">" + kind.code)
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


def minimal(cls: type[Any], version: int) -> Any:
    """A message with one element in every array that the version has, and empty or zero values."""
    return _minimal_struct(message_layout(cls, version))


def _minimal_struct(layout: Layout) -> Any:
    values = {field.name: _minimal_value(layout, field.kind) for field in layout.fields}
    values |= {
        field.name: _minimal_value(layout, field.kind) for field in layout.tagged if _is_array(field.kind)
    }
    return layout.cls(**values)


def _is_array(kind: Kind) -> bool:
    return isinstance(kind, Array)


def _minimal_value(layout: Layout, kind: Kind) -> Any:
    if isinstance(kind, Struct):
        return _minimal_struct(layout.nested(kind))
    if isinstance(kind, Array):
        return [_minimal_value(layout, kind.element)]
    if kind.code:
        return bytes(16) if kind is UUID else 0
    return {STRING: "", BYTES: b"", RECORDS: memoryview(b"")}[kind]


def structs_of(message: Any, layout: Layout) -> Iterable[tuple[Any, Layout]]:
    """The message and every structure within it that its version has, with their layouts."""
    yield message, layout
    for field in layout.fields + layout.tagged:
        kind = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(kind, Struct):
            value = getattr(message, field.name)
            for inner in value if isinstance(value, list) else [value]:
                yield from structs_of(inner, layout.nested(kind))


def field_names(cls: type[Any]) -> list[str]:
    """The attributes of a message class."""
    return [attribute.name for attribute in attrs.fields(cls)]
