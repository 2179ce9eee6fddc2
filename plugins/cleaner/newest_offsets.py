"""Which records compaction keeps: of each key the newest one, and tombstones for a while.

Only the process that compacts imports this, and the library for arrays with it.

Source: seed 001, "Pass 1, build the offset map" and "Tombstones and delete.retention.ms".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.plugins.cleaner.hashing import hash_keys
from tidelog.plugins.cleaner.offset_map import OffsetMap

MOST_BUFFER_BYTES = 2**31 - 1
"""More is not used for one log, as in Apache Kafka."""
MARKED_OFFSETS = 2**24
"""How many offsets, from the first surveyed one on, are remembered as the newest of their keys or not."""
_SURVEYED, _NEWEST = 1, 2


class NewestOffsets:
    """The newest offset of each key in the part of a log that is dirty; see `RecordFilter`."""

    def __init__(
        self, now_ms: int, buffer_bytes: int, load_factor: float, most_keys: int | None = None
    ) -> None:
        """See `KeepNewest`."""
        self._now_ms = now_ms
        self._map = OffsetMap(min(buffer_bytes, MOST_BUFFER_BYTES), load_factor, most_keys)
        self._marks = _Marks()
        self._keyless = 0

    def survey(self, block: RecordBlock) -> int | None:
        """Note the newest offset of each key; return the first offset for which there is no room."""
        keyed = block.key_size >= 0
        offsets = block.offset[keyed]
        taken = self._map.put(hash_keys(block, keyed), offsets)
        self._marks.survey(offsets[:taken])
        return None if taken == len(offsets) else int(offsets[taken])

    def keep(self, block: RecordBlock) -> Mask:
        """Return for each record whether it stays."""
        keyed = block.key_size >= 0
        self._keyless += len(block) - int(keyed.sum())
        self._marks.mark_newest(self._map)
        # Hashing takes most of the time, and what was surveyed was hashed before.
        stays, known = self._marks.look_up(block.offset)
        asked = keyed & ~known
        stays[asked] = block.offset[asked] >= self._map.get(hash_keys(block, asked))
        if block.is_tombstone.any():
            stays &= ~(block.is_tombstone & (block.delete_horizon <= self._now_ms))
        return stays

    def drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        """Return for each batch whether all of its records were surveyed, and each has a newer one."""
        self._marks.mark_newest(self._map)
        return self._marks.all_older(base_offsets, last_offsets)

    def counts(self) -> Mapping[str, float]:
        """Return what is worth a look: records that no log with compaction should have, and room."""
        return {"records without a key": self._keyless, "share of the buffer filled": self._map.filled}


class _Marks:
    """Which offsets were surveyed, and which of them are the newest of their keys: a byte for each offset."""

    def __init__(self) -> None:
        # One more than there are: an interval has to end before the end.
        self._marks = np.zeros(MARKED_OFFSETS + 1, np.uint8)
        self._first: int | None = None
        self._complete = False

    def survey(self, offsets: Column) -> None:
        """Note that these were surveyed; they grow from one call to the next."""
        if self._first is None and len(offsets):
            self._first = int(offsets[0])
        self._set(offsets, _SURVEYED)

    def mark_newest(self, newest: OffsetMap) -> None:
        """Note the newest offsets, once all of them are known."""
        if not self._complete:
            for offsets in newest.offsets():
                self._set(offsets, _NEWEST)
            self._complete = True

    def look_up(self, offsets: Column) -> tuple[Mask, Mask]:
        """Return which offsets are marked as the newest ones, and which were surveyed."""
        marks = np.zeros(len(offsets), np.uint8)
        places = self._places(offsets)
        inside = (places >= 0) & (places < MARKED_OFFSETS)
        marks[inside] = self._marks[places[inside]]
        return marks == _NEWEST, marks > 0

    def all_older(self, first: Column, last: Column) -> Mask:
        """Return whether all offsets from `first` to `last` were surveyed and none is marked as a newest one.

        The ranges lie one behind the other.
        """
        older = np.zeros(len(first), np.bool_)
        begins, ends = self._places(first), self._places(last) + 1
        inside = (begins >= 0) & (ends <= MARKED_OFFSETS)
        if not inside.any():
            return older
        # Every other interval is one between two ranges. No copy of the marks is made: they may be many.
        bounds = np.stack((begins[inside], ends[inside]), axis=1).ravel()
        marks = self._marks[: int(bounds[-1]) + 1]
        least, most = (each.reduceat(marks, bounds)[::2] for each in (np.minimum, np.maximum))
        older[inside] = (least == _SURVEYED) & (most == _SURVEYED)
        return older

    def _set(self, offsets: Column, mark: int) -> None:
        places = self._places(offsets)
        self._marks[places[places < MARKED_OFFSETS]] = mark

    def _places(self, offsets: Column) -> Column:
        return offsets - (self._first or 0)
