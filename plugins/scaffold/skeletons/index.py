"""An index format: lists of Python in memory, which are searched by bisection."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.indexes import IndexFormat, IndexFormatBase, IndexPlace, SegmentIndexBase

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""


class SkeletonIndex(SegmentIndexBase):
    """The index of one segment."""

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        super().__init__(place, max_bytes)
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._timestamps: list[int] = []
        self._time_offsets: list[int] = []

    @property
    def entries(self) -> int:
        """Number of positions."""
        return len(self._offsets)

    @property
    def time_entries(self) -> int:
        """Number of timestamps."""
        return len(self._timestamps)

    def add_position(self, last_offset: int, position: int) -> None:
        """Add a batch by the last offset before it and its position in the file."""
        # A reader in another thread searches the offsets: each one that it finds has to have a position.
        self._positions.append(position)
        self._offsets.append(last_offset)

    def add_time(self, timestamp_ms: int, offset: int) -> None:
        """Add a timestamp that is larger than all before it."""
        self._time_offsets.append(offset)
        self._timestamps.append(timestamp_ms)

    def floor_position(self, offset: int, wait: bool) -> int:
        """Return the position of the last entry at or below an offset, 0 without any."""
        slot = bisect_right(self._offsets, offset)
        return self._positions[slot - 1] if slot else 0

    def floor_offset(self, timestamp_ms: int) -> int:
        """Return the offset of the last entry at or below a timestamp."""
        slot = bisect_right(self._timestamps, timestamp_ms)
        return self._time_offsets[slot - 1] if slot else self.place.base_offset

    def last_position(self) -> tuple[int, int]:
        """Return offset and position of the last entry."""
        if not self._offsets:
            return self.place.base_offset - 1, 0
        return self._offsets[-1], self._positions[-1]

    def last_timestamp(self) -> tuple[int, int]:
        """Return the largest timestamp and its offset."""
        if not self._timestamps:
            return -1, self.place.base_offset
        return self._timestamps[-1], self._time_offsets[-1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of this offset and later ones."""
        while self._offsets and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._positions.pop()
        while self._time_offsets and self._time_offsets[-1] >= offset:
            self._timestamps.pop()
            self._time_offsets.pop()


class SkeletonIndexFormat(IndexFormatBase):
    """What the keys `log.index.format` and `index.format` choose."""

    name = "skeleton"

    def create(self, place: IndexPlace, max_bytes: int) -> SkeletonIndex:
        """Return an empty index of a new segment."""
        return SkeletonIndex(place, max_bytes)


@hookimpl
def tidelog_index_formats() -> Iterable[IndexFormat]:
    """Offer the format."""
    return [SkeletonIndexFormat()]
