"""Encodings of keys and values: what a person writes and reads for the bytes that a record has.

Numbers are big-endian, as Kafka's serializers write them.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs

_NUMBERS: Final[Mapping[str, str]] = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint8": ">B",
    "uint16": ">H",
    "uint32": ">I",
    "uint64": ">Q",
    "float32": ">f",
    "float64": ">d",
}


@attrs.frozen
class RecordEncoding:
    """One way to write bytes as text.

    Attributes:
        name: what options call it
        parse: makes bytes of text; raises ValueError
        show: makes what JSON can have of bytes; raises ValueError
    """

    name: str
    parse: Callable[[str], bytes]
    show: Callable[[bytes], Any]

    def from_input(self, given: bytes) -> bytes:
        """Return the bytes of a record for a part of the input, which any bytes may be if it is text.

        Raises:
            ValueError: it has another form.
        """
        return given if self.name == TEXT else self.parse(given.decode())

    def from_json(self, given: object) -> bytes:
        """Return the bytes of a record for a JSON value; raises as `from_input`."""
        if self.name != JSON and isinstance(given, str):
            return self.parse(given)
        return self.parse(compact_json(given))

    def to_output(self, data: bytes) -> bytes:
        """Return what is printed for the bytes of a record, which are printed as they are if it is text.

        Raises:
            ValueError: the bytes are no such thing.
        """
        if self.name == TEXT:
            return data
        shown = self.show(data)
        return (shown if isinstance(shown, str) and self.name != JSON else compact_json(shown)).encode()


def compact_json(value: object) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _checked_json(text: str) -> bytes:
    json.loads(text)
    return text.encode()


def _bytes_of_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _text_of_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes_of_number(name: str, form: str, text: str) -> bytes:
    number = float(text) if name.startswith("float") else int(text)
    try:
        return struct.pack(form, number)
    except (struct.error, OverflowError):
        raise ValueError(f"{text} is no {name}") from None


def _number_of(name: str, form: str, data: bytes) -> int | float:
    size = struct.calcsize(form)
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes, and {name} has {size}")
    found: int | float = struct.unpack(form, data)[0]
    return found


TEXT: Final = "text"
JSON: Final = "json"
ENCODINGS: Final[Mapping[str, RecordEncoding]] = {
    each.name: each
    for each in (
        RecordEncoding(TEXT, str.encode, bytes.decode),
        RecordEncoding(JSON, _checked_json, json.loads),
        RecordEncoding("hex", bytes.fromhex, bytes.hex),
        RecordEncoding("base64", _bytes_of_base64, _text_of_base64),
        *(
            RecordEncoding(name, partial(_bytes_of_number, name, form), partial(_number_of, name, form))
            for name, form in _NUMBERS.items()
        ),
    )
}
