"""Unsigned varints: seven bits a byte, low ones first, top bit set on all but the last.

Source: KIP-482. Lengths, counts and tags of flexible versions are 32-bit values in one to five bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.codecs.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_UVARINT: Final = 0xFFFFFFFF
MAX_TAGGED_FIELDS: Final = 1000
"""Most tagged fields in one structure; Kafka's messages have at most ten, and every unknown one is read."""


def read_uvarint(buffer: Sequence[int], position: int) -> tuple[int, int]:
    """Return the value at `position` and the position after it.

    Raises:
        Malformed: more than five bytes, or more than 32 bits.
        IndexError: the buffer ends within the value.
    """
    first = buffer[position]
    return continue_uvarint(buffer, position + 1, first) if first > 0x7F else (first, position + 1)


def continue_uvarint(buffer: Sequence[int], position: int, first: int) -> tuple[int, int]:
    """Like `read_uvarint`, when the first byte was read already and has its top bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise Malformed("a varint of more than 5 bytes")
    if value > MAX_UVARINT:
        raise Malformed("a varint of more than 32 bits")
    return value, position


def uvarint(value: int) -> bytes:
    """Return the shortest encoding of `value`, which lies in [0, 2**32)."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tagged_fields(
    buffer: Sequence[int], position: int, first: int, size: int, most: int = MAX_TAGGED_FIELDS
) -> int:
    """Return the position after a section of tagged fields none of which is known.

    `position` is the one after the first byte of the count, `first` is that byte, `size` the buffer's length.

    Raises:
        Malformed, IndexError: the section is malformed, exceeds the buffer, or has more than `most` fields.
    """
    count = first
    if first > 0x7F:
        count, position = continue_uvarint(buffer, position, first)
    if count > most:
        raise Malformed(f"{count} tagged fields are more than {most}")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        length, position = read_uvarint(buffer, position)
        position += length
        if position > size:
            raise Malformed("a tagged field goes beyond the end")
    return position
