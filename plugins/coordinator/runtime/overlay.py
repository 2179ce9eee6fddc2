"""Changes of a mapping that are being decided, which it gets once their records are in the log."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
InnerK = TypeVar("InnerK")
InnerV = TypeVar("InnerV")


class Overlay(MutableMapping[K, V]):
    """A mapping as it will be. It holds the changes alone, so that what it costs does not depend on its base.

    The base must not change meanwhile. The order is that of a dictionary with the same changes, since some
    decisions depend on it, and reading the log back must lead to the same ones.
    """

    __slots__ = ("_base", "_new", "_removed", "_set")

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._set: dict[K, V] = {}
        # Keys of the base that have lost their place in the order; they may have been added again since.
        self._removed: set[K] = set()
        self._new = 0

    def __getitem__(self, key: K) -> V:
        if key in self._set:
            return self._set[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._set or (key in self._base and key not in self._removed)

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._set and not self._is_in_place(key):
            self._new += 1
        self._set[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._set.pop(key, None)
        if self._is_in_place(key):
            self._removed.add(key)
        else:
            self._new -= 1

    def __len__(self) -> int:
        return len(self._base) - len(self._removed) + self._new

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if key not in self._removed:
                yield key
        for key in self._set:
            if not self._is_in_place(key):
                yield key

    def _is_in_place(self, key: K) -> bool:
        return key in self._base and key not in self._removed

    def merge(self) -> None:
        """Make the changes in the base; the overlay is of no use afterwards."""
        # What was removed and added again goes to the end of the order, so it is removed first.
        for key in self._removed:
            del self._base[key]
        self._base.update(self._set)


class NestedOverlay(Overlay[K, MutableMapping[InnerK, InnerV]]):
    """The same for a mapping of mappings, of which those that are read can be changed like the outer one."""

    __slots__ = ()

    def __getitem__(self, key: K) -> MutableMapping[InnerK, InnerV]:
        inner = super().__getitem__(key)
        if key not in self._set:
            inner = self._set[key] = Overlay(inner)
        return inner

    def merge(self) -> None:
        """Make the changes in the base, and those of its inner mappings in these."""
        for key, inner in self._set.items():
            # A key that was removed has a mapping that is new, which is no overlay.
            if isinstance(inner, Overlay):
                inner.merge()
                self._set[key] = self._base[key]
        super().merge()
