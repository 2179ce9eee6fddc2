"""The segments of one log, oldest first, and lookups over several of them.

The tuple is replaced as a whole, under a lock that is never held across a file operation, so that readers in
any thread take a consistent view without a lock. Source: Apache Kafka's `LogSegments`.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.plugins.storage_file.log_config import ALWAYS
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.segments.transfer import FileSegmentSource

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.seams.storage import AbortedTransaction, SegmentView

_base_offset = attrgetter("base_offset")


class LogSegments:
    """At least one segment; `all` is a view that does not change, `active` is the one that takes appends.

    `changing` is held while files of segments are removed, renamed or trimmed; `changes` counts the removals.
    A lookup raises `FileNotFoundError` when a segment was removed after the lookup had taken its view;
    `changed_since` returns whether to repeat it.
    """

    __slots__ = ("_editing", "active", "all", "changes", "changing")

    def __init__(self, segments: Sequence[Segment]) -> None:
        """Segments in order of their base offsets."""
        self._editing = threading.Lock()
        self.all: tuple[Segment, ...] = tuple(segments)
        self.active = self.all[-1]
        self.changing = threading.Lock()
        self.changes = 0

    @property
    def start_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self.all[0].base_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.all)

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """Return the segment that would hold `offset`, and all later ones."""
        segments = self.all
        return segments[max(_count_up_to(segments, offset) - 1, 0) :]

    def add(self, segment: Segment) -> None:
        """Put a new active segment at the end."""
        with self._editing:
            # In this order: a reader that sees the new active segment finds it among all of them.
            self.all = (*self.all, segment)
            self.active = segment

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Put segments at the beginning again, which `take_before` took."""
        with self._editing:
            self.all = (*segments, *self.all)

    def take_before(self, offset: int) -> Sequence[Segment]:
        """Take out the segments that lie wholly below `offset`, never the active one."""
        with self._editing:
            count = max(_count_up_to(self.all, offset) - 1, 0)
            taken, self.all = self.all[:count], self.all[count:]
        return taken

    def take_after(self, offset: int) -> Sequence[Segment]:
        """Take out the segments that begin above `offset`, but not the first one of all."""
        with self._editing:
            count = max(_count_up_to(self.all, offset), 1)
            taken, self.all = self.all[count:], self.all[:count]
            self.active = self.all[-1]
        return taken

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` in the place of `old`, which follow each other and are not the active one."""
        with self._editing:
            start = self.all.index(old[0])
            self.all = (*self.all[:start], *new, *self.all[start + len(old) :])

    def replace_all(self, segment: Segment) -> Sequence[Segment]:
        """Make `segment` the only one; return the others."""
        with self._editing:
            taken, self.all = self.all, (segment,)
            self.active = segment
        return taken

    @contextlib.contextmanager
    def removing(self) -> Generator[None]:
        """Hold `changing` while segments are removed or replaced, and count the change at its end."""
        with self.changing:
            try:
                yield
            finally:
                self.changes += 1

    def changed_since(self, changes: int) -> bool:
        """Blocking: wait for the end of a change, and return whether `changes` is out of date."""
        with self.changing:
            return self.changes != changes

    def force_slow_path(self) -> None:
        """Let the next append check everything there is to check."""
        self.active.byte_limit = ALWAYS

    def sleep(self) -> None:
        """Release all descriptors and mappings; the next use opens them again."""
        for segment in self.all:
            segment.sleep()

    def sleep_if_idle(self) -> None:
        """Release descriptors and mappings of segments that were not used since the last call."""
        for segment in self.all:
            segment.sleep_if_idle()

    def views(self) -> Sequence[SegmentView]:
        """Return a view of each segment for cleanup policies."""
        segments = self.all
        last = len(segments) - 1
        return [segment.view(active=index == last) for index, segment in enumerate(segments)]

    def sources(self, until: int) -> Sequence[FileSegmentSource]:
        """Return the inactive segments with base offsets below `until`, for another process."""
        return [
            FileSegmentSource(segment.path(), segment.base_offset, segment.size, segment.index.entries)
            for segment in self.all[:-1]
            if segment.base_offset < until
        ]

    def first_timestamp(self, base_offset: int) -> int:
        """Blocking: return the largest timestamp of the first batch of a segment, -1 without one.

        Raises:
            FileNotFoundError: see `LogSegments`.
        """
        for segment in self.all:
            if segment.base_offset == base_offset:
                if segment.size and segment.first_timestamp == NO_TIMESTAMP:
                    segment.load_first_timestamp()
                return segment.first_timestamp if segment.size else NO_TIMESTAMP
        return NO_TIMESTAMP

    def aborted_transactions(
        self, from_offset: int, to_offset: int, *, wait: bool
    ) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that overlap `[from_offset, to_offset)`.

        Raises:
            WouldBlock: not all of it is in memory (never with `wait`).
            FileNotFoundError: see `LogSegments`.
        """
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(from_offset):
            if segment.aborted.last_offset < from_offset:
                continue
            more = segment.aborted.search(from_offset, to_offset, found, wait=wait)
            # After the search: the file that it opened may be that of a segment which took the name.
            segment.check_not_removed()
            if not more:
                break
        return found

    def batch_at_timestamp(self, timestamp_ms: int) -> bytes | None:
        """Blocking: return the first batch whose max timestamp is at least `timestamp_ms`.

        Raises:
            FileNotFoundError: see `LogSegments`.
        """
        for segment in self.all:
            place = segment.find_timestamp(timestamp_ms)
            if place is not None:
                return segment.read_batch(place)
        return None

    def batch_of_max_timestamp(self) -> bytes | None:
        """Blocking: return the first batch with the largest timestamp of all.

        Raises:
            FileNotFoundError: see `LogSegments`.
        """
        segment = max(self.all, key=_max_timestamp_if_filled)
        place = segment.find(segment.max_timestamp_offset, segment.size, wait=True)
        return None if place is None else segment.read_batch(place)

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """Blocking: iterate over the headers of the batches from the one that holds `from_offset` on.

        Raises:
            FileNotFoundError: see `LogSegments`.
        """
        for segment in self.from_offset(from_offset):
            for header in segment.headers(max(from_offset, segment.base_offset)):
                yield header
                from_offset = header.next_offset


def _count_up_to(segments: Sequence[Segment], offset: int) -> int:
    return bisect_right(segments, offset, key=_base_offset)


def _max_timestamp_if_filled(segment: Segment) -> tuple[bool, int]:
    return segment.size > 0, segment.max_timestamp
