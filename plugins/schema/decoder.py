"""Generation of decoders: straight-line Python for one version of one message.

Values that follow each other are read together where that can be (`runs`). Structures are built without
calling a constructor: their attributes are assigned.
The code only detects malformed bytes; `decoding_fault` finds the reason afterwards.

Names in the generated code: `buf` the buffer, `pos` the position in it, `size` its length, `room` how many
more elements and tagged fields the message may have.
"""

from __future__ import annotations

import struct
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.schema.errors import Malformed, TooManyElements
from tidelog.plugins.schema.layout import (
    ANY_MESSAGE,
    Budget,
    element_size,
    is_number,
    message_layout,
)
from tidelog.plugins.schema.reference import decoding_fault
from tidelog.plugins.schema.runs import RunWriter
from tidelog.plugins.schema.source import Source
from tidelog.plugins.schema.types import (
    BYTES,
    MAX_STRING_BYTES,
    MAX_TAGGED_FIELDS,
    RECORDS,
    STRING,
    Array,
    Primitive,
    Struct,
    continue_uvarint,
    read_uvarint,
    skip_tagged_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.schema.layout import Field, Layout
    from tidelog.plugins.schema.runs import Variable

ELEMENTS_PER_STEP: Final = 64

_FAULTS: Final = (Malformed, struct.error, IndexError, UnicodeDecodeError)

_RUNTIME: Final[tuple[tuple[str, Any], ...]] = (
    ("Malformed", Malformed),
    ("TooManyElements", TooManyElements),
    ("FAULTS", _FAULTS),
    ("fault_of", decoding_fault),
    ("new", object.__new__),
    ("repeat", repeat),
    ("unpack_from", struct.unpack_from),
    ("continue_uvarint", continue_uvarint),
    ("read_uvarint", read_uvarint),
    ("skip_tagged_fields", skip_tagged_fields),
)


def compile_decoder(
    cls: type[Any], version: int, budget: Budget = ANY_MESSAGE
) -> Callable[..., tuple[Any, int]]:
    """Return a function of buffer and position that returns a message and the position after it.

    With a budget `in_steps` it is a generator function, whose generator returns them.
    """
    source = _decoder_source(cls, version, budget)
    return source.function("decode", f"<decoder of {cls.__name__} v{version}>")


def decoder_source(cls: type[Any], version: int, budget: Budget = ANY_MESSAGE) -> str:
    """Return the source of a decoder, for debugging."""
    return _decoder_source(cls, version, budget).text


def _decoder_source(cls: type[Any], version: int, budget: Budget) -> Source:
    source = Source(_RUNTIME)
    with source.indented("def decode(buf, pos):"):
        with source.indented("if type(buf) is not memoryview:"):
            source.line("buf = memoryview(buf)")
        source.line("size = len(buf)")
        source.line("start = pos")
        if budget.bytes_per_element:
            source.line(f"room = {source.refer(budget)}.most_elements(size - pos)")
        else:
            source.line(f"room = {budget.elements}")
        with source.indented("try:"):
            _DecoderWriter(source, budget).struct(message_layout(cls, version), "message")
        with source.indented("except FAULTS:"):
            arguments = f"{source.refer(cls, cls.__name__)}, {version}, buf, start, {source.refer(budget)}"
            source.line(f"raise fault_of({arguments}) from None")
        if budget.in_steps:
            source.line("yield")
        source.line("return message, pos")
    return source


class _DecoderWriter(RunWriter):
    """Generator of one decoder: each method writes the code that reads a value and assigns it to `target`."""

    def __init__(self, source: Source, budget: Budget) -> None:
        super().__init__(source, count_numbers=budget.numbers_in_full)
        self._budget = budget

    def struct(self, layout: Layout, target: str) -> None:
        """Write the code for a structure: its object, its fields, its tagged fields."""
        cls = self.source.refer(layout.cls, layout.cls.__name__)
        if _is_frozen(layout.cls):
            targets = {field.name: self.source.fresh("v") for field in layout.every_field}
            self._fields(layout, targets)
            arguments = ", ".join(f"{name}={value}" for name, value in targets.items())
            self.source.line(f"{target} = {cls}({arguments})")
            return
        built = self.source.fresh("s")
        self.source.line(f"{built} = new({cls})")
        self._attributes(layout, built)
        self.source.line(f"{target} = {built}")

    def _attributes(self, layout: Layout, built: str) -> None:
        """Write the code that assigns the attributes of an object that has none yet."""
        self._fields(layout, {field.name: f"{built}.{field.name}" for field in layout.every_field})

    def _fields(self, layout: Layout, targets: dict[str, str]) -> None:
        for field in layout.absent:
            self._default(field, targets[field.name])
        for field in layout.fields:
            self._value(layout, field, targets[field.name])
        if layout.flexible:
            self._tagged_fields(layout, targets)
        self.flush()

    def _value(self, layout: Layout, field: Field, target: str) -> None:
        if isinstance(field.kind, Struct):
            self._nested(layout, field.kind, target, nullable=field.nullable)
        elif isinstance(field.kind, Primitive) and field.kind.code:
            self.add(field.kind.code, target)
        else:
            empty = field.kind is not RECORDS and (field.nullable or field.default_is_factory)
            self.add_variable(layout, field.kind, target, nullable=field.nullable, usually_empty=empty)

    def whole_value(self, value: Variable) -> None:
        """See `RunWriter.whole_value`."""
        length = value.length
        if value.layout.flexible:
            if value.kind is RECORDS:
                self._continue_size(length)
            else:
                self._continue_uvarint(length)
            self.source.line(f"{length} -= 1")
        if not value.nullable:
            self._variable(value.layout, value.kind, value.target, length)
            return
        with self.source.indented(f"if {length} == -1:"):
            self.source.line(f"{value.target} = None")
        with self.source.indented("else:"):
            self._variable(value.layout, value.kind, value.target, length)

    def _variable(self, layout: Layout, kind: Array | Primitive[Any], target: str, length: str) -> None:
        if isinstance(kind, Array):
            self._array(layout, kind, target, length)
        elif kind is STRING:
            self._string(target, length, compact=layout.flexible)
        else:
            self._bytes(kind, target, length)

    def _nested(self, layout: Layout, kind: Struct, target: str, *, nullable: bool) -> None:
        if not nullable:
            self.struct(layout.nested(kind), target)
            return
        present = self.source.fresh("n")
        self.add("b", present)
        self.flush()
        self._struct_unless(f"{present} < 0", layout, kind, target)

    def _tagged_value(self, layout: Layout, field: Field, target: str) -> None:
        if not (isinstance(field.kind, Struct) and field.nullable):
            self._value(layout, field, target)
            return
        present = self.source.fresh("n")
        self._uvarint(present)
        self._struct_unless(f"{present} == 0", layout, field.kind, target)

    def _struct_unless(self, condition: str, layout: Layout, kind: Struct, target: str) -> None:
        with self.source.indented(f"if {condition}:"):
            self.source.line(f"{target} = None")
        with self.source.indented("else:"):
            self.struct(layout.nested(kind), target)

    def _uvarint(self, target: str) -> None:
        self.add("B", target)
        self.flush()
        self._continue_uvarint(target)

    def _continue_uvarint(self, target: str) -> None:
        """Write the code that reads the rest of a varint whose first byte was read."""
        with self.source.indented(f"if {target} > 127:"):
            self.source.line(f"{target}, pos = continue_uvarint(buf, pos, {target})")

    def _continue_size(self, target: str) -> None:
        """Write the same for the size of records, which has two bytes most often: no call for those."""
        with self.source.indented(f"if {target} > 127:"):
            with self.source.indented("if buf[pos] < 128:"):
                self.source.line(f"{target} += (buf[pos] - 1) * 128")
                self.source.line("pos += 1")
            with self.source.indented("else:"):
                self.source.line(f"{target}, pos = continue_uvarint(buf, pos, {target})")

    def _refuse_if(self, condition: str) -> None:
        with self.source.indented(f"if {condition}:"):
            self.source.line("raise Malformed")

    def _string(self, target: str, length: str, *, compact: bool) -> None:
        self.source.line(f"end = pos + {length}")
        too_long = f" or {length} > {MAX_STRING_BYTES}" if compact else ""
        self._refuse_if(f"{length} < 0 or end > size{too_long}")
        self.source.line(f"{target} = buf[pos:end].tobytes().decode()")
        self.source.line("pos = end")

    def _bytes(self, kind: Primitive[Any], target: str, length: str) -> None:
        self.source.line(f"end = pos + {length}")
        self._refuse_if(f"{length} < 0 or end > size")
        self.source.line(f"{target} = buf[pos:end]{'.tobytes()' if kind is BYTES else ''}")
        self.source.line("pos = end")

    def _array(self, layout: Layout, kind: Array, target: str, count: str) -> None:
        with self.source.indented(f"if not {count}:"):
            self.source.line(f"{target} = []")
        with self.source.indented("else:"):
            self._elements(layout, kind, target, count)

    def _elements(self, layout: Layout, kind: Array, target: str, count: str) -> None:
        least = element_size(layout, kind.element)
        # Before anything is created: a count that the bytes cannot have must not cost memory.
        self._refuse_if(f"{count} < 0 or {count} * {least} > size - pos")
        self._spend(count, self._budget.share(kind))
        if isinstance(kind.element, Primitive) and is_number(kind.element):
            self._numbers(kind.element, target, count)
            return
        if isinstance(kind.element, Struct) and not (_is_frozen(kind.element.cls) or self._budget.in_steps):
            self._structs(layout.nested(kind.element), target, count)
            return
        elements, element = self.source.fresh("a"), self.source.fresh("e")
        self.source.line(f"{target} = {elements} = []")
        with self.source.indented(f"for i in range({count}):"):
            if self._budget.in_steps:
                with self.source.indented(f"if not i % {ELEMENTS_PER_STEP}:"):
                    self.source.line("yield")
            self._element(layout, kind.element, element)
            self.source.line(f"{elements}.append({element})")

    def _structs(self, layout: Layout, target: str, count: str) -> None:
        """Write the code for an array of structures, all of which are created before they are read."""
        elements, element = self.source.fresh("a"), self.source.fresh("e")
        new = f"new({self.source.refer(layout.cls, layout.cls.__name__)})"
        many = f"list(map(new, repeat({new[4:-1]}, {count})))"
        self.source.line(f"{target} = {elements} = [{new}] if {count} == 1 else {many}")
        with self.source.indented(f"for {element} in {elements}:"):
            self._attributes(layout, element)

    def _element(self, layout: Layout, kind: Primitive[Any] | Struct, target: str) -> None:
        if isinstance(kind, Struct):
            self.struct(layout.nested(kind), target)
        elif kind.code:
            self.add(kind.code, target)
        else:
            self.add_variable(layout, kind, target, nullable=False, usually_empty=False)
        self.flush()

    def _spend(self, count: str, share: int = 1) -> None:
        """Write the code that takes `count` elements from the budget."""
        self.source.line(f"room -= {count}" if share == 1 else f"room -= {count} // {share}")
        if self._budget.or_else_too_many:
            with self.source.indented("if room < 0:"):
                self.source.line("raise TooManyElements")
        else:
            self._refuse_if("room < 0")

    def _numbers(self, element: Primitive[Any], target: str, count: str) -> None:
        self.source.line(f'{target} = list(unpack_from(f">{{{count}}}{element.code}", buf, pos))')
        self.source.line(f"pos += {count} * {element.size}")

    def _tagged_fields(self, layout: Layout, targets: dict[str, str]) -> None:
        count = self.source.fresh("n")
        self.add("B", count)
        self.flush()
        # First, as the object was made without its constructor, and most messages have none of these fields.
        for field in layout.tagged:
            self._default(field, targets[field.name])
        with self.source.indented(f"if {count}:"):
            if not layout.tagged:
                self._spend(count)
                self.source.line(f"pos = skip_tagged_fields(buf, pos, {count}, size)")
                return
            self._continue_uvarint(count)
            self._refuse_if(f"{count} > {MAX_TAGGED_FIELDS}")
            self._spend(count)
            with self.source.indented(f"for _ in range({count}):"):
                self._tagged_field(layout, targets)

    def _tagged_field(self, layout: Layout, targets: dict[str, str]) -> None:
        tag, stop = self.source.fresh("t"), self.source.fresh("p")
        self.source.line(f"{tag}, pos = read_uvarint(buf, pos)")
        self.source.line(f"{stop}, pos = read_uvarint(buf, pos)")
        self.source.line(f"{stop} += pos")
        for field in layout.tagged:
            with self.source.indented(
                f"{'if' if field is layout.tagged[0] else 'elif'} {tag} == {field.tag}:"
            ):
                self._tagged_value(layout, field, targets[field.name])
                self.flush()
                # A size that is not that of the value would have the rest read from another place than other
                # readers do.
                self._refuse_if(f"pos != {stop}")
        with self.source.indented("else:"):
            self.source.line(f"pos = {stop}")
            self._refuse_if("pos > size")

    def _default(self, field: Field, target: str) -> None:
        value = self.source.literal(field.default)
        if field.default_is_factory:
            value = "[]" if field.default is list else f"{value}()"
        self.source.line(f"{target} = {value}")


def _is_frozen(cls: type[Any]) -> bool:
    """Return whether attributes can only be set by the constructor."""
    return "__setattr__" in vars(cls)
