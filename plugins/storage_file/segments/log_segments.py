"""The segments of a partition, oldest first.

The tuple is replaced as a whole, under a lock that is never held across a file operation, so that readers in
any thread take a consistent view without a lock. Source: seed 000, section 5.4 "Deletes".
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from tidelog.plugins.storage_file.segments.segment import Segment

_base_offset = attrgetter("base_offset")


class SegmentList:
    """At least one segment; `all` is a view that does not change, `active` is the one that takes appends."""

    __slots__ = ("_changing", "active", "all")

    def __init__(self, segments: Sequence[Segment]) -> None:
        """Segments in order of their base offsets."""
        self._changing = threading.Lock()
        self.all: tuple[Segment, ...] = tuple(segments)
        self.active = self.all[-1]

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """The segment that would hold `offset`, and all behind it."""
        segments = self.all
        return segments[max(_count_up_to(segments, offset) - 1, 0) :]

    def add(self, segment: Segment) -> None:
        """Put a new active segment at the end."""
        with self._changing:
            self.all = (*self.all, segment)
            self.active = segment

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Put segments at the beginning again, which `take_before` took."""
        with self._changing:
            self.all = (*segments, *self.all)

    def take_before(self, offset: int) -> Sequence[Segment]:
        """Take out the segments that lie wholly below `offset`, never the active one."""
        with self._changing:
            count = max(_count_up_to(self.all, offset) - 1, 0)
            taken, self.all = self.all[:count], self.all[count:]
        return taken

    def take_after(self, offset: int) -> Sequence[Segment]:
        """Take out the segments that begin above `offset`, but not the first one of all."""
        with self._changing:
            count = max(_count_up_to(self.all, offset), 1)
            taken, self.all = self.all[count:], self.all[:count]
            self.active = self.all[-1]
        return taken

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` in the place of `old`, which follow each other and are not the active one."""
        with self._changing:
            start = self.all.index(old[0])
            self.all = (*self.all[:start], *new, *self.all[start + len(old) :])

    def begin_anew(self, segment: Segment) -> Sequence[Segment]:
        """Make `segment` the only one; those that were there."""
        with self._changing:
            taken, self.all = self.all, (segment,)
            self.active = segment
        return taken


def _count_up_to(segments: Sequence[Segment], offset: int) -> int:
    return bisect_right(segments, offset, key=_base_offset)
