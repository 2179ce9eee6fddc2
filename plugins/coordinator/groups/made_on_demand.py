"""A sequence whose elements are made when they are read, for descriptions of groups with many members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")


class MadeOnDemand(Sequence[R], Generic[T, R]):
    """What `make` returns of each item; equal to any sequence of equal elements."""

    def __init__(self, items: Iterable[T], make: Callable[[T], R]) -> None:
        self._items = tuple(items)
        self._make = make

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...
    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        if isinstance(index, slice):
            return MadeOnDemand(self._items[index], self._make)
        return self._make(self._items[index])

    def __iter__(self) -> Iterator[R]:
        return map(self._make, self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence):
            return list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
