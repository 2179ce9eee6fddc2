"""Zigzag varints as records use them (the same as Protobuf's sint32 and sint64)."""

from __future__ import annotations

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import Buffer

MAX_VARLONG_BYTES = 10
MAX_ZIGZAG = 2**64 - 1


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it).

    Raises:
        CorruptBatch: the bytes end inside it, or it has more than 64 bits.
    """
    value = shift = 0
    for index in range(position, min(position + MAX_VARLONG_BYTES, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_ZIGZAG:
                break
            return (value >> 1) ^ -(value & 1), index + 1
        shift += 7
    raise CorruptBatch(f"the varint at byte {position} of the records is cut off or too long")


def write_varlong(out: bytearray, value: int) -> None:
    """Append `value` (64 bits, signed) to `out`."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
