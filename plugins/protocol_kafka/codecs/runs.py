"""Tables of `struct` formats: a short value together with the fixed-width values behind it.

A string of nine bytes, a number of two bytes and the length of the next string take one call of
`struct.Struct(">9shB").unpack_from`, which also checks that the buffer has so many bytes. There is one format
per length, created when a value of that length is read for the first time.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.protocol_kafka.codecs.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SHORT_BYTES: Final = 126
"""Longest string read with what is behind it: its compact length takes one byte, and tables stay small."""


class Runs(dict[int, "Callable[..., tuple[Any, ...]]"]):
    """`unpack_from` methods for bytes and the values of `codes` behind them, by the length on the wire.

    It is larger by `bias` than that of the bytes. A length that they cannot have raises `Malformed`.
    """

    __slots__ = ("_bias", "_codes")

    def __init__(self, codes: str, bias: int) -> None:
        self._codes = codes
        self._bias = bias

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        count = length - self._bias
        if not 0 <= count <= MAX_SHORT_BYTES:
            raise Malformed
        self[length] = unpack = struct.Struct(f">{count}s{self._codes}").unpack_from
        return unpack


@cache
def runs(codes: str, bias: int) -> Runs:
    """Return the table for these codes; decoders share it."""
    return Runs(codes, bias)
