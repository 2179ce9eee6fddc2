"""Types of values in messages, and parts of encoded messages: bytes, and regions of files that are not read.

Source: the protocol guide's primitive types; the compact variants (KIP-482) are not types of their own, since
the version, not the field, selects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

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
"""Record batches up to this size are copied into the bytes before them: a part of its own costs more."""
_BYTES_LIKE: Final = frozenset((bytes, bytearray, memoryview))


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


def append_records(out: list[Any], parts: list[Part], records: Any) -> None:
    """Append a records value: to `out` if it is short, else to `parts`, after the content of `out`."""
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
