"""Compiled codec: decoders and encoders by message class and version, compiled at their first use."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tidelog.plugins.schema.decoder import compile_decoder
from tidelog.plugins.schema.encoder import Size, compile_encoder
from tidelog.plugins.schema.errors import DecodeError, EncodeError
from tidelog.plugins.schema.layout import ANY_MESSAGE, LARGE_REQUEST, SMALL_REQUEST

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Part

M = TypeVar("M")

_decoder: Callable[..., Callable[..., Any]] = cache(compile_decoder)
_encoder: Callable[..., Callable[..., Any]] = cache(compile_encoder)
_compiled_large: Final[set[tuple[type[Any], int]]] = set()


def decoder(cls: type[M], version: int) -> Callable[[bytes | memoryview, int], tuple[M, int]]:
    """Return the decoder of a message: from a buffer and a position to the message and the position after it.

    A records field is a memoryview of the buffer; nothing else refers to it. The decoder raises `DecodeError`
    for malformed bytes, and takes memory in proportion to the buffer, whatever is in it.

    Raises:
        ValueError: the message has no such version.
    """
    return _decoder(cls, version, ANY_MESSAGE)


def small_decoder(cls: type[M], version: int) -> Callable[[bytes | memoryview, int], tuple[M, int]]:
    """Return the decoder for a request served in one step; it raises `TooManyElements` for larger ones."""
    return _decoder(cls, version, SMALL_REQUEST)


def large_decoder(
    cls: type[M], version: int
) -> Callable[[bytes | memoryview, int], Generator[None, None, tuple[M, int]]]:
    """Return the decoder for a large request, in steps: a generator that yields between them.

    It is compiled at its first use, which takes some milliseconds: see `is_compiled`.
    """
    found = _decoder(cls, version, LARGE_REQUEST)
    # After the compilation: the event loop asks `is_compiled` while a thread compiles.
    _compiled_large.add((cls, version))
    return found


def encoder(cls: type[M], version: int) -> Callable[[M, list[Part]], None]:
    """Return the encoder of a message: it appends the encoding to a list, as few parts.

    The regions of a records field become parts as they are. The encoder raises `EncodeError`, and leaves the
    list as it was, when a value cannot be encoded in the version.

    Raises:
        ValueError: the message has no such version.
    """
    return _encoder(cls, version, Size.ANY)


def small_encoder(cls: type[M], version: int) -> Callable[[M, list[Part]], None]:
    """Return the encoder for a response in one step; it raises `TooManyElements` for larger ones."""
    return _encoder(cls, version, Size.SMALL)


def large_encoder(cls: type[M], version: int) -> Callable[[M, list[Part]], Generator[None, None, None]]:
    """Return the encoder for a large response, in steps: a generator that yields between them.

    It is compiled at its first use, which takes some milliseconds: see `is_compiled`.
    """
    found = _encoder(cls, version, Size.LARGE)
    _compiled_large.add((cls, version))
    return found


def is_compiled(cls: type[Any], version: int) -> bool:
    """Return whether the decoder of a large request, or the encoder of a large response, was compiled."""
    return (cls, version) in _compiled_large


def decode(cls: type[M], version: int, data: bytes | memoryview) -> M:
    """Decode a whole message.

    Raises:
        DecodeError: `data` is malformed, or has bytes behind the message.
        ValueError: the message has no such version.
    """
    message, position = decoder(cls, version)(data, 0)
    if position != len(data):
        raise DecodeError(
            cls.__name__, version, "", f"{len(data) - position} bytes are left behind the message"
        )
    return message


def encode(message: object, version: int) -> bytes:
    """Encode a message to contiguous bytes.

    Raises:
        EncodeError: a value cannot be encoded in the version, or a records field lies in a file.
        ValueError: the message has no such version.
    """
    parts: list[Part] = []
    encoder(type(message), version)(message, parts)
    return _joined(message, version, parts)


def encode_in_steps(message: object, version: int) -> Generator[None, None, bytes]:
    """Encode a message that may be large to contiguous bytes, in steps; see `encode`."""
    parts: list[Part] = []
    yield from large_encoder(type(message), version)(message, parts)
    return _joined(message, version, parts)


def _joined(message: object, version: int, parts: list[Part]) -> bytes:
    try:
        return b"".join(cast("list[bytes]", parts))
    except TypeError:
        raise EncodeError(type(message).__name__, version, "", "its records lie in a file") from None
