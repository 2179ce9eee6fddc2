"""Reference codec: interprets the declarations, slow and simple.

It defines what the compiled codec has to do (tests compare the two), and it finds the reason why the compiled
codec refused bytes or values.

Null is -1 as a length or count, stored as it is in versions that are not flexible; flexible versions store
length + 1 as an unsigned varint, hence 0 for null. In front of a nullable structure stands an int8, negative
for null; if the field has a tag it is an unsigned varint, 0 for null.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.plugins.schema.errors import DecodeError, EncodeError, Malformed
from tidelog.plugins.schema.layout import (
    ANY_MESSAGE,
    MAX_ELEMENTS,
    Budget,
    element_size,
    length_code,
    message_layout,
)
from tidelog.plugins.schema.types import (
    BYTES,
    MAX_STRING_BYTES,
    MAX_TAGGED_FIELDS,
    RECORDS,
    STRING,
    Primitive,
    Struct,
    content_of,
    read_uvarint,
    size_of,
    uvarint,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tidelog.plugins.schema.layout import Field, Layout
    from tidelog.plugins.schema.types import Array, Kind


EXPLAINED_ELEMENTS: Final = 500
"""Most elements in the search for an error, which a peer must not extend beyond some milliseconds."""


def reference_decode(
    cls: type[Any], version: int, buffer: bytes | memoryview, position: int = 0
) -> tuple[Any, int]:
    """Return the message at `position` and the position after it.

    Raises:
        DecodeError: the bytes are malformed.
        ValueError: the message has no such version.
    """
    reader = _Reader(cls.__name__, version, memoryview(buffer), position)
    message = reader.struct(message_layout(cls, version))
    return message, reader.position


def reference_encode(message: object, version: int) -> bytes:
    """Return the encoding of a message; regions of files are refused.

    Raises:
        EncodeError: a value cannot be encoded in the version.
        ValueError: the message has no such version.
    """
    writer = _Writer(type(message).__name__, version)
    writer.struct(message_layout(type(message), version), message)
    return bytes(writer.out)


def decoding_fault(
    cls: type[Any], version: int, buffer: memoryview, position: int, budget: Budget
) -> DecodeError:
    """Return the error in bytes that the compiled decoder with that budget refused."""
    reader = _Reader(cls.__name__, version, buffer, position, budget, EXPLAINED_ELEMENTS)
    try:
        reader.struct(message_layout(cls, version))
    except DecodeError as fault:
        return fault
    return DecodeError(cls.__name__, version, "", "only the compiled decoder refuses it")


def encoding_fault(cls: type[Any], version: int, message: Any) -> EncodeError:
    """Return the error in a message that the compiled encoder refused."""
    writer = _Writer(cls.__name__, version, regions_as_zeros=True)
    try:
        writer.struct(message_layout(cls, version), message)
    except EncodeError as fault:
        return fault
    return EncodeError(cls.__name__, version, "", "only the compiled encoder refuses it")


class _Path:
    """Path to the current field of a message, for error texts."""

    def __init__(self) -> None:
        self._steps: list[str | int] = []

    @contextmanager
    def at(self, step: str | int) -> Generator[None]:
        self._steps.append(step)
        try:
            yield
        finally:
            self._steps.pop()

    def __str__(self) -> str:
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self._steps)
        return text.removeprefix(".")


class _Reader:
    def __init__(
        self,
        message: str,
        version: int,
        buffer: memoryview,
        position: int,
        budget: Budget = ANY_MESSAGE,
        patience: int = MAX_ELEMENTS,
    ) -> None:
        self.message = message
        self.version = version
        self.buffer = buffer
        self.position = position
        self.elements = 0
        self.budget = budget
        self.most_elements = budget.most_elements(len(buffer) - position)
        self.patience = patience
        self.path = _Path()

    def fail(self, reason: str) -> NoReturn:
        raise DecodeError(self.message, self.version, str(self.path), f"{reason} at byte {self.position}")

    def take(self, size: int) -> memoryview:
        remaining = len(self.buffer) - self.position
        if size > remaining:
            self.fail(f"{size} bytes are needed but {max(remaining, 0)} are left")
        taken = self.buffer[self.position : self.position + size]
        self.position += size
        return taken

    def fixed(self, code: str) -> Any:
        layout = struct.Struct(">" + code)
        return layout.unpack(self.take(layout.size))[0]

    def uvarint(self) -> int:
        try:
            value, self.position = read_uvarint(self.buffer, self.position)
        except Malformed as fault:
            self.fail(str(fault))
        except IndexError:
            self.fail("a varint is cut off")
        return value

    def length(self, layout: Layout, kind: Array | Primitive[Any], nullable: bool) -> int | None:
        length = self.uvarint() - 1 if layout.flexible else int(self.fixed(length_code(kind)))
        if length == -1 and nullable:
            return None
        if length == -1:
            self.fail("null is not allowed here")
        if length < 0:
            self.fail(f"a negative length, {length},")
        return length

    def struct(self, layout: Layout) -> Any:
        values: dict[str, Any] = {field.name: field.make_default() for field in layout.absent + layout.tagged}
        for field in layout.fields:
            with self.path.at(field.name):
                values[field.name] = self.value(layout, field.kind, field.nullable)
        if layout.flexible:
            self.tagged_fields(layout, values)
        return layout.cls(**values)

    def tagged_fields(self, layout: Layout, values: dict[str, Any]) -> None:
        known = {field.tag: field for field in layout.tagged}
        count = self.uvarint()
        if count > MAX_TAGGED_FIELDS:
            self.fail(f"{count} tagged fields are more than {MAX_TAGGED_FIELDS}; they start")
        self.spend(count)
        for _ in range(count):
            field = known.get(self.uvarint())
            size = self.uvarint()
            if field is None:
                self.take(size)
                continue
            with self.path.at(field.name):
                end = self.position + size
                values[field.name] = self.tagged_value(layout, field)
                if self.position != end:
                    self.fail(f"the tagged field says it ends at byte {end}, but its value ends")

    def tagged_value(self, layout: Layout, field: Field) -> Any:
        if isinstance(field.kind, Struct) and field.nullable:
            return self.struct(layout.nested(field.kind)) if self.uvarint() else None
        return self.value(layout, field.kind, field.nullable)

    def value(self, layout: Layout, kind: Kind, nullable: bool) -> Any:
        if isinstance(kind, Struct):
            if nullable and self.fixed("b") < 0:
                return None
            return self.struct(layout.nested(kind))
        if isinstance(kind, Primitive) and kind.code:
            return self.fixed(kind.code)
        length = self.length(layout, kind, nullable)
        if length is None:
            return None
        if isinstance(kind, Primitive):
            return self.variable(kind, length)
        return self.array(layout, kind, length)

    def variable(self, kind: Primitive[Any], length: int) -> str | bytes | memoryview:
        if kind is RECORDS:
            return self.take(length)
        if kind is BYTES:
            return self.take(length).tobytes()
        if length > MAX_STRING_BYTES:
            self.fail(f"a string of {length} bytes, more than {MAX_STRING_BYTES},")
        content = self.take(length).tobytes()
        try:
            return content.decode()
        except UnicodeDecodeError:
            self.fail("a string that is not UTF-8 ends")

    def array(self, layout: Layout, kind: Array, count: int) -> list[Any]:
        remaining = len(self.buffer) - self.position
        if count * element_size(layout, kind.element) > remaining:
            self.fail(f"{count} elements cannot be in the {remaining} bytes that are left")
        self.spend(count // self.budget.share(kind))
        elements: list[Any] = []
        for index in range(count):
            with self.path.at(index):
                elements.append(self.value(layout, kind.element, nullable=False))
        return elements

    def spend(self, count: int) -> None:
        """Take elements from the budget."""
        self.elements += count
        most = self.most_elements
        if self.elements > most:
            self.fail(f"{self.elements} elements are more than there may be in one message, {most},")
        if self.elements > self.patience:
            self.fail(f"a fault behind so many elements ({self.elements}) is not looked for; they start")


class _Writer:
    def __init__(self, message: str, version: int, *, regions_as_zeros: bool = False) -> None:
        self.message = message
        self.version = version
        self.regions_as_zeros = regions_as_zeros
        self.out = bytearray()
        self.path = _Path()

    def fail(self, reason: str) -> NoReturn:
        raise EncodeError(self.message, self.version, str(self.path), reason)

    def struct(self, layout: Layout, message: Any) -> None:
        if not isinstance(message, layout.cls):
            self.fail(f"{message!r} is not a {layout.cls.__name__}")
        for field in layout.absent:
            with self.path.at(field.name):
                self.dropped(field, getattr(message, field.name))
        for field in layout.fields:
            with self.path.at(field.name):
                self.value(layout, field.kind, getattr(message, field.name), field.nullable)
        if layout.flexible:
            self.tagged_fields(layout, message)

    def dropped(self, field: Field, value: Any) -> None:
        if not field.ignorable and value != field.make_default():
            self.fail(f"this version has no such field, and {value!r} cannot be left out")

    def tagged_fields(self, layout: Layout, message: Any) -> None:
        written = [field for field in layout.tagged if getattr(message, field.name) != field.make_default()]
        self.out += uvarint(len(written))
        for field in written:
            inner = _Writer(self.message, self.version)
            inner.path = self.path
            with self.path.at(field.name):
                inner.tagged_value(layout, field, getattr(message, field.name))
            self.out += uvarint(field.tag or 0) + uvarint(len(inner.out)) + inner.out

    def tagged_value(self, layout: Layout, field: Field, value: Any) -> None:
        if isinstance(field.kind, Struct) and field.nullable:
            self.out += uvarint(0 if value is None else 1)
            if value is not None:
                self.struct(layout.nested(field.kind), value)
        else:
            self.value(layout, field.kind, value, field.nullable)

    def value(self, layout: Layout, kind: Kind, value: Any, nullable: bool) -> None:
        if value is None and not nullable:
            self.fail("null is not allowed here")
        if isinstance(kind, Struct):
            if nullable:
                self.fixed("b", -1 if value is None else 1)
            if value is not None:
                self.struct(layout.nested(kind), value)
        elif isinstance(kind, Primitive) and kind.code:
            self.primitive(kind, value)
        elif isinstance(kind, Primitive):
            content = None if value is None else self.content(kind, value)
            self.length(layout, kind, content)
            self.out += content or b""
        else:
            self.array(layout, kind, value)

    def fixed(self, code: str, value: Any) -> None:
        try:
            self.out += struct.pack(">" + code, value)
        except struct.error as fault:
            self.fail(f"{value!r} cannot be written: {fault}")

    def primitive(self, kind: Primitive[Any], value: Any) -> None:
        if kind.code == "16s" and (not isinstance(value, bytes) or len(value) != kind.size):
            self.fail(f"{value!r} is not a uuid: 16 bytes are needed")
        self.fixed(kind.code, value)

    def length(self, layout: Layout, kind: Array | Primitive[Any], value: Sequence[Any] | None) -> None:
        length = -1 if value is None else len(value)
        if layout.flexible:
            self.out += uvarint(length + 1)
        else:
            self.fixed(length_code(kind), length)

    def content(self, kind: Primitive[Any], value: Any) -> bytes:
        if kind is STRING:
            return self.text(value)
        try:
            if kind is BYTES:
                return bytes(memoryview(value))
            return bytes(size_of(value)) if self.regions_as_zeros else content_of(value)
        except (TypeError, AttributeError) as fault:
            self.fail(f"{type(value).__name__} cannot be written as {kind.name}: {fault}")

    def text(self, value: Any) -> bytes:
        if not isinstance(value, str):
            self.fail(f"{value!r} is not a string")
        try:
            content = value.encode()
        except UnicodeEncodeError as fault:
            self.fail(f"{value!r} has no UTF-8 encoding: {fault.reason}")
        if len(content) > MAX_STRING_BYTES:
            self.fail(f"a string of {len(content)} bytes, more than {MAX_STRING_BYTES}")
        return content

    def array(self, layout: Layout, kind: Array, value: Any) -> None:
        if value is not None and not _is_list(value):
            self.fail(f"{value!r} is not a list")
        self.length(layout, kind, value)
        for index, element in enumerate(value or ()):
            with self.path.at(index):
                self.value(layout, kind.element, element, nullable=False)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)
