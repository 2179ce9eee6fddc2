"""The index format `packed`: numbers in arrays, found by bisection."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.indexes import IndexFormat, IndexFormatBase, IndexPlace, SegmentIndexBase

TIDELOG_INTERFACE = "1.0"


class Pairs:
    """Pairs of numbers in two arrays; the keys grow."""

    def __init__(self) -> None:
        self.keys, self.values = array("q"), array("q")

    def add(self, key: int, value: int) -> None:
        # The value first: a reader in another thread that finds a key has to find its value.
        self.values.append(value)
        self.keys.append(key)

    def floor(self, key: int, default: int) -> int:
        slot = bisect_right(self.keys, key)
        return self.values[slot - 1] if slot else default

    def last(self, default: tuple[int, int]) -> tuple[int, int]:
        return (self.keys[-1], self.values[-1]) if self.keys else default

    def keep(self, count: int) -> None:
        del self.keys[count:]
        del self.values[count:]


class PackedIndex(SegmentIndexBase):
    """The index of one segment: offsets with positions, and timestamps with offsets."""

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        super().__init__(place, max_bytes)
        self._positions, self._times = Pairs(), Pairs()

    @property
    def entries(self) -> int:
        return len(self._positions.keys)

    @property
    def time_entries(self) -> int:
        return len(self._times.keys)

    def add_position(self, last_offset: int, position: int) -> None:
        self._positions.add(last_offset, position)

    def add_time(self, timestamp_ms: int, offset: int) -> None:
        self._times.add(timestamp_ms, offset)

    def floor_position(self, offset: int, wait: bool) -> int:
        return self._positions.floor(offset, 0)

    def floor_offset(self, timestamp_ms: int) -> int:
        return self._times.floor(timestamp_ms, self.place.base_offset)

    def last_position(self) -> tuple[int, int]:
        return self._positions.last((self.place.base_offset - 1, 0))

    def last_timestamp(self) -> tuple[int, int]:
        return self._times.last((-1, self.place.base_offset))

    def truncate_to(self, offset: int) -> None:
        self._positions.keep(bisect_left(self._positions.keys, offset))
        self._times.keep(bisect_left(self._times.values, offset))


class PackedFormat(IndexFormatBase):
    name = "packed"

    def create(self, place: IndexPlace, max_bytes: int) -> PackedIndex:
        return PackedIndex(place, max_bytes)


@hookimpl
def tidelog_index_formats() -> Iterable[IndexFormat]:
    return [PackedFormat()]
