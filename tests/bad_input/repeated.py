"""Requests that name the same thing, or ever other things, as often as a megabyte holds.

They are made from the declarations of the messages: every array of every request that is served, also within
the elements of another array, so that a new API is covered by itself.
"""

from __future__ import annotations

import copy
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.messages.create_topics import CreateTopicsRequest
from tidelog.plugins.schema import ZERO_UUID, encode
from tidelog.plugins.schema.declare import spec_of
from tidelog.plugins.schema.layout import LARGE_REQUEST, struct_layout
from tidelog.plugins.schema.types import (
    BYTES,
    INT8,
    RECORDS,
    STRING,
    UUID,
    Array,
    Primitive,
    Struct,
)

from .requests import ask
from .samples import sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.plugins.protocol_kafka.messages.api import Api
    from tidelog.plugins.schema.types import Kind

    from .raw_client import RawClient
    from .requests import Sent

LARGEST = 1_000_000
NOWHERE = "nowhere"
KINDS = {"resource_type", "resource_type_filter", "config_operation"}
"""Fields of few values, which tell no element from another."""
LONG_TEXT = "x" * 1000


class Elements(Enum):
    """What the elements of a repeated array are."""

    SAME = "the same"
    EACH_ANOTHER = "each another"
    LONG = "each another and long"


class Repeated(NamedTuple):
    """One array of one version of one API's requests, and what it is filled with."""

    api: Api
    version: int
    path: tuple[str, ...]
    elements: Elements

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {'.'.join(self.path)}: {self.elements.value}"


def repeated_arrays() -> list[Repeated]:
    """Every array of the last version of every API, and of the first those that the last does not have."""
    found: list[Repeated] = []
    for served in BUILT_IN:
        api = APIS[served.key]
        seen: set[tuple[str, ...]] = set()
        for version in sorted({served.span.low, served.span.high}, reverse=True):
            for path, kind in _arrays(api.request_class, version, api.versions.is_flexible(version)):
                if path in seen:
                    continue
                seen.add(path)
                found.append(Repeated(api, version, path, Elements.SAME))
                # There are not enough bytes for as many elements, each another.
                if version == served.span.high and kind.element is not INT8:
                    found.append(Repeated(api, version, path, Elements.EACH_ANOTHER))
                    if _has_text(kind, version):
                        found.append(Repeated(api, version, path, Elements.LONG))
    return found


def _arrays(cls: type[Any], version: int, flexible: bool) -> Iterator[tuple[tuple[str, ...], Array]]:
    layout = struct_layout(cls, version, flexible)
    for field in layout.fields + layout.tagged:
        if isinstance(field.kind, Array):
            yield (field.name,), field.kind
            if isinstance(field.kind.element, Struct):
                for path, kind in _arrays(field.kind.element.cls, version, flexible):
                    yield (field.name, *path), kind


def _has_text(kind: Array, version: int) -> bool:
    if isinstance(kind.element, Primitive):
        return kind.element is STRING
    fields = struct_layout(kind.element.cls, version, False).fields
    return any(field.kind is STRING for field in fields)


def request_of(repeated: Repeated, client: RawClient) -> Sent:
    """The request, as large as a megabyte and the limit on elements allow."""
    message: Any = sample(client, repeated.api, repeated.version)
    if isinstance(message, CreateTopicsRequest) and repeated.version > 0:
        # The first version cannot only check; a name that is refused stays refused there.
        message.validate_only = True
        message.topics[0].name = NOWHERE
    owner, name = _owner(message, repeated.path)
    element = _first(owner, name)
    setattr(owner, name, [])
    size = len(encode(message, repeated.version))
    (one,) = _elements(element, 1, repeated.elements)
    setattr(owner, name, [one])
    each = len(encode(message, repeated.version)) - size
    in_each = 1 + _elements_in(one)
    count = (LARGEST - size) // (each + 3)
    count = min(LARGE_REQUEST.most_elements(size + count * each) // in_each - 10, count)
    setattr(owner, name, _elements(element, count, repeated.elements))
    return ask(repeated.api, repeated.version, message)


def _owner(message: Any, path: tuple[str, ...]) -> tuple[Any, str]:
    for name in path[:-1]:
        elements = getattr(message, name)
        if not elements:
            elements = [_first(message, name)]
            setattr(message, name, elements)
        del elements[1:]
        message = elements[0]
    return message, path[-1]


def _first(owner: Any, name: str) -> Any:
    """An element that is there, or a plain one."""
    elements = getattr(owner, name)
    if elements:
        return elements[0]
    kind = spec_of(attrs.fields_dict(type(owner))[name]).kind
    assert isinstance(kind, Array)
    return _plain(kind.element)


def _plain(kind: Kind) -> Any:
    if isinstance(kind, Struct):
        return kind.cls(**{field.name: _plain(spec_of(field).kind) for field in attrs.fields(kind.cls)})
    if isinstance(kind, Array):
        return []
    if kind is STRING:
        return NOWHERE
    if kind is UUID:
        return ZERO_UUID
    return b"" if kind in (BYTES, RECORDS) else 0


def _elements(element: Any, count: int, elements: Elements) -> list[Any]:
    if elements is Elements.SAME:
        return [element] * count
    if not attrs.has(type(element)):
        return [_another(element, number, elements) for number in range(count)]
    names = _telling_fields(element)
    first = [(name, getattr(element, name)) for name in names]
    changed = [copy.copy(element) for _ in range(count)]
    for number, each in enumerate(changed):
        for name, value in first:
            setattr(each, name, _another(value, number, elements))
    return changed


def _telling_fields(element: Any) -> list[str]:
    """Names of the fields that tell elements apart: an id, and the first text or number."""
    names: list[str] = []
    for field in attrs.fields(type(element)):
        value = getattr(element, field.name)
        if field.name in KINDS:
            continue
        if isinstance(value, str | int) and not isinstance(value, bool):
            return [*names, field.name]
        if spec_of(field).kind is UUID and value != ZERO_UUID:
            names.append(field.name)
    return names


def _another(value: Any, number: int, elements: Elements) -> Any:
    if isinstance(value, bytes):
        return number.to_bytes(16, "big")
    if isinstance(value, str):
        return f"{value}-{number}{LONG_TEXT if elements is Elements.LONG else ''}"
    return value + number


def _elements_in(element: Any) -> int:
    if not attrs.has(type(element)):
        return 0
    count = 0
    for field in attrs.fields(type(element)):
        value = getattr(element, field.name)
        if isinstance(value, list):
            count += sum(1 + _elements_in(each) for each in value)
    return count
