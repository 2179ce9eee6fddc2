"""The index seam: the position of an offset in a segment, and the offset of a timestamp.

A storage that keeps segments in files asks the format that `index.format` names for one `SegmentIndex` per
segment. An index holds nothing that cannot be rebuilt from the log, so the format may be changed from one
start to the next, and a format may keep nothing on disk at all.

Entries are sparse: the storage decides which batches get one (`index.interval.bytes`), the format decides how
they are stored and searched. A format without files needs to implement little more than the search
(`IndexFormatBase`, `SegmentIndexBase`). `tidelog.kernel.testing.indexes` has its conformance suite.
Source: Apache Kafka's `OffsetIndex`, `TimeIndex` and `TransactionIndex`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tidelog.kernel.errors import TidelogError

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Offsets are stored relative to the segment's base offset, in 31 bits, as in Kafka's indexes."""
OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
"""Sizes of entries in Kafka's files; `segment.index.bytes` counts in these, whatever the format."""


class IndexUnusable(TidelogError):
    """An index is missing or corrupt; it has to be rebuilt from the log."""


class IndexPlace(NamedTuple):
    """Where a segment's files are: its directory, its base offset, and `mark`, which follows the suffix.

    `mark` is empty except for segments that are about to replace others.
    """

    directory: str
    base_offset: int
    mark: str = ""

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with this suffix."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}{self.mark}"


class SegmentIndex(Protocol):
    """The index of one segment. One thread adds entries while any thread looks up.

    `str()` of it names it in log lines.
    """

    @property
    def entries(self) -> int:
        """Number of positions in the index."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the segment has to roll before another entry."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """Paths of the files that a flush has to bring to the device; they are there after `close`."""
        ...

    def make_room(self) -> None:
        """Make sure that one more entry can be stored.

        Raises:
            OSError: the disk refused; the index is as before.
        """
        ...

    def append_entry(
        self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int
    ) -> bool:
        """Store an entry, after `make_room`; return whether the index is full now.

        The batch that ends with `last_offset` starts at byte `position`. Up to its end, `max_timestamp` is
        the segment's largest; the batch that brought it ends with `max_timestamp_offset`.
        """
        ...

    def floor_position(self, offset: int, wait: bool) -> int:
        """Return the position of a batch at or before the one that holds `offset`, 0 if no entry is.

        Raises:
            WouldBlock: the index is not in memory (never with `wait`).
        """
        ...

    def offset_behind(self, position: int, offset: int) -> int:
        """Return an offset above all batches that start before `position`; one of them holds `offset`.

        0 if no entry has one, or if reading it would block.
        """
        ...

    def floor_offset(self, timestamp_ms: int) -> int:
        """Blocking: return an offset below which no batch has a larger timestamp than `timestamp_ms`."""
        ...

    def last_position(self) -> tuple[int, int]:
        """Blocking: return last offset and position of the newest entry, (base offset - 1, 0) without one."""
        ...

    def last_timestamp(self) -> tuple[int, int]:
        """Blocking: return the largest timestamp and its offset, (-1, base offset) without one."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the entries of `offset` and of later offsets."""
        ...

    def resize(self, max_bytes: int) -> None:
        """Limit the size of each kind of entries to `max_bytes` from now on."""
        ...

    def close(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Blocking: store the segment's largest timestamp if it is not stored yet; no append follows soon.

        There is always room for that entry. An offset below 0 stands for no timestamp.

        Raises:
            OSError: the disk refused.
        """
        ...

    def release(self) -> None:
        """Release descriptors and mappings; the next use opens them again."""
        ...

    def relocate(self, place: IndexPlace) -> None:
        """Use the new paths of the renamed files; the base offset may change if there are no entries."""
        ...


class IndexBuilder(Protocol):
    """Builds an index from all entries, oldest first."""

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Add an entry as `SegmentIndex.append_entry` does, without a limit."""
        ...

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> SegmentIndex:
        """Blocking: return the index, closed as by `SegmentIndex.close`.

        Raises:
            OSError: the disk refused.
        """
        ...


class IndexFormat(Protocol):
    """A way to keep indexes, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that `index.format` chooses it by."""
        ...

    @property
    def suffixes(self) -> Sequence[str]:
        """Suffixes of its files, such as `.index`; empty for a format without files.

        They are removed from a partition that uses another format.
        """
        ...

    def create(self, place: IndexPlace, max_bytes: int) -> SegmentIndex:
        """Blocking: create the empty index of a new segment, with its files.

        Raises:
            OSError: the disk refused; files may be left.
        """
        ...

    def open(self, place: IndexPlace, max_bytes: int, log_bytes: int) -> SegmentIndex:
        """Blocking: open the index as `close` left it, of a log with `log_bytes` bytes.

        Called only for formats that have files; the others are built from the log.

        Raises:
            IndexUnusable: it has to be rebuilt.
            OSError: the disk refused.
        """
        ...

    def build(self, place: IndexPlace, max_bytes: int) -> IndexBuilder:
        """Begin to rebuild an index; its present content is ignored."""
        ...


class SegmentIndexBase(ABC):
    """Defaults for an index that keeps no files and never waits.

    A subclass implements two growing lists, of positions and of timestamps, and searches in them.
    """

    __slots__ = ("max_positions", "max_times", "place")

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        self.place = place
        self.resize(max_bytes)

    def __str__(self) -> str:
        return f"the index of {self.place.path('')}"

    @property
    @abstractmethod
    def entries(self) -> int:
        """Number of positions in the index."""

    @property
    @abstractmethod
    def time_entries(self) -> int:
        """Number of timestamps in the index."""

    @abstractmethod
    def add_position(self, last_offset: int, position: int) -> None:
        """Add the position of the batch that ends with `last_offset`; both are larger than any before."""

    @abstractmethod
    def add_time(self, timestamp_ms: int, offset: int) -> None:
        """Add a timestamp, larger than any before, and the offset where its batch ends."""

    @abstractmethod
    def floor_position(self, offset: int, wait: bool) -> int:
        """Return the position of a batch at or before the one that holds `offset`."""

    @abstractmethod
    def floor_offset(self, timestamp_ms: int) -> int:
        """Return an offset below which no batch has a larger timestamp."""

    @abstractmethod
    def last_position(self) -> tuple[int, int]:
        """Return last offset and position of the newest entry."""

    @abstractmethod
    def last_timestamp(self) -> tuple[int, int]:
        """Return the largest timestamp and its offset."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and of later offsets."""

    @property
    def is_full(self) -> bool:
        """Whether it has as many entries as Kafka's files of that size; `close` may add one timestamp."""
        return self.entries >= self.max_positions or self.time_entries >= self.max_times

    @property
    def files(self) -> Sequence[str]:
        """None."""
        return ()

    def append_entry(
        self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int
    ) -> bool:
        """Add the position, and the timestamp if it is larger than any before."""
        self.close(max_timestamp, max_timestamp_offset)
        self.add_position(last_offset, position)
        return self.is_full

    def close(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Add the timestamp if it is larger than any before."""
        if max_timestamp_offset >= 0 and max_timestamp > self.last_timestamp()[0]:
            self.add_time(max_timestamp, max_timestamp_offset)

    def resize(self, max_bytes: int) -> None:
        """Count entries as Kafka's files would hold them."""
        self.max_positions = max_bytes // OFFSET_ENTRY_BYTES
        # One less, as in Kafka: `close` adds the segment's largest timestamp, for which there has to be room.
        self.max_times = max_bytes // TIME_ENTRY_BYTES - 1

    def make_room(self) -> None:  # noqa: B027 - a default, not left out
        """Do nothing: there is always room."""

    def offset_behind(self, position: int, offset: int) -> int:
        """Return 0: no bound is known, and the caller looks further."""
        return 0

    def release(self) -> None:  # noqa: B027 - a default, not left out
        """Do nothing: there is nothing to release."""

    def relocate(self, place: IndexPlace) -> None:
        """Take the new directory and base offset."""
        self.place = place


class IndexFormatBase(ABC):
    """Defaults for a format that keeps no files: its indexes are built from the log at every start."""

    name: str
    """The name that `index.format` chooses it by."""

    @abstractmethod
    def create(self, place: IndexPlace, max_bytes: int) -> SegmentIndex:
        """Create the empty index of a new segment."""

    @property
    def suffixes(self) -> Sequence[str]:
        """None."""
        return ()

    def open(self, place: IndexPlace, max_bytes: int, log_bytes: int) -> SegmentIndex:
        """Refuse, since there are no files.

        Raises:
            IndexUnusable: always.
        """
        raise IndexUnusable(f"the index of {place.path('')} has no files")

    def build(self, place: IndexPlace, max_bytes: int) -> IndexBuilder:
        """Return a builder that appends to a new index."""
        return AppendingBuilder(self.create(place, max_bytes))


class AppendingBuilder:
    """`IndexBuilder` for an index that takes entries one by one without a limit."""

    def __init__(self, index: SegmentIndex) -> None:
        self._index = index

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Append an entry to the index."""
        self._index.append_entry(last_offset, position, max_timestamp, max_timestamp_offset)

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> SegmentIndex:
        """Close the index and return it."""
        self._index.close(max_timestamp, max_timestamp_offset)
        return self._index


def all_suffixes(formats: Mapping[str, IndexFormat]) -> frozenset[str]:
    """Return the suffixes of every format's files."""
    return frozenset(suffix for each in formats.values() for suffix in each.suffixes)
