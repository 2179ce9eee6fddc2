"""Generation of encoders: straight-line Python for one version of one message.

Fixed-width values that follow each other, lengths and empty sections of tagged fields among them, are packed
by one `struct.pack`. The code only detects that a value cannot be encoded; `encoding_fault` finds which.

Names in the generated code: `message`, `parts` the list to append to, `out` bytes that are not in `parts`
yet.
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.schema.errors import Malformed, TooManyElements
from tidelog.plugins.schema.layout import (
    FEW_ELEMENTS,
    is_number,
    length_code,
    message_layout,
)
from tidelog.plugins.schema.reference import encoding_fault
from tidelog.plugins.schema.source import Source
from tidelog.plugins.schema.types import (
    BYTES,
    COPIED_BYTES,
    MAX_STRING_BYTES,
    RECORDS,
    STRING,
    UUID,
    Array,
    Primitive,
    Struct,
    append_bytes,
    size_of,
    uvarint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.schema.layout import Field, Layout
    from tidelog.plugins.schema.types import Kind

ELEMENTS_PER_STEP: Final = 64
PIECES_PER_PART: Final = 4096
"""Most pieces that are joined at once: joining millions takes tens of milliseconds."""

_FAULTS: Final = (Malformed, struct.error, AttributeError, TypeError, UnicodeEncodeError)

_RUNTIME: Final[tuple[tuple[str, Any], ...]] = (
    ("Malformed", Malformed),
    ("TooManyElements", TooManyElements),
    ("FAULTS", _FAULTS),
    ("fault_of", encoding_fault),
    ("pack", struct.pack),
    ("uvarint", uvarint),
    ("append_bytes", append_bytes),
    ("size_of", size_of),
)


class Size(Enum):
    """Size of the messages that an encoder is for."""

    ANY = auto()
    SMALL = auto()
    """At most `FEW_ELEMENTS`; more raise `TooManyElements`."""
    LARGE = auto()
    """Any size: the encoder is a generator function that yields before each step."""


def compile_encoder(cls: type[Any], version: int, size: Size = Size.ANY) -> Callable[..., Any]:
    """Return a function of a message and a list that appends the encoded parts to the list."""
    source = _encoder_source(cls, version, size)
    return source.function("encode", f"<encoder of {cls.__name__} v{version}>")


def encoder_source(cls: type[Any], version: int, size: Size = Size.ANY) -> str:
    """Return the source of an encoder, for debugging."""
    return _encoder_source(cls, version, size).text


def _encoder_source(cls: type[Any], version: int, size: Size) -> Source:
    source = Source(_RUNTIME)
    with source.indented("def encode(message, parts):"):
        source.line("before = len(parts)")
        if size is Size.SMALL:
            source.line(f"room = {FEW_ELEMENTS}")
        with source.indented("try:"):
            source.line("out = []")
            writer = _EncoderWriter(source, size)
            writer.struct(message_layout(cls, version), "message")
            writer.flush()
        with source.indented("except FAULTS:"):
            source.line("del parts[before:]")
            source.line(f"raise fault_of({source.refer(cls, cls.__name__)}, {version}, message) from None")
        if size is Size.SMALL:
            with source.indented("except TooManyElements:"):
                source.line("del parts[before:]")
                source.line("raise")
        if size is Size.LARGE:
            source.line("yield")
        with source.indented("if out:"):
            source.line('parts.append(b"".join(out))')
    return source


class _EncoderWriter:
    """Generator of one encoder: each method writes the code that encodes the expression `value`."""

    def __init__(self, source: Source, size: Size) -> None:
        self.source = source
        self._size = size
        self._out = "out"
        self._pending: list[tuple[str, str]] = []

    def struct(self, layout: Layout, value: str) -> None:
        """Write the code for a structure: its fields and its tagged fields; the last values stay pending."""
        for field in layout.absent:
            if not field.ignorable:
                self._refuse_if(f"not ({self._has_default(field, value)})")
        for field in layout.fields:
            self._value(layout, field.kind, f"{value}.{field.name}", nullable=field.nullable)
        if layout.tagged:
            self._tagged_fields(layout, value)
        elif layout.flexible:
            self._pending.append(("x", ""))

    def flush(self) -> None:
        """Write the code that packs the pending fixed-width values."""
        if self._pending:
            self._append(self._packed())
            self._pending.clear()

    def _append(self, expression: str) -> None:
        self.source.line(f"{self._out}.append({expression})")

    def _packed(self, *more: tuple[str, str]) -> str:
        """Return an expression for the bytes of the pending values and of `more`."""
        values = [*self._pending, *more]
        codes = "".join(code for code, _ in values)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        arguments = ", ".join(value for code, value in values if code != "x")
        return f"{self.source.struct_method('pack', codes)}({arguments})"

    def _flush_branches(self, condition: str, last: tuple[str, str]) -> None:
        """Write code that packs the pending values, and `last` if the condition holds; an `else:` follows."""
        with self.source.indented(f"if {condition}:"):
            self._append(self._packed(last))

    def _refuse_if(self, condition: str) -> None:
        with self.source.indented(f"if {condition}:"):
            self.source.line("raise Malformed")

    def _value(self, layout: Layout, kind: Kind, value: str, *, nullable: bool) -> None:
        if isinstance(kind, Struct):
            self._nested(layout, kind, value, nullable=nullable)
        elif isinstance(kind, Array):
            self._array(layout, kind, value, nullable=nullable)
        elif kind.code:
            self._fixed(kind, value)
        elif kind is STRING:
            self._string(layout, value, nullable=nullable)
        elif kind is RECORDS:
            self._records(layout, value, nullable=nullable)
        else:
            self._bytes(layout, value, nullable=nullable)

    def _fixed(self, kind: Primitive[Any], value: str) -> None:
        if kind is UUID:
            self._refuse_if(f"len({value}) != 16")
        self._pending.append((kind.code, value))

    def _nested(
        self, layout: Layout, kind: Struct, value: str, *, nullable: bool, null: bytes = b"\xff"
    ) -> None:
        """Write the code for a nested structure, after a byte if it is nullable: 1, or `null` for none."""
        name = self.source.fresh("s")
        self.source.line(f"{name} = {value}")
        if not nullable:
            self.struct(layout.nested(kind), name)
            return
        self.flush()
        with self.source.indented(f"if {name} is None:"):
            self._append(repr(null))
        with self.source.indented("else:"):
            self._pending.append(("b", "1"))
            self.struct(layout.nested(kind), name)
            self.flush()

    def _length(self, layout: Layout, kind: Array | Primitive[Any], length: str) -> None:
        """Write the code for a length or count, -1 for null, and for the values pending before it."""
        if not layout.flexible:
            self._pending.append((length_code(kind), length))
            self.flush()
            return
        self._flush_branches(f"{length} < 127", ("B", f"{length} + 1"))
        with self.source.indented("else:"):
            if self._pending:
                self._append(self._packed())
            self._append(f"uvarint({length} + 1)")
        self._pending.clear()

    def _string(self, layout: Layout, value: str, *, nullable: bool) -> None:
        self._content(layout, STRING, value, f"{value}.encode()", nullable=nullable)

    def _bytes(self, layout: Layout, value: str, *, nullable: bool) -> None:
        content = f"{value} if type({value}) is bytes else bytes(memoryview({value}))"
        self._content(layout, BYTES, value, content, nullable=nullable)

    def _content(
        self, layout: Layout, kind: Primitive[Any], value: str, content: str, *, nullable: bool
    ) -> None:
        if not nullable:
            self._present_content(layout, kind, content)
            return
        with self.source.indented(f"if {value} is None:"):
            self._append(self._packed(_null(layout, kind)))
        with self.source.indented("else:"):
            self._present_content(layout, kind, content)

    def _present_content(self, layout: Layout, kind: Primitive[Any], content: str) -> None:
        name, length = self.source.fresh("b"), self.source.fresh("n")
        self.source.line(f"{name} = {content}")
        self.source.line(f"{length} = len({name})")
        if layout.flexible and kind is STRING:
            self._refuse_if(f"{length} > {MAX_STRING_BYTES}")
        self._length(layout, kind, length)
        if kind is BYTES and self._out == "out":
            # The metadata of a group's members may be megabytes, which take milliseconds to copy.
            with self.source.indented(f"if {length} > {COPIED_BYTES}:"):
                self.source.line(f"append_bytes(out, parts, {name})")
            with self.source.indented("else:"):
                self._append(name)
        else:
            self._append(name)

    def _records(self, layout: Layout, value: str, *, nullable: bool) -> None:
        records, length = self.source.fresh("r"), self.source.fresh("n")
        self.source.line(f"{records} = {value}")
        null = f"-1 if {records} is None else " if nullable else ""
        self.source.line(f"{length} = {null}size_of({records})")
        self._length(layout, RECORDS, length)
        with self.source.indented(f"if {length} > 0:"):
            self.source.line(f"append_bytes({self._out}, parts, {records})")

    def _array(self, layout: Layout, kind: Array, value: str, *, nullable: bool) -> None:
        elements, count = self.source.fresh("a"), self.source.fresh("n")
        self.source.line(f"{elements} = {value}")
        null = f"-1 if {elements} is None else " if nullable else ""
        self.source.line(f"{count} = {null}len({elements})")
        self._length(layout, kind, count)
        if isinstance(kind.element, Primitive) and is_number(kind.element):
            self._numbers(kind.element, elements, count)
            return
        if self._size is Size.SMALL:
            self.source.line(f"room -= {count}")
            with self.source.indented("if room < 0:"):
                self.source.line("raise TooManyElements")
        element, sequence = self.source.fresh("e"), f"{elements}{' or ()' if nullable else ''}"
        if self._size is Size.LARGE:
            head = f"for i, {element} in enumerate({sequence}):"
        else:
            head = f"for {element} in {sequence}:"
        with self.source.indented(head):
            if self._size is Size.LARGE:
                self._step()
            self._value(layout, kind.element, element, nullable=False)
            self.flush()

    def _step(self) -> None:
        """Write the code that yields between steps and joins the parts encoded so far."""
        with self.source.indented(f"if not i % {ELEMENTS_PER_STEP}:"):
            self.source.line("yield")
            if self._out == "out":
                with self.source.indented(f"if len(out) > {PIECES_PER_PART}:"):
                    self.source.line('parts.append(b"".join(out))')
                    self.source.line("out.clear()")

    def _numbers(self, element: Primitive[Any], elements: str, count: str) -> None:
        with self.source.indented(f"if {count} > 0:"):
            self._append(f'pack(f">{{{count}}}{element.code}", *{elements})')

    def _tagged_fields(self, layout: Layout, value: str) -> None:
        absent = " and ".join(f"({self._has_default(field, value)})" for field in layout.tagged)
        self._flush_branches(absent, ("x", ""))
        with self.source.indented("else:"):
            if self._pending:
                self._append(self._packed())
                self._pending.clear()
            self._written_tagged_fields(layout, value)
        self._pending.clear()

    def _written_tagged_fields(self, layout: Layout, value: str) -> None:
        count, tagged = self.source.fresh("n"), self.source.fresh("t")
        self.source.line(f"{count} = 0")
        self.source.line(f"{tagged} = []")
        for field in layout.tagged:
            with self.source.indented(f"if not ({self._has_default(field, value)}):"):
                content = self._apart(layout, field, value)
                self.source.line(f"{count} += 1")
                tag = uvarint(field.tag or 0)
                self.source.line(f"{tagged} += ({tag!r}, uvarint(len({content})), {content})")
        self._append(f"uvarint({count})")
        self.source.line(f"{self._out} += {tagged}")

    def _apart(self, layout: Layout, field: Field, value: str) -> str:
        """Write the code that encodes a field whose size precedes it; return the variable with its bytes."""
        outer, self._out = self._out, self.source.fresh("o")
        self.source.line(f"{self._out} = []")
        if isinstance(field.kind, Struct) and field.nullable:
            self._nested(layout, field.kind, f"{value}.{field.name}", nullable=True, null=b"\0")
        else:
            self._value(layout, field.kind, f"{value}.{field.name}", nullable=field.nullable)
        self.flush()
        inner, self._out = self._out, outer
        content = self.source.fresh("c")
        self.source.line(f'{content} = b"".join({inner})')
        return content

    def _has_default(self, field: Field, value: str) -> str:
        """Return a condition that is true when the field has its default."""
        attribute, default = f"{value}.{field.name}", self._default(field)
        if field.default is None:
            return f"{attribute} is None"
        # A structure is compared in Python; most of the time it is the very object that the class shares.
        same = f"{attribute} is {default} or " if isinstance(field.kind, Struct) else ""
        return f"{same}{attribute} == {default}"

    def _default(self, field: Field) -> str:
        if field.default_is_factory:
            return self.source.literal(field.make_default()) if field.default is not list else "[]"
        return self.source.literal(field.default)


def _null(layout: Layout, kind: Primitive[Any]) -> tuple[str, str]:
    """Return the length that represents null, as code and expression."""
    return ("x", "") if layout.flexible else (length_code(kind), "-1")
