"""Which partition a group's or a transactional id's state is in, as Kafka computes it."""

from __future__ import annotations

_MASK = 0x7FFFFFFF


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, without its sign bit: over UTF-16 code units, modulo 2³¹."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = value * 31 + (encoded[index] << 8 | encoded[index + 1]) & 0xFFFFFFFF
    return value & _MASK


def partition_for(name: str, partition_count: int) -> int:
    """The partition of that name's state."""
    return java_hash(name) % partition_count
