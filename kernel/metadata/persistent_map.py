"""Immutable mapping of which a changed copy shares all that did not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

BUCKETS: Final = 256
"""Dictionaries that the keys are spread over. A change copies those of its keys, each a 256th of all."""

_MASK: Final = BUCKETS - 1


class PersistentMap(Mapping[K, V]):
    """Mapping that `updated` makes changed copies of; iterated in the order in which keys were added."""

    __slots__ = ("_buckets", "_next", "_size")

    def __init__(self, content: Mapping[K, V] | None = None) -> None:
        # One empty dictionary for all: a bucket is never changed in place, `_fill` copies it first.
        self._buckets: tuple[dict[K, tuple[int, V]], ...] = ({},) * BUCKETS
        self._size = self._next = 0
        if content:
            self._fill(content)

    def updated(self, changes: Mapping[K, V | None]) -> PersistentMap[K, V]:
        """Return a copy in which keys have other values; one whose value is None is removed.

        A key that was there keeps its place in the order.
        """
        copy = PersistentMap[K, V]()
        # `_next` too, so that a key that comes later is behind all that were ever there.
        copy._buckets, copy._size, copy._next = self._buckets, self._size, self._next
        copy._fill(changes)
        return copy

    def _fill(self, changes: Mapping[K, V | None]) -> None:
        """Make changes in this map, which no one else has yet."""
        buckets = list(self._buckets)
        # Buckets that belong to this map alone: the first change of one copies it.
        own: dict[int, dict[K, tuple[int, V]]] = {}
        for key, value in changes.items():
            number = hash(key) & _MASK
            bucket = own.get(number)
            if bucket is None:
                bucket = own[number] = buckets[number] = buckets[number].copy()
            there = bucket.get(key)
            if value is None:
                if there is not None:
                    del bucket[key]
                    self._size -= 1
            elif there is None:
                bucket[key] = self._next, value
                self._next += 1
                self._size += 1
            else:
                bucket[key] = there[0], value
        self._buckets = tuple(buckets)

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key][1]

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        # The hashes of strings differ from process to process, the order must not.
        entries = chain.from_iterable(bucket.items() for bucket in self._buckets)
        return map(itemgetter(0), sorted(entries, key=_added))

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _added(entry: tuple[K, tuple[int, V]]) -> int:
    return entry[1][0]
