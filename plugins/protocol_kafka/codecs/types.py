"""The kinds of values that messages are made of.

Source: the protocol guide's primitive types; the compact variants (KIP-482) are not kinds of their own, since
it is the version, not the field, that chooses between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.seams.storage import Region

T = TypeVar("T")

Part: TypeAlias = "Region"
"""One piece of an encoded message: bytes, or a region of a file for `sendfile`."""

Uuid: TypeAlias = bytes
"""Sixteen bytes, most significant first; to construct a `uuid.UUID` would take half as long as a decode."""

ZERO_UUID: Final[Uuid] = bytes(16)
"""Kafka's "no UUID"."""

MAX_STRING_BYTES: Final = 0x7FFF
"""A string's length is an int16, and the compact form keeps that limit."""


class RecordRegions(Protocol):
    """Record batches that are sent as they lie somewhere, such as a slice of a log."""

    @property
    def size(self) -> int:
        """Bytes of all regions together."""
        ...

    @property
    def regions(self) -> Sequence[Part]:
        """The bytes in order."""
        ...


# These are named tuples, and not attrs classes, because a broker makes them before it answers for the first
# time: an attrs class takes twice as long to create.
class Primitive(NamedTuple, Generic[T]):
    """A kind without parts of its own.

    `code` is the `struct` code and `size` the bytes of a fixed-width kind; others have neither.
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
    """A nested structure, by its class."""

    cls: type[Any]


class Array(NamedTuple):
    """A list of elements of one kind."""

    element: Primitive[Any] | Struct


Kind: TypeAlias = Primitive[Any] | Struct | Array
