"""Which partition a group's or a transactional id's state is in, as Kafka computes it.

Source: Apache Kafka 4.3's `GroupCoordinatorService.partitionFor`, `TransactionStateManager.partitionFor` and
`Utils.abs`.
"""

from __future__ import annotations

from typing import Final

_MODULUS: Final = 2**32
_MIN_INT: Final = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, a signed 32-bit integer."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = value * 31 + (encoded[index] << 8 | encoded[index + 1]) & 0xFFFFFFFF
    return value if value < -_MIN_INT else value - _MODULUS


def state_hash(name: str) -> int:
    """Return what the number of partitions divides: the absolute value, and 0 for the smallest integer.

    Java's own absolute value of that one is negative, since 2³¹ does not fit.
    """
    hashed = java_hash(name)
    return 0 if hashed == _MIN_INT else abs(hashed)


def partition_for(name: str, partition_count: int) -> int:
    """Return the partition of that name's state."""
    return state_hash(name) % partition_count


def counterpart(partition: int, partition_count: int) -> int:
    """Return where a name of a negative hash belongs that is in `partition` since its sign bit was masked.

    Earlier versions did that. It holds in both directions: masking turns an absolute value `a` into
    2³¹ - `a`.
    """
    return (-_MIN_INT - partition) % partition_count
