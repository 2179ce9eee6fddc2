"""Encoders of keys and values: functions that make bytes of an object. Any other callable will do as well.

None is a null key or value (a tombstone) for each of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from tidelog.plugins.client.errors import EncodingFailed

_COMPACT: Final = (",", ":")
_FORMATS: Final = {"int16": ">h", "int32": ">i", "int64": ">q", "float64": ">d"}


def raw(value: bytes | bytearray | memoryview | None) -> bytes | None:
    """Return bytes as they are."""
    return None if value is None else bytes(value)


def text(value: str | None) -> bytes | None:
    """Return a text in UTF-8, as Java's `StringSerializer`."""
    return None if value is None else value.encode()


def json(value: Any) -> bytes | None:
    """Return a value as JSON in UTF-8, without spaces."""
    import json as library

    return None if value is None else library.dumps(value, separators=_COMPACT, ensure_ascii=False).encode()


def _number(name: str) -> Callable[[float | None], bytes | None]:
    pack = struct.Struct(_FORMATS[name]).pack

    def encode(value: float | None) -> bytes | None:
        return None if value is None else pack(value)

    encode.__name__ = encode.__qualname__ = name
    encode.__doc__ = f"Return a number as {name}, big-endian, as the serializer of Java's client."
    return encode


int16 = _number("int16")
int32 = _number("int32")
int64 = _number("int64")
float64 = _number("float64")


def encoded(encoder: Callable[[Any], bytes | None] | None, part: str, value: Any) -> bytes | None:
    """Return the bytes of a key or value, which `part` names.

    Raises:
        EncodingFailed: the encoder raised, or did not return bytes.
        TypeError: there is no encoder, and it is not bytes.
    """
    if encoder is not None:
        try:
            value = encoder(value)
        except Exception as error:
            raise EncodingFailed(
                f"the encoder of the {part} raised {type(error).__name__}: {error}"
            ) from error
    if value is None or isinstance(value, bytes):
        return value
    kind = type(value).__name__
    if kind in ("bytearray", "memoryview"):
        return bytes(value)
    if encoder is not None:
        raise EncodingFailed(f"the encoder of the {part} returned {kind}, not bytes")
    raise TypeError(
        f"a {part} is bytes, not {kind}, unless the producer has an encoder ({part}_encoder=encoders.text)"
    )
