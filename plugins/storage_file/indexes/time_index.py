"""The time index: from a timestamp to an offset.

    byte 0  timestamp       int64   milliseconds since the epoch
         8  relativeOffset  int32   minus the segment's base offset

12 bytes an entry, both fields growing. An entry (T, O) says: T is the largest timestamp at or before O, and O
is the last offset of the batch that brought it. The last slot is kept for the segment's largest timestamp,
which is written when the segment rolls or closes.
Source: KIP-33.
"""

from __future__ import annotations

import os
from struct import Struct

from tidelog.kernel import disk
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.plugins.storage_file.indexes.mapped_index import MappedIndex
from tidelog.plugins.storage_file.names import TIME_INDEX_SUFFIX

_ENTRY = Struct(">qi")
_pack_into = _ENTRY.pack_into
_unpack_from = _ENTRY.unpack_from


class TimeIndex(MappedIndex):
    """`.timeindex` of one segment; `last_timestamp` is that of its last entry, -1 without one."""

    ENTRY = _ENTRY
    KEY = Struct(">q")
    SUFFIX = TIME_INDEX_SUFFIX
    __slots__ = ("last_timestamp",)

    def __init__(self, place: IndexPlace, entries: int, max_bytes: int, last_timestamp: int) -> None:
        """As `MappedIndex`, with the timestamp of the last of the `entries`, -1 for none."""
        super().__init__(place, entries, max_bytes)
        self.last_timestamp = last_timestamp

    @property
    def is_full(self) -> bool:
        """Return whether only the reserved last slot is left."""
        return self.entries >= self.max_entries - 1

    def append_timestamp(self, timestamp: int, offset: int) -> None:
        """Store an entry for which `make_room` has reserved room, if its timestamp is the largest."""
        if timestamp > self.last_timestamp:
            entries = self.entries
            _pack_into(self._map, entries * 12, timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp
            self.entries = entries + 1

    def append_last(self, timestamp: int, offset: int) -> None:
        """Blocking: store the segment's largest timestamp, in the reserved slot if need be.

        Into the file, not into the mapping, which another thread may release at any time.

        Raises:
            OSError: the disk refused; the index is as before.
        """
        if timestamp > self.last_timestamp:
            at = self.entries * 12
            fd = disk.open_file(self.path, os.O_WRONLY)
            try:
                disk.write_all(fd, _ENTRY.pack(timestamp, offset - self.base_offset), at)
            finally:
                disk.close(fd)
            self.last_timestamp = timestamp
            self.entries += 1

    def floor_offset(self, timestamp: int) -> int:
        """Blocking: return an offset up to which no batch has a larger timestamp than `timestamp`."""
        entries = self.entries
        if not entries:
            return self.base_offset
        mapped = self._mapping(entries, wait=True)
        slot = self._floor(timestamp, entries, mapped, wait=True)
        return self.base_offset if slot < 0 else self.base_offset + _unpack_from(mapped, slot * 12)[1]

    def truncate_to(self, offset: int) -> None:
        """Blocking: drop the entries of `offset` and later ones; closing the segment truncates the file."""
        entries = self.entries
        if not entries:
            return
        mapped, relative = self._mapping(entries, wait=True), offset - self.base_offset
        while entries and _unpack_from(mapped, (entries - 1) * 12)[1] >= relative:
            entries -= 1
        self.last_timestamp = _unpack_from(mapped, (entries - 1) * 12)[0] if entries else NO_TIMESTAMP
        self.entries = entries

    def last_entry(self) -> tuple[int, int]:
        """Blocking: return timestamp and offset of the last entry, (-1, base offset) without one."""
        if not self.entries:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self.read_last()
        return timestamp, self.base_offset + relative
