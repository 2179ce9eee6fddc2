"""Messages that no protocol has, with every kind of field; version 0 is classic, version 1 flexible."""

from __future__ import annotations

from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    boolean,
    byte_string,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)
from tidelog.plugins.schema.types import INT16, STRING, UUID, RecordRegions, Uuid

CLASSIC = 0
FLEXIBLE = 1
SPAN = VersionSpan(0, 1, flexible=1)


@struct(SPAN)
class Numbers:
    """Every kind of fixed width."""

    a: int = int8()
    b: int = int16()
    c: int = int32()
    d: int = int64()
    e: int = uint16()
    f: int = uint32()
    g: float = float64()
    h: bool = boolean()
    i: Uuid = uuid()


@struct(SPAN)
class Text:
    """A string."""

    value: str = string()


@struct(SPAN)
class NullableText:
    """A string or null."""

    value: str | None = string(nullable="0+")


@struct(SPAN)
class Content:
    """Bytes."""

    value: bytes = byte_string()


@struct(SPAN)
class NullableContent:
    """Bytes or null."""

    value: bytes | None = byte_string(nullable="0+")


@struct(SPAN)
class Batches:
    """Records between two numbers."""

    before: int = int16(default=1)
    value: bytes | bytearray | memoryview | RecordRegions | None = records(nullable="0+")
    behind: int = int16(default=2)


@struct()
class Pair:
    """A structure."""

    key: str = string()
    number: int = int32()


@struct(SPAN)
class Pairs:
    """A list of structures."""

    value: list[Pair] = array(Pair)


@struct(SPAN)
class NullablePairs:
    """A list of structures or null."""

    value: list[Pair] | None = array(Pair, nullable="0+")


@struct(SPAN)
class Lists:
    """Lists of primitives."""

    numbers: list[int] = array(INT16)
    texts: list[str] = array(STRING)
    ids: list[Uuid] = array(UUID)


@struct(SPAN)
class Nested:
    """A structure within, and one that can be null."""

    always: Pair = nested(Pair)
    perhaps: Pair | None = nested(Pair, nullable="0+")


@struct(frozen=True)
class Point:
    """A structure that can be a default."""

    x: int = int16(default=-1)
    y: int = int16(default=-1)


@struct(VersionSpan(1, 1, flexible=1))
class TaggedStructure:
    """A tagged structure that may be null, which is not its default."""

    point: Point | None = nested(Point, nullable="1+", tag=0, default=Point())


@struct(SPAN)
class Tagged:
    """Tagged fields of several kinds, declared in another order than that of their tags."""

    plain: int = int8()
    text: str = string(versions="1+", tag=3, default="")
    number: int = int32(versions="1+", tag=0, default=7)
    numbers: list[int] = array(INT16, versions="1+", tag=1, factory=list)
    point: Point = nested(Point, versions="1+", tag=200, default=Point())
    maybe: str | None = string(versions="1+", nullable="1+", tag=4, default=None)
    note: str = string(versions="1+", tag=5, default="", ignorable=True)
