"""The partition of a group's or a transactional id's state, as Kafka computes it.

Source: Apache Kafka 4.4's `GroupCoordinatorService.partitionFor`, `TransactionStateManager.partitionFor` and
`Utils.abs`.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from typing import Final

MAX_CACHED_BYTES: Final = 8 * 1024 * 1024
"""Bound of the memory of cached names: tens of thousands of usual length."""
BYTES_PER_ENTRY: Final = 150
"""Memory of an entry beside its name: a place in the dictionary, the number, the head of the string."""
_UTF_16: Final = f"utf-16-{'le' if sys.byteorder == 'little' else 'be'}"
"""Code units as this machine lays out integers of two bytes."""
# Imports it: its first use would be on the event loop.
codecs.lookup(_UTF_16)
_MODULUS: Final = 2**32
_MIN_INT: Final = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, a signed 32-bit integer."""
    value = 0
    for unit in memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H"):
        value = value * 31 + unit & 0xFFFFFFFF
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


class StateHashes:
    """`state_hash` of names, computed once for each as long as all of them fit into a bound of memory.

    Clients choose the names. When there is no more space the cache starts over: to compute a hash again costs
    two microseconds.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._hashes: dict[str, int] = {}
        self._max_bytes = max_bytes
        self._bytes = 0

    def __call__(self, name: str) -> int:
        """Return `state_hash(name)`."""
        found = self._hashes.get(name)
        if found is None:
            found = state_hash(name)
            self._remember(name, found)
        return found

    def __iter__(self) -> Iterator[str]:
        """Return the names whose hashes are cached."""
        return iter(self._hashes)

    def _remember(self, name: str, hashed: int) -> None:
        size = sys.getsizeof(name) + BYTES_PER_ENTRY
        if self._bytes + size > self._max_bytes:
            self._hashes.clear()
            self._bytes = 0
        if size <= self._max_bytes:
            self._hashes[name] = hashed
            self._bytes += size
