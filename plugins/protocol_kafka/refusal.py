"""Responses to requests that are refused as a whole, with the error where Kafka has it for each API.

A structure with an error code of its own gets the code, and its arrays are empty. In other responses, each
element with an error code is there for each element of the request, under the same name, id or index. Source:
`getErrorResponse` of the classes in `org.apache.kafka.common.requests`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from tidelog.plugins.schema.layout import Field, struct_layout
from tidelog.plugins.schema.types import BYTES, STRING, UUID, ZERO_UUID, Array, Struct

Steps: TypeAlias = Generator[None, None, Any]

ALIASES: Final = {"partition_index": "partition"}
"""Names in responses, and the other ones that they have in some requests."""
ERROR_MESSAGE: Final = "error_message"
SCALARS: Final = (int, str, bytes)
_FIELDS: Final[dict[tuple[type[Any], int], tuple[Field, ...]]] = {}
_ZEROS: Final[dict[Any, Any]] = {STRING: "", UUID: ZERO_UUID, BYTES: b""}


class RefusedWith(NamedTuple):
    """The error, and the version of the response that it is put into."""

    version: int
    code: int
    message: str | None


def refusal(response_class: type[Any], version: int, request: Any, code: int, text: str | None) -> Steps:
    """Return the response to a request that is refused, in steps: it may name very many things."""
    return (yield from _refused(response_class, request, RefusedWith(version, code, text)))


def _refused(cls: type[Any], source: Any, error: RefusedWith) -> Steps:
    """Return an instance for a structure of the request, or for a value of one of its arrays."""
    fields = _fields(cls, error.version)
    has_code, key, is_value = (
        any(map(_is_code, fields)),
        _key(cls, error.version),
        isinstance(source, SCALARS),
    )
    values: dict[str, Any] = {}
    for field in fields:
        if isinstance(field.kind, Array):
            values[field.name] = [] if has_code else (yield from _each_refused(field, source, error))
        elif _is_code(field):
            values[field.name] = error.code
        elif field.name == ERROR_MESSAGE:
            values[field.name] = error.message
        elif is_value:
            values[field.name] = source if field is key else _zero(field)
        elif (name := _name_in(source, field)) is not None:
            values[field.name] = getattr(source, name)
        elif field.default is attrs.NOTHING:
            values[field.name] = _zero(field)
    return cls(**values)


def _each_refused(field: Field, source: Any, error: RefusedWith) -> Steps:
    """Return the elements of an array, for those of an array of the request."""
    refused: list[Any] = []
    element = field.kind.element if isinstance(field.kind, Array) else None
    if isinstance(element, Struct):
        key = _key(element.cls, error.version)
        for each in _elements(field.name, source, error.version):
            # What the request has there may be something else.
            if key is None or isinstance(each, SCALARS) or _name_in(each, key) is not None:
                refused.append((yield from _refused(element.cls, each, error)))
            yield
    return refused


def _elements(name: str, source: Any, version: int) -> Sequence[Any]:
    """Return the array of the request that has this name, else its first one."""
    if isinstance(source, SCALARS):
        return ()
    arrays = [field.name for field in _fields(source.__class__, version) if isinstance(field.kind, Array)]
    if not arrays:
        return ()
    return getattr(source, name if name in arrays else arrays[0]) or ()


def _key(cls: type[Any], version: int) -> Field | None:
    """Return the field that names what an element is about, None if there is none."""
    named = (
        field
        for field in _fields(cls, version)
        if not (_is_code(field) or field.name == ERROR_MESSAGE or isinstance(field.kind, Array | Struct))
    )
    return next(named, None)


def _name_in(source: Any, field: Field) -> str | None:
    """Return the name of a field in a structure of the request, None if it has no such field."""
    names = (field.name, ALIASES.get(field.name, ""))
    return next((name for name in names if hasattr(source, name)), None)


def _zero(field: Field) -> Any:
    return None if field.nullable or isinstance(field.kind, Struct) else _ZEROS.get(field.kind, 0)


def _is_code(field: Field) -> bool:
    return field.name.endswith("error_code")


def _fields(cls: type[Any], version: int) -> tuple[Field, ...]:
    """Return the fields of a structure in this version, whose layout is resolved once."""
    found = _FIELDS.get((cls, version))
    if found is None:
        found = _FIELDS[cls, version] = struct_layout(cls, version, flexible=False).fields
    return found
