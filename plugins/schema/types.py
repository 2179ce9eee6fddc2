"""Types of values in messages, unsigned varints, and parts of encoded messages: bytes, and regions of files.

The compact variants (KIP-482) are not types of their own, since the version, not the field, selects them.
Their lengths and counts are unsigned varints, as are tags: 32-bit values in one to five bytes, seven bits a
byte, low ones first, top bit set on all but the last. Source: the protocol guide's primitive types; KIP-482.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tidelog.plugins.schema.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.kernel.seams.wire import Part as WirePart

T = TypeVar("T")

Part: TypeAlias = "WirePart"
"""Part of an encoded message: bytes, a region of a file for `sendfile`, or bytes that are streamed."""

Uuid: TypeAlias = bytes
"""Sixteen bytes, most significant first; to construct a `uuid.UUID` would take half as long as a decode."""

ZERO_UUID: Final[Uuid] = bytes(16)
"""Kafka's "no UUID"."""

MAX_STRING_BYTES: Final = 0x7FFF
"""A string's length is an int16, and the compact form keeps that limit."""
COPIED_BYTES: Final = 8192
"""Bytes up to this size are copied into the bytes before them: a part of its own costs more."""
_BYTES_LIKE: Final = frozenset((bytes, bytearray, memoryview))
MAX_UVARINT: Final = 0xFFFFFFFF
MAX_TAGGED_FIELDS: Final = 1000
"""Most tagged fields in one structure; Kafka's messages have at most ten, and every unknown one is read."""


class RecordRegions(Protocol):
    """Record batches that are sent from where they are stored, such as a slice of a log."""

    @property
    def size(self) -> int:
        """Return the size of all regions in bytes."""
        ...

    @property
    def regions(self) -> Sequence[Part]:
        """Return the regions in order."""
        ...


# These are named tuples, and not attrs classes, because a broker makes them before it answers for the first
# time: an attrs class takes twice as long to create.
class Primitive(NamedTuple, Generic[T]):
    """Primitive type.

    `code` is the `struct` code and `size` the size in bytes of a fixed-width type; others have neither.
    """

    name: str
    code: str = ""
    size: int = 0


INT8: Final = Primitive[int]("int8", "b", 1)
INT16: Final = Primitive[int]("int16", "h", 2)
INT32: Final = Primitive[int]("int32", "i", 4)
INT64: Final = Primitive[int]("int64", "q", 8)
UINT16: Final = Primitive[int]("uint16", "H", 2)
UINT32: Final = Primitive[int]("uint32", "I", 4)
FLOAT64: Final = Primitive[float]("float64", "d", 8)
BOOL: Final = Primitive[bool]("bool", "?", 1)
UUID: Final = Primitive[Uuid]("uuid", "16s", 16)
STRING: Final = Primitive[str]("string")
BYTES: Final = Primitive[bytes]("bytes")
RECORDS: Final = Primitive[Any]("records")


class Struct(NamedTuple):
    """Nested structure, by its class."""

    cls: type[Any]


class Array(NamedTuple):
    """List of elements of one type."""

    element: Primitive[Any] | Struct


Kind: TypeAlias = Primitive[Any] | Struct | Array


def size_of(records: Any) -> int:
    """Return the size of a records value or of a part in bytes."""
    if type(records) in _BYTES_LIKE:
        return records.nbytes if type(records) is memoryview else len(records)
    size: int = records.size
    return size


def append_bytes(out: list[Any], parts: list[Part], records: Any) -> None:
    """Append bytes or records: to `out` if they are short, else to `parts`, after the content of `out`."""
    if type(records) not in _BYTES_LIKE:
        regions: Iterable[Part] = records.regions
    elif size_of(records) <= COPIED_BYTES:
        out.append(records)
        return
    else:
        regions = (memoryview(records) if type(records) is bytearray else records,)
    if out:
        parts.append(b"".join(out))
        out.clear()
    parts.extend(regions)


def content_of(records: Any) -> bytes:
    """Return the bytes of a records value.

    Raises:
        TypeError: it lies in a file.
    """
    regions: Iterable[Any] = (records,) if type(records) in _BYTES_LIKE else records.regions
    return b"".join(regions)


def total_size(parts: Iterable[Part]) -> int:
    """Return the size of all parts in bytes."""
    return sum(map(size_of, parts))


def read_uvarint(buffer: Sequence[int], position: int) -> tuple[int, int]:
    """Return the value at `position` and the position after it.

    Raises:
        Malformed: more than five bytes, or more than 32 bits.
        IndexError: the buffer ends within the value.
    """
    first = buffer[position]
    return continue_uvarint(buffer, position + 1, first) if first > 0x7F else (first, position + 1)


def continue_uvarint(buffer: Sequence[int], position: int, first: int) -> tuple[int, int]:
    """Like `read_uvarint`, when the first byte was read already and has its top bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise Malformed("a varint of more than 5 bytes")
    if value > MAX_UVARINT:
        raise Malformed("a varint of more than 32 bits")
    return value, position


def uvarint(value: int) -> bytes:
    """Return the shortest encoding of `value`, which lies in [0, 2**32)."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(
    buffer: Sequence[int], position: int, first: int, size: int, most: int = MAX_TAGGED_FIELDS
) -> int:
    """Return the position after a section of tagged fields none of which is known.

    `position` is the one after the first byte of the count, `first` is that byte, `size` the buffer's length.

    Raises:
        Malformed, IndexError: the section is malformed, exceeds the buffer, or has more than `most` fields.
    """
    count = first
    if first > 0x7F:
        count, position = continue_uvarint(buffer, position, first)
    if count > most:
        raise Malformed(f"{count} tagged fields are more than {most}")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        length, position = read_uvarint(buffer, position)
        position += length
        if position > size:
            raise Malformed("a tagged field goes beyond the end")
    return position
