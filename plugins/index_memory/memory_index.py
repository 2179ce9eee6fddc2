"""Arrays of offsets, positions and timestamps, searched by bisection, nothing on disk.

A lookup touches no file and never waits. In return the entries are heap instead of page cache (8 bytes for a
position and up to 12 for a time), and every start reads the headers of all batches once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import IndexPlace, SegmentIndexBase


class MemoryIndex(SegmentIndexBase):
    """`SegmentIndex` in pairs of arrays: offsets with positions, timestamps with offsets.

    Only the appending thread makes them longer, the searched one of a pair last; truncating puts another pair
    in their place. So a reader in another thread, which takes a pair as a whole, finds what it looks for.
    """

    __slots__ = ("_base_offset", "_places", "_times")

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        """Without entries."""
        super().__init__(place, max_bytes)
        self._base_offset = place.base_offset
        # 32 bits for whatever counts from the segment's beginning, as in Kafka's files.
        self._places = array("i"), array("i")
        self._times = array("q"), array("i")

    @property
    def entries(self) -> int:
        """Number of positions that it has."""
        return len(self._places[0])

    @property
    def time_entries(self) -> int:
        """Number of timestamps."""
        return len(self._times[0])

    def add_position(self, last_offset: int, position: int) -> None:
        """Store a position."""
        offsets, positions = self._places
        positions.append(position)
        offsets.append(last_offset - self._base_offset)

    def add_time(self, timestamp_ms: int, offset: int) -> None:
        """Store a timestamp."""
        timestamps, offsets = self._times
        offsets.append(offset - self._base_offset)
        timestamps.append(timestamp_ms)

    def floor_position(self, offset: int, wait: bool) -> int:
        """Return the position of a batch at or before the one that holds `offset`; never waits."""
        offsets, positions = self._places
        slot = bisect_right(offsets, offset - self._base_offset) - 1
        return 0 if slot < 0 else positions[slot]

    def offset_behind(self, position: int, offset: int) -> int:
        """Return an offset above all batches that start before `position`, 0 when no entry shows one."""
        offsets, positions = self._places
        entries = len(offsets)
        slot = bisect_left(positions, position, 0, entries)
        bound = self._base_offset + offsets[slot] if slot < entries else 0
        return bound if bound > offset else 0

    def floor_offset(self, timestamp_ms: int) -> int:
        """Return an offset below which no batch has a larger timestamp than `timestamp_ms`."""
        timestamps, offsets = self._times
        slot = bisect_right(timestamps, timestamp_ms) - 1
        return self._base_offset if slot < 0 else self._base_offset + offsets[slot]

    def last_position(self) -> tuple[int, int]:
        """Return last offset and position of the newest entry, (base offset - 1, 0) without one."""
        offsets, positions = self._places
        if not offsets:
            return self._base_offset - 1, 0
        return self._base_offset + offsets[-1], positions[-1]

    def last_timestamp(self) -> tuple[int, int]:
        """Return the largest timestamp and its offset, (-1, base offset) without one."""
        timestamps, offsets = self._times
        if not timestamps:
            return NO_TIMESTAMP, self._base_offset
        return timestamps[-1], self._base_offset + offsets[-1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and later ones."""
        relative = offset - self._base_offset
        offsets, positions = self._places
        kept = bisect_left(offsets, relative)
        self._places = offsets[:kept], positions[:kept]
        timestamps, time_offsets = self._times
        kept = bisect_left(time_offsets, relative)
        self._times = timestamps[:kept], time_offsets[:kept]

    def relocate(self, place: IndexPlace) -> None:
        """Note that the segment's files were renamed."""
        super().relocate(place)
        self._base_offset = place.base_offset
