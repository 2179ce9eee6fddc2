"""Making both indexes of a segment anew from its batches, entry for entry as appending made them."""

from __future__ import annotations

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.indexes.offset_index import OffsetIndex
from tidelog.plugins.storage_file.indexes.time_index import TimeIndex
from tidelog.plugins.storage_file.segments.rolling import MAX_RELATIVE_OFFSET


class IndexBuilder:
    """Takes the batches of one segment in order, then writes its index files."""

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "_offsets",
        "_times",
        "_written_timestamp",
        "indexed_position",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        """For a segment with that base offset and an entry every `interval_bytes`."""
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._offsets = bytearray()
        self._times = bytearray()
        self._written_timestamp = NO_TIMESTAMP
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset

    def add(self, last_offset: int, position: int, max_timestamp: int) -> None:
        """Take the batch that starts at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self._interval_bytes:
            relative = last_offset - self._base_offset
            # An offset that does not fit is left out: a lookup then starts at an earlier entry.
            if relative <= MAX_RELATIVE_OFFSET:
                self._offsets += OffsetIndex.ENTRY.pack(relative, position)
                self._add_time()
                self.indexed_position = position

    def write(self, directory: str, max_bytes: int) -> tuple[OffsetIndex, TimeIndex]:
        """Blocking: write both files, with the last time entry, cut to their entries."""
        self._add_time()
        offsets = OffsetIndex(
            directory, self._base_offset, len(self._offsets) // OffsetIndex.ENTRY.size, max_bytes
        )
        times = TimeIndex(
            directory,
            self._base_offset,
            len(self._times) // TimeIndex.ENTRY.size,
            max_bytes,
            self._written_timestamp,
        )
        disk.write_file(offsets.path, self._offsets, durable=False)
        disk.write_file(times.path, self._times, durable=False)
        return offsets, times

    def _add_time(self) -> None:
        relative = self.max_timestamp_offset - self._base_offset
        if self.max_timestamp > self._written_timestamp and relative <= MAX_RELATIVE_OFFSET:
            self._times += TimeIndex.ENTRY.pack(self.max_timestamp, relative)
            self._written_timestamp = self.max_timestamp
