"""The 32-bit murmur2 hash of the Java client's partitioner, with its seed.

The module is compiled where there is a C compiler, and runs as it is elsewhere.

Source: Apache Kafka, `Utils.murmur2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned number of 32 bits."""
    length: i64 = len(data)
    value: i64 = (_SEED ^ length) & _32_BITS
    whole: i64 = length - length % 4
    position: i64 = 0
    while position < whole:
        word: i64 = (
            data[position]
            | (data[position + 1] << 8)
            | (data[position + 2] << 16)
            | (data[position + 3] << 24)
        )
        word = (word * _FACTOR) & _32_BITS
        word ^= word >> 24
        word = (word * _FACTOR) & _32_BITS
        value = ((value * _FACTOR) & _32_BITS) ^ word
        position += 4
    left: i64 = length - whole
    if left == 3:
        value ^= data[whole + 2] << 16
    if left >= 2:
        value ^= data[whole + 1] << 8
    if left >= 1:
        value ^= data[whole]
        value = (value * _FACTOR) & _32_BITS
    value ^= value >> 13
    value = (value * _FACTOR) & _32_BITS
    return value ^ (value >> 15)
