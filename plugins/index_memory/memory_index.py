"""Arrays of offsets, positions and timestamps, searched by bisection, nothing on disk.

A lookup touches no file and never waits. In return the entries are heap instead of page cache (8 bytes for a
position and up to 12 for a time), and every start reads the headers of all batches once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import attrs

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, IndexPlace


class MemoryIndex:
    """`SegmentIndex` in pairs of arrays: offsets with positions, timestamps with offsets.

    Only the appending thread makes them longer, the searched one of a pair last; truncating puts another pair
    in their place. So a reader in another thread, which takes a pair as a whole, finds what it looks for.
    """

    __slots__ = (
        "_base_offset",
        "_max_places",
        "_max_times",
        "_path",
        "_places",
        "_times",
    )

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        """Without entries."""
        self._base_offset = place.base_offset
        self._path = place.path("")
        # 32 bits for whatever counts from the segment's beginning, as in Kafka's files.
        self._places = array("i"), array("i")
        self._times = array("q"), array("i")
        self.resize(max_bytes)

    def __str__(self) -> str:
        return f"the index of {self._path} in memory"

    @property
    def entries(self) -> int:
        """See `SegmentIndex.entries`."""
        return len(self._places[0])

    @property
    def is_full(self) -> bool:
        """See `SegmentIndex.is_full`; one time entry is kept for `close`."""
        return len(self._places[0]) >= self._max_places or len(self._times[0]) >= self._max_times

    @property
    def files(self) -> Sequence[str]:
        """None."""
        return ()

    def resize(self, max_bytes: int) -> None:
        """See `SegmentIndex.resize`."""
        self._max_places = max_bytes // OFFSET_ENTRY_BYTES
        self._max_times = max_bytes // TIME_ENTRY_BYTES - 1

    def make_room(self) -> None:
        """There is always room."""

    def append(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> bool:
        """See `SegmentIndex.append`."""
        self.close(max_timestamp, max_timestamp_offset)
        offsets, positions = self._places
        positions.append(position)
        offsets.append(last_offset - self._base_offset)
        return len(offsets) >= self._max_places or len(self._times[0]) >= self._max_times

    def floor_position(self, offset: int, wait: bool) -> int:
        """See `SegmentIndex.floor_position`; never waits."""
        offsets, positions = self._places
        slot = bisect_right(offsets, offset - self._base_offset) - 1
        return 0 if slot < 0 else positions[slot]

    def offset_behind(self, position: int, offset: int) -> int:
        """See `SegmentIndex.offset_behind`."""
        offsets, positions = self._places
        entries = len(offsets)
        slot = bisect_left(positions, position, 0, entries)
        bound = self._base_offset + offsets[slot] if slot < entries else 0
        return bound if bound > offset else 0

    def floor_offset(self, timestamp_ms: int) -> int:
        """See `SegmentIndex.floor_offset`."""
        timestamps, offsets = self._times
        slot = bisect_right(timestamps, timestamp_ms) - 1
        return self._base_offset if slot < 0 else self._base_offset + offsets[slot]

    def last_position(self) -> tuple[int, int]:
        """See `SegmentIndex.last_position`."""
        offsets, positions = self._places
        if not offsets:
            return self._base_offset - 1, 0
        return self._base_offset + offsets[-1], positions[-1]

    def last_timestamp(self) -> tuple[int, int]:
        """See `SegmentIndex.last_timestamp`."""
        timestamps, offsets = self._times
        if not timestamps:
            return NO_TIMESTAMP, self._base_offset
        return timestamps[-1], self._base_offset + offsets[-1]

    def truncate_to(self, offset: int) -> None:
        """See `SegmentIndex.truncate_to`."""
        relative = offset - self._base_offset
        offsets, positions = self._places
        kept = bisect_left(offsets, relative)
        self._places = offsets[:kept], positions[:kept]
        timestamps, time_offsets = self._times
        kept = bisect_left(time_offsets, relative)
        self._times = timestamps[:kept], time_offsets[:kept]

    def close(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """See `SegmentIndex.close`."""
        timestamps, offsets = self._times
        if max_timestamp_offset >= 0 and max_timestamp > (timestamps[-1] if timestamps else NO_TIMESTAMP):
            offsets.append(max_timestamp_offset - self._base_offset)
            timestamps.append(max_timestamp)

    def release(self) -> None:
        """There is nothing that would come back."""

    def relocate(self, place: IndexPlace) -> None:
        """See `SegmentIndex.relocate`."""
        self._path = place.path("")
        self._base_offset = place.base_offset


@attrs.frozen
class MemoryBuilder:
    """`IndexBuilder`: an index that takes entries one by one needs nothing more."""

    _index: MemoryIndex

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """See `IndexBuilder.add`."""
        self._index.append(last_offset, position, max_timestamp, max_timestamp_offset)

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> MemoryIndex:
        """See `IndexBuilder.finish`."""
        self._index.close(max_timestamp, max_timestamp_offset)
        return self._index
