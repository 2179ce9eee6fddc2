"""What an index has to answer, worked out from a list of its entries in the simplest way."""

from __future__ import annotations

from collections.abc import Sequence

import attrs


@attrs.frozen
class Entry:
    """One call of `SegmentIndex.append_entry`."""

    last_offset: int
    position: int
    max_timestamp: int
    max_timestamp_offset: int


@attrs.define
class ModelIndex:
    """Entries in order; `closing` is what `close` was given, (-1, -1) before."""

    base_offset: int
    entries: list[Entry] = attrs.field(factory=list[Entry])
    closing: tuple[int, int] = (-1, -1)

    def times(self) -> Sequence[tuple[int, int]]:
        """(timestamp, offset) of each that was larger than all before it."""
        found: list[tuple[int, int]] = []
        for entry in self.entries:
            if entry.max_timestamp > (found[-1][0] if found else -1):
                found.append((entry.max_timestamp, entry.max_timestamp_offset))
        if self.closing[1] >= 0 and self.closing[0] > (found[-1][0] if found else -1):
            found.append(self.closing)
        return found

    def floor_position(self, offset: int) -> int:
        """See `SegmentIndex.floor_position`."""
        return max((each.position for each in self.entries if each.last_offset <= offset), default=0)

    def offset_behind(self, position: int, offset: int) -> int:
        """See `SegmentIndex.offset_behind`."""
        bound = min((each.last_offset for each in self.entries if each.position >= position), default=0)
        return bound if bound > offset else 0

    def floor_offset(self, timestamp_ms: int) -> int:
        """See `SegmentIndex.floor_offset`."""
        known = [offset for timestamp, offset in self.times() if timestamp <= timestamp_ms]
        return known[-1] if known else self.base_offset

    def last_position(self) -> tuple[int, int]:
        """See `SegmentIndex.last_position`."""
        if not self.entries:
            return self.base_offset - 1, 0
        return self.entries[-1].last_offset, self.entries[-1].position

    def last_timestamp(self) -> tuple[int, int]:
        """See `SegmentIndex.last_timestamp`."""
        times = self.times()
        return times[-1] if times else (-1, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """See `SegmentIndex.truncate_to`; a time that only `close` brought goes with its offset."""
        self.entries = [entry for entry in self.entries if entry.last_offset < offset]
        if self.closing[1] >= offset:
            self.closing = (-1, -1)
