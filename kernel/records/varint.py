"""Zigzag varints as records use them: of 32 bits (varint) and of 64 bits (varlong).

Which of them are accepted follows Kafka's own reader (`ByteUtils`): at most five bytes for 32 bits and ten
for 64, more than are needed too, and bits beyond the width are dropped.
"""

from __future__ import annotations

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import Buffer

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10
_MASKS = {MAX_VARINT_BYTES: 2**32 - 1, MAX_VARLONG_BYTES: 2**64 - 1}


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return (value of 32 bits, position after it).

    Raises:
        CorruptBatch: the bytes end inside it, or it has more than five.
    """
    folded, position = read_folded(data, position)
    return unfold(folded), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Return (value of 64 bits, position after it).

    Raises:
        CorruptBatch: the bytes end inside it, or it has more than ten.
    """
    folded, position = read_folded(data, position, MAX_VARLONG_BYTES)
    return unfold(folded), position


def read_folded(data: Buffer, position: int, most_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return (value as it is stored, its sign in the lowest bit, position after it).

    Raises:
        CorruptBatch: the bytes end inside it, or it has more than `most_bytes`, five or ten.
    """
    value = shift = 0
    for index in range(position, min(position + most_bytes, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASKS[most_bytes], index + 1
        shift += 7
    raise CorruptBatch(f"the varint at byte {position} of the records is cut off or too long")


def unfold(folded: int) -> int:
    """Return the number that zigzag folding made that of."""
    return (folded >> 1) ^ -(folded & 1)


def write_varlong(out: bytearray, value: int) -> None:
    """Append `value` (64 bits, signed) to `out`."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
