"""Types of values in messages.

Source: the protocol guide's primitive types; the compact variants (KIP-482) are not types of their own, since
the version, not the field, selects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.seams.storage import Region

T = TypeVar("T")

Part: TypeAlias = "Region"
"""Part of an encoded message: bytes, or a region of a file for `sendfile`."""

Uuid: TypeAlias = bytes
"""Sixteen bytes, most significant first; to construct a `uuid.UUID` would take half as long as a decode."""

ZERO_UUID: Final[Uuid] = bytes(16)
"""Kafka's "no UUID"."""

MAX_STRING_BYTES: Final = 0x7FFF
"""A string's length is an int16, and the compact form keeps that limit."""


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
