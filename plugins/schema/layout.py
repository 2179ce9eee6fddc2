"""Layout of one version of a structure on the wire: its declaration, resolved for that version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tidelog.plugins.schema.declare import spec_of, versions_of
from tidelog.plugins.schema.types import STRING, UUID, Array, Primitive, Struct

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Kind

# The type checkers know `attrs.Factory` as a function.
_Factory: Any = attrs.Factory

MAX_ELEMENTS: Final = 1_000_000
"""Structures and strings in all arrays of one message together.

An empty structure takes two bytes on the wire and some fifty in memory, so the frame's size is no bound.
"""

FEW_ELEMENTS: Final = 1000
"""Most elements that are decoded or encoded in one step, which takes a millisecond.

Handlers go by it too: a request with so few elements is served at once.
"""

MAX_REQUEST_ELEMENTS: Final = 100_000
"""Elements, numbers among them, in all arrays of one request of any size together.

Each becomes objects of request and answer, which take some hundred bytes. A client of a large cluster names
tens of thousands of partitions in a request.
"""

BYTES_PER_ELEMENT: Final = 16
"""For every so many bytes a request may have one more element, up to `MAX_ELEMENTS`.

So memory is in proportion to the bytes that the peer had to send, whatever is in them.
"""

NUMBERS_PER_ELEMENT: Final = 8
"""Numbers of an array that count as one element: they take as much memory as a small structure."""


class Field(NamedTuple):
    """A field in one version.

    `default` is a value, or, if `default_is_factory`, what makes one.
    """

    name: str
    kind: Kind
    nullable: bool
    ignorable: bool
    tag: int | None
    default: Any
    default_is_factory: bool

    def make_default(self) -> Any:
        """Return the value of a field that the version lacks, or that is tagged and was not sent."""
        return self.default() if self.default_is_factory else self.default


class Layout(NamedTuple):
    """Structure in one version: fields in wire order, tagged fields by tag, and those that it lacks."""

    cls: type[Any]
    version: int
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    absent: tuple[Field, ...]

    @property
    def every_field(self) -> tuple[Field, ...]:
        """Return all fields of the class."""
        return self.fields + self.tagged + self.absent

    def nested(self, struct: Struct) -> Layout:
        """Return the layout of a structure within this one."""
        return struct_layout(struct.cls, self.version, self.flexible)


def message_layout(cls: type[Any], version: int) -> Layout:
    """Return the layout of a whole message.

    Raises:
        ValueError: the message has no such version.
        TypeError: the class is no message, or its declaration is inconsistent.
    """
    span = versions_of(cls)
    if not span.covers(version):
        raise ValueError(f"{cls.__name__} has versions {span.low} to {span.high}, not {version}")
    return struct_layout(cls, version, span.is_flexible(version))


def struct_layout(cls: type[Any], version: int, flexible: bool) -> Layout:
    """Return the layout of a structure as part of a message of that version."""
    present: list[Field] = []
    tagged: list[Field] = []
    absent: list[Field] = []
    for attribute in attrs.fields(cls):
        field = _resolve(attribute, version)
        if not _in_range(version, spec_of(attribute).versions):
            _require_default(cls, field, version)
            absent.append(field)
        elif field.tag is not None:
            _require_default(cls, field, version)
            tagged.append(field)
        else:
            present.append(field)
    tagged.sort(key=lambda field: field.tag or 0)
    return Layout(cls, version, flexible, tuple(present), tuple(tagged), tuple(absent))


def _resolve(attribute: attrs.Attribute[Any], version: int) -> Field:
    spec = spec_of(attribute)
    default: Any = attribute.default
    factory = isinstance(default, _Factory)
    return Field(
        name=attribute.name,
        kind=spec.kind,
        nullable=spec.nullable is not None and _in_range(version, spec.nullable),
        ignorable=spec.ignorable,
        tag=spec.tag,
        default=default.factory if factory else default,
        default_is_factory=factory,
    )


def _in_range(version: int, versions: str) -> bool:
    """Return whether a version lies in a range such as "3+", "0-12" or "8"."""
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    low, _, high = versions.partition("-")
    return int(low) <= version <= int(high or low)


def _require_default(cls: type[Any], field: Field, version: int) -> None:
    if field.default is attrs.NOTHING:
        raise TypeError(f"{cls.__name__}.{field.name} needs a default: version {version} can lack it")


def minimum_size(layout: Layout) -> int:
    """Return the minimum size of the structure in bytes."""
    size = sum(_minimum_field_size(layout, field.kind, field.nullable) for field in layout.fields)
    return size + 1 if layout.flexible else size


def element_size(layout: Layout, element: Primitive[Any] | Struct) -> int:
    """Return the minimum size of an array's element in bytes; never 0, or a count would have no bound.

    Raises:
        TypeError: the element is a structure without any field in this version.
    """
    size = _minimum_field_size(layout, element, nullable=False)
    if size == 0:
        raise TypeError(f"an array within {layout.cls.__name__} v{layout.version} has elements of no bytes")
    return size


def is_number(kind: Primitive[Any] | Struct) -> bool:
    """Return whether a list's elements can be read and written by one `struct` format with a repeat count."""
    return isinstance(kind, Primitive) and kind.size > 0 and kind is not UUID


def elements_per_count(kind: Array) -> int:
    """Return how many elements of an array count as one against `MAX_ELEMENTS`."""
    return NUMBERS_PER_ELEMENT if is_number(kind.element) else 1


class Budget(NamedTuple):
    """Limits of a decoder: elements in all arrays, whether numbers count in full, and steps.

    With `bytes_per_element` a buffer may have one more element for every so many bytes. A decoder `in_steps`
    is a generator that yields before each step. With `or_else_too_many` more elements raise `TooManyElements`
    instead of `Malformed`.
    """

    elements: int
    numbers_in_full: bool = True
    in_steps: bool = False
    or_else_too_many: bool = False
    bytes_per_element: int = 0

    def most_elements(self, size: int) -> int:
        """Return how many elements a message in `size` bytes may have."""
        if not self.bytes_per_element:
            return self.elements
        return min(self.elements + size // self.bytes_per_element, MAX_ELEMENTS)

    def share(self, kind: Array) -> int:
        """Return how many elements of such an array count as one."""
        return 1 if self.numbers_in_full else elements_per_count(kind)


ANY_MESSAGE: Final = Budget(MAX_ELEMENTS, numbers_in_full=False)
SMALL_REQUEST: Final = Budget(FEW_ELEMENTS, or_else_too_many=True)
LARGE_REQUEST: Final = Budget(MAX_REQUEST_ELEMENTS, in_steps=True, bytes_per_element=BYTES_PER_ELEMENT)


def _minimum_field_size(layout: Layout, kind: Kind, nullable: bool) -> int:
    if isinstance(kind, Struct):
        # A nullable structure has a byte in front that says whether it is there.
        return 1 if nullable else minimum_size(layout.nested(kind))
    if isinstance(kind, Primitive) and kind.size:
        return kind.size
    if layout.flexible:
        return 1
    return 2 if kind is STRING else 4


def length_code(kind: Array | Primitive[Any]) -> str:
    """Return the `struct` code of a variable-length value's length in versions that are not flexible."""
    return "h" if kind is STRING else "i"
