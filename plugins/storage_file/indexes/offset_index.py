"""The offset index: from an offset to a place in the segment.

    byte 0  relativeOffset    int32   last offset of a batch, minus the segment's base offset
         4  physicalPosition  int32   where that batch starts in the .log file

8 bytes an entry, both fields growing; one entry every `index.interval.bytes` of log.
Source: Apache Kafka's class of this name.
"""

from __future__ import annotations

from struct import Struct

from tidelog.plugins.storage_file.indexes.mapped_index import MappedIndex
from tidelog.plugins.storage_file.indexes.residency import is_resident
from tidelog.plugins.storage_file.names import OFFSET_INDEX_SUFFIX

_ENTRY = Struct(">ii")
_pack_into = _ENTRY.pack_into
_unpack_from = _ENTRY.unpack_from


class OffsetIndex(MappedIndex):
    """`.index` of one segment."""

    ENTRY = _ENTRY
    KEY = Struct(">i")
    SUFFIX = OFFSET_INDEX_SUFFIX
    __slots__ = ()

    def append_offset(self, offset: int, position: int) -> None:
        """Store an entry for which `make_room` has reserved room."""
        entries = self.entries
        # The entry before the number: a reader in another thread looks no further than the number.
        _pack_into(self._map, entries * 8, offset - self.base_offset, position)
        self.entries = entries + 1

    def floor_position(self, offset: int, wait: bool) -> int:
        """Return the position of a batch at or before the one that holds `offset`.

        Raises:
            WouldBlock: the index is not in memory (never with `wait`).
        """
        entries = self.entries
        if not entries:
            return 0
        # After the number: a mapping only grows, so that this one has all those entries or is seen to be too
        # short.
        mapped = self._map
        if wait or len(mapped) < entries * 8:
            mapped = self._mapping(entries, wait)
        slot = self._floor(offset - self.base_offset, entries, mapped, wait)
        return 0 if slot < 0 else _unpack_from(mapped, slot * 8)[1]

    def offset_behind(self, position: int, offset: int) -> int:
        """Return an offset above all batches that start before `position`, one of which holds `offset`.

        0 when no entry shows one, or when the index is not in memory.
        """
        low, high = 0, self.entries
        mapped = self._map
        if not high or len(mapped) < high * 8 or not is_resident(mapped, 0, high * 8):
            return 0
        entries = high
        while low < high:
            middle = (low + high) // 2
            if _unpack_from(mapped, middle * 8)[1] < position:
                low = middle + 1
            else:
                high = middle
        bound = self.base_offset + _unpack_from(mapped, low * 8)[0] if low < entries else 0
        # Anything else cannot be right.
        return bound if bound > offset else 0

    def last_entry(self) -> tuple[int, int]:
        """Blocking: return offset and position of the last entry, (base offset - 1, 0) without one."""
        if not self.entries:
            return self.base_offset - 1, 0
        relative, position = self.read_last()
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and later ones; the file is truncated when the segment closes."""
        if self.entries:
            last_kept = offset - 1 - self.base_offset
            self.entries = (
                self._floor(last_kept, self.entries, self._mapping(self.entries, wait=True), wait=True) + 1
            )
