"""Declarations of messages: one typed class for all versions of a message.

    @struct(VersionSpan(0, 13, flexible=9))
    class ProduceRequest:
        transactional_id: str | None = string(versions="3+", nullable="3+", default=None)
        acks: int = int16()
        topics: list[TopicProduceData] = array(TopicProduceData)

Fields stand in wire order. `versions` ("3+", "0-12", "8") are those that have the field; a field that some
version lacks has a default, which decoding such a version yields. Encoding such a version drops the field
when it has its default or is `ignorable`, and is an error otherwise. `nullable` are the versions in which
null is allowed. A field with a `tag` lies in the tagged section of flexible versions and is not written while
it has its default. These are the rules of Kafka's own schemas.

The classes are attrs classes with slots and keyword-only constructors.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    TypedDict,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

import attrs

from tidelog.plugins.schema.types import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Array,
    Kind,
    Primitive,
    Struct,
    Uuid,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

T = TypeVar("T")

_SPEC: Final = "tidelog.kafka"
_UNSET: Final[Any] = attrs.NOTHING


class VersionSpan(NamedTuple):
    """The versions of a message, `low` to `high`, and the first flexible one (None: none is)."""

    low: int
    high: int
    flexible: int | None = None

    def covers(self, version: int) -> bool:
        """Return whether the message has `version`."""
        return self.low <= version <= self.high

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields."""
        return self.flexible is not None and version >= self.flexible


class FieldSpec(NamedTuple):
    """Declaration of a field, except for its name and default."""

    kind: Kind
    versions: str
    nullable: str | None
    ignorable: bool
    tag: int | None


class _Options(TypedDict, total=False):
    versions: str
    ignorable: bool
    tag: int


def _field(kind: Kind, options: _Options, *, nullable: str | None = None, **default: Any) -> Any:
    spec = FieldSpec(
        kind, options.get("versions", "0+"), nullable, options.get("ignorable", False), options.get("tag")
    )
    return attrs.field(metadata={_SPEC: spec}, **default)


def int8(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare a signed integer of one byte."""
    return cast("int", _field(INT8, options, default=default))


def int16(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare a signed integer of two bytes."""
    return cast("int", _field(INT16, options, default=default))


def int32(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare a signed integer of four bytes."""
    return cast("int", _field(INT32, options, default=default))


def int64(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare a signed integer of eight bytes."""
    return cast("int", _field(INT64, options, default=default))


def uint16(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare an unsigned integer of two bytes."""
    return cast("int", _field(UINT16, options, default=default))


def uint32(*, default: int = _UNSET, **options: Unpack[_Options]) -> int:
    """Declare an unsigned integer of four bytes."""
    return cast("int", _field(UINT32, options, default=default))


def float64(*, default: float = _UNSET, **options: Unpack[_Options]) -> float:
    """Declare a double-precision number."""
    return cast("float", _field(FLOAT64, options, default=default))


def boolean(*, default: bool = _UNSET, **options: Unpack[_Options]) -> bool:
    """Declare a boolean of one byte, 0 or 1; any value other than 0 decodes to True."""
    return cast("bool", _field(BOOL, options, default=default))


def uuid(*, default: Uuid = _UNSET, **options: Unpack[_Options]) -> Uuid:
    """Declare a UUID of sixteen bytes; `ZERO_UUID` for none."""
    return cast("Uuid", _field(UUID, options, default=default))


@overload
def string(*, default: str = ..., **options: Unpack[_Options]) -> str: ...
@overload
def string(*, nullable: str, default: str | None = ..., **options: Unpack[_Options]) -> str | None: ...
def string(*, nullable: str | None = None, default: str | None = _UNSET, **options: Unpack[_Options]) -> Any:
    """Declare a string of at most 32,767 bytes of UTF-8."""
    return _field(STRING, options, nullable=nullable, default=default)


@overload
def byte_string(*, default: bytes = ..., **options: Unpack[_Options]) -> bytes: ...
@overload
def byte_string(
    *, nullable: str, default: bytes | None = ..., **options: Unpack[_Options]
) -> bytes | None: ...
def byte_string(
    *, nullable: str | None = None, default: bytes | None = _UNSET, **options: Unpack[_Options]
) -> Any:
    """Declare Kafka's `bytes`: opaque bytes, copied out of the buffer when decoded."""
    return _field(BYTES, options, nullable=nullable, default=default)


def records(*, nullable: str | None = None, **options: Unpack[_Options]) -> Any:
    """Declare record batches, which are not decoded.

    Decodes to a memoryview of the buffer. Encodes from bytes-like objects and from `RecordRegions`.
    """
    return _field(RECORDS, options, nullable=nullable)


@overload
def array(
    element: type[T] | Primitive[T], *, factory: type[list[T]] = ..., **options: Unpack[_Options]
) -> list[T]: ...
@overload
def array(
    element: type[T] | Primitive[T],
    *,
    nullable: str,
    default: None = ...,
    factory: type[list[T]] = ...,
    **options: Unpack[_Options],
) -> list[T] | None: ...
def array(
    element: type[T] | Primitive[T],
    *,
    nullable: str | None = None,
    default: None = _UNSET,
    factory: Callable[[], list[T]] | None = None,
    **options: Unpack[_Options],
) -> Any:
    """Declare a list of structures (given by their class) or primitives; `factory=list`: empty by default."""
    kind = Array(element if isinstance(element, Primitive) else Struct(element))
    if factory is not None:
        return _field(kind, options, nullable=nullable, factory=factory)
    return _field(kind, options, nullable=nullable, default=default)


@overload
def nested(cls: type[T], *, default: T = ..., **options: Unpack[_Options]) -> T: ...
@overload
def nested(
    cls: type[T], *, nullable: str, default: T | None = ..., **options: Unpack[_Options]
) -> T | None: ...
def nested(
    cls: type[T], *, nullable: str | None = None, default: T | None = _UNSET, **options: Unpack[_Options]
) -> Any:
    """Declare one structure; a default is shared by all messages, so its class is frozen."""
    return _field(Struct(cls), options, nullable=nullable, default=default)


_SPANS: Final[dict[type[Any], VersionSpan]] = {}


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8,
        int16,
        int32,
        int64,
        uint16,
        uint32,
        float64,
        boolean,
        uuid,
        string,
        byte_string,
        records,
        array,
        nested,
    ),
)
def struct(versions: VersionSpan | None = None, *, frozen: bool = False) -> Callable[[type[T]], type[T]]:
    """Decorate the class of a structure, or of a whole message when `versions` are given.

    A frozen structure can be the shared default of a `nested` field.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, method in (("__eq__", _equal), ("__repr__", _represent), ("__hash__", None)):
            if name not in vars(cls):
                setattr(cls, name, method)
        built = attrs.define(
            cls, kw_only=True, frozen=frozen, eq=False, repr=False, weakref_slot=False, match_args=False
        )
        if versions is not None:
            _SPANS[built] = versions
        return built

    return decorate


# One function for all classes: those that attrs writes for each take as long to create as all the rest of it.
def _equal(self: object, other: object) -> bool:
    return type(self) is type(other) and all(
        getattr(self, name) == getattr(other, name) for name in _names(type(self))
    )


def _represent(self: object) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(type(self)))
    return f"{type(self).__name__}({values})"


def _names(cls: type[Any]) -> list[str]:
    return [attribute.name for attribute in attrs.fields(cls)]


def versions_of(cls: type[Any]) -> VersionSpan:
    """Return the versions of a message class.

    Raises:
        TypeError: the class is no message; it may be a structure within one.
    """
    span = _SPANS.get(cls)
    if span is None:
        raise TypeError(f"{cls.__name__} is not a message: it was declared without versions")
    return span


def spec_of(attribute: attrs.Attribute[Any]) -> FieldSpec:
    """Return the declaration of a field."""
    return cast("FieldSpec", attribute.metadata[_SPEC])
