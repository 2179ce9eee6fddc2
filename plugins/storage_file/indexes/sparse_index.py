"""The format `sparse`: Kafka's own `.index` and `.timeindex`, mapped into memory when they are needed.

Their layouts are in `offset_index.py` and `time_index.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidelog.kernel import disk
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import IndexPlace, IndexUnusable
from tidelog.plugins.storage_file.indexes.offset_index import OffsetIndex
from tidelog.plugins.storage_file.indexes.time_index import TimeIndex
from tidelog.plugins.storage_file.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX

_log = logging.getLogger(__name__)


class SparseIndex:
    """`SegmentIndex` in two files."""

    __slots__ = ("_offsets", "_times", "floor_position")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets = offsets
        self._times = times
        # The offset index's own method, which saves a call at each fetch.
        self.floor_position = offsets.floor_position

    def __str__(self) -> str:
        return f"{self._offsets.path} (with its {TIME_INDEX_SUFFIX})"

    @property
    def entries(self) -> int:
        """Number of positions that it has."""
        return self._offsets.entries

    @property
    def is_full(self) -> bool:
        """Return whether the segment has to roll before another entry."""
        return self._offsets.is_full or self._times.is_full

    @property
    def files(self) -> Sequence[str]:
        """`.index` and `.timeindex`."""
        return self._offsets.path, self._times.path

    def resize(self, max_bytes: int) -> None:
        """Let each file take up to `max_bytes` from now on."""
        self._offsets.resize(max_bytes)
        self._times.resize(max_bytes)

    def make_room(self) -> None:
        """Reserve room for one more entry in both files."""
        offsets, times = self._offsets, self._times
        if offsets.entries >= offsets.room:
            offsets.make_room()
        if times.entries >= times.room:
            times.make_room()

    def append_entry(
        self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int
    ) -> bool:
        """Store an entry in both files; return whether one of them is full now."""
        offsets, times = self._offsets, self._times
        offsets.append_offset(last_offset, position)
        if max_timestamp > times.last_timestamp:
            times.append_timestamp(max_timestamp, max_timestamp_offset)
        # The last slot of the time index stays free for `close`.
        return offsets.entries >= offsets.max_entries or times.entries >= times.max_entries - 1

    def offset_behind(self, position: int, offset: int) -> int:
        """Return an offset above all batches that start before `position`, 0 when no entry shows one."""
        return self._offsets.offset_behind(position, offset)

    def floor_offset(self, timestamp_ms: int) -> int:
        """Blocking: return an offset below which no batch has a larger timestamp than `timestamp_ms`."""
        return self._times.floor_offset(timestamp_ms)

    def last_position(self) -> tuple[int, int]:
        """Blocking: return last offset and position of the newest entry, (base offset - 1, 0) without one."""
        return self._offsets.last_entry()

    def last_timestamp(self) -> tuple[int, int]:
        """Blocking: return the largest timestamp and its offset, (-1, base offset) without one."""
        return self._times.last_entry()

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the entries of `offset` and later ones; closing truncates the files."""
        self._offsets.truncate_to(offset)
        self._times.truncate_to(offset)

    def close(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Blocking: store the last time entry in its reserved slot, and trim the files."""
        if max_timestamp_offset >= 0:
            self._times.append_last(max_timestamp, max_timestamp_offset)
        self._offsets.trim()
        self._times.trim()

    def release(self) -> None:
        """Release the mappings; the next use maps the files again."""
        self._offsets.release()
        self._times.release()

    def relocate(self, place: IndexPlace) -> None:
        """Note that the files were renamed."""
        self._offsets.place = self._times.place = place
        self._offsets.base_offset = self._times.base_offset = place.base_offset

    def check(self, log_bytes: int) -> None:
        """Blocking: validate the newest entries, which refer to the end of the log.

        Raises:
            IndexUnusable: they cannot belong to a log of that many bytes.
        """
        offsets, times = self._offsets, self._times
        base_offset = offsets.place.base_offset
        last_offset, position = offsets.last_entry()
        if offsets.entries and not (base_offset <= last_offset and 0 <= position < log_bytes):
            raise IndexUnusable(f"{offsets.path} has an entry for byte {position} of {log_bytes}")
        timestamp, offset = times.last_entry()
        if times.entries and not (log_bytes and base_offset <= offset and timestamp > NO_TIMESTAMP):
            raise IndexUnusable(f"{times.path} has an entry that cannot be, for offset {offset}")
        times.last_timestamp = timestamp


class SparseBuilder:
    """`IndexBuilder` that collects both files in memory and writes them at once."""

    __slots__ = ("_max_bytes", "_offsets", "_place", "_times", "_written_timestamp")

    def __init__(self, place: IndexPlace, max_bytes: int) -> None:
        self._place = place
        self._max_bytes = max_bytes
        self._offsets = bytearray()
        self._times = bytearray()
        self._written_timestamp = NO_TIMESTAMP

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Add an entry."""
        self._offsets += OffsetIndex.ENTRY.pack(last_offset - self._place.base_offset, position)
        if max_timestamp > self._written_timestamp:
            self._add_time(max_timestamp, max_timestamp_offset)

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> SparseIndex:
        """Blocking: write both files; return the index, closed.

        If the disk is full they stay empty: lookups then read the log from the segment's start, and the next
        start rebuilds them.
        """
        if max_timestamp > self._written_timestamp and max_timestamp_offset >= 0:
            self._add_time(max_timestamp, max_timestamp_offset)
        try:
            return self._write()
        except OSError as error:
            if not disk.is_full(error):
                raise
            _log.warning(
                "%s stays empty until the next start: %s", self._place.path(OFFSET_INDEX_SUFFIX), error
            )
        self._offsets, self._times, self._written_timestamp = bytearray(), bytearray(), NO_TIMESTAMP
        return self._write()

    def _write(self) -> SparseIndex:
        offsets = OffsetIndex(self._place, len(self._offsets) // OffsetIndex.ENTRY.size, self._max_bytes)
        times = TimeIndex(
            self._place, len(self._times) // TimeIndex.ENTRY.size, self._max_bytes, self._written_timestamp
        )
        # Not durable yet: `Durability` flushes them with their segment, and a start can rebuild them.
        disk.write_file(offsets.path, self._offsets, durable=False)
        disk.write_file(times.path, self._times, durable=False)
        return SparseIndex(offsets, times)

    def _add_time(self, timestamp: int, offset: int) -> None:
        self._times += TimeIndex.ENTRY.pack(timestamp, offset - self._place.base_offset)
        self._written_timestamp = timestamp


class SparseFormat:
    """`IndexFormat` in Kafka's own files."""

    name = "sparse"
    suffixes = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)

    def create(self, place: IndexPlace, max_bytes: int) -> SparseIndex:
        """Blocking: return the empty index of a new segment."""
        offsets = OffsetIndex(place, 0, max_bytes)
        times = TimeIndex(place, 0, max_bytes, NO_TIMESTAMP)
        offsets.create()
        times.create()
        return SparseIndex(offsets, times)

    def open(self, place: IndexPlace, max_bytes: int, log_bytes: int) -> SparseIndex:
        """Blocking: return the index as `close` left it; nothing stays open."""
        index = SparseIndex(
            OffsetIndex(place, _entries_in(place, OffsetIndex), max_bytes),
            TimeIndex(place, _entries_in(place, TimeIndex), max_bytes, NO_TIMESTAMP),
        )
        index.check(log_bytes)
        return index

    def build(self, place: IndexPlace, max_bytes: int) -> SparseBuilder:
        """Begin to rebuild an index."""
        return SparseBuilder(place, max_bytes)


def _entries_in(place: IndexPlace, kind: type[OffsetIndex] | type[TimeIndex]) -> int:
    path = place.path(kind.SUFFIX)
    try:
        size = disk.stat(path).st_size
    except FileNotFoundError:
        raise IndexUnusable(f"{path} is missing") from None
    if size % kind.ENTRY.size:
        raise IndexUnusable(f"{path} has {size} bytes, no multiple of {kind.ENTRY.size}")
    return size // kind.ENTRY.size


SPARSE = SparseFormat()
