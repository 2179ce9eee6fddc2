"""Values in Avro's binary encoding, without a header."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from typing import Any

from tidelog.plugins.schema_validation.documents import is_array, is_object
from tidelog.plugins.schema_validation.unfit import Unfit


def avro_check(content: bytes) -> Callable[[bytes], None]:
    """Return what checks values by a schema in JSON.

    A schema that refers to itself is refused, since the decoder follows a value however deep it is; and so is
    an array of elements that take no byte, of which a value of ten bytes can have any number.

    Raises:
        ValueError: the schema cannot be used.
        ModuleNotFoundError: fastavro is not installed.
    """
    fastavro: Any = import_module("fastavro")
    schema = json.loads(content)
    _Bounds().least_bytes(schema, "")
    try:
        parsed = fastavro.parse_schema(schema)
    except Exception as error:
        raise ValueError(f"it is no Avro schema: {error}") from error
    read = fastavro.schemaless_reader

    def check(value: bytes) -> None:
        stream = BytesIO(value)
        try:
            read(stream, parsed, None)
        # The decoder raises what its parts do: EOFError, IndexError, UnicodeDecodeError and others.
        except Exception as error:
            raise Unfit(f"the value is not of the Avro schema: {type(error).__name__}: {error}") from None
        if stream.tell() != len(value):
            raise Unfit(f"{len(value) - stream.tell()} bytes follow the Avro value")

    return check


class _Bounds:
    """A walk over a schema that finds what would not be bounded by the size of a value."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._known: dict[str, int] = {}

    def least_bytes(self, schema: Any, namespace: str) -> int:
        """Return how many bytes a value has at least.

        Raises:
            ValueError: the schema refers to itself, or has an array of elements without bytes.
        """
        if is_array(schema):
            for each in schema:
                self.least_bytes(each, namespace)
            return 1
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if not is_object(schema):
            raise ValueError(f"{schema!r} is no schema")
        kind = schema.get("type")
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind in ("array", "map"):
            items = self.least_bytes(schema.get("items" if kind == "array" else "values"), namespace)
            # The key of an entry of a map has a byte, its length.
            if kind == "array" and not items:
                raise ValueError(
                    "it has an array of elements that take no bytes, of which there may be any number"
                )
            return 1
        if kind in ("enum", "fixed"):
            size = 1 if kind == "enum" else int(schema.get("size", 0))
            self._known[_full_name(schema, namespace)] = size
            return size
        return self.least_bytes(kind, namespace)

    def _record(self, declared: dict[str, Any], namespace: str) -> int:
        name = _full_name(declared, namespace)
        inner = name.rpartition(".")[0]
        self._open.add(name)
        size = sum(self.least_bytes(field.get("type"), inner) for field in declared.get("fields", ()))
        self._open.discard(name)
        self._known[name] = size
        return size

    def _named(self, name: str, namespace: str) -> int:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self._open:
                raise ValueError(f"{each} refers to itself, so that values can be nested without a limit")
            if each in self._known:
                return self._known[each]
        return 0 if name == "null" else 1


def _full_name(declared: dict[str, Any], namespace: str) -> str:
    name = str(declared.get("name", ""))
    space = str(declared.get("namespace", namespace))
    return name if "." in name or not space else f"{space}.{name}"
