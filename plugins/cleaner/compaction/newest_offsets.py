"""Which records compaction keeps: of each key the newest one, and tombstones for a while.

Only the process that compacts imports this, and the library for arrays with it.

Source: seed 001, "Pass 1, build the offset map" and "Tombstones and delete.retention.ms".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.plugins.cleaner.compaction.hashing import hash_keys
from tidelog.plugins.cleaner.compaction.offset_map import OffsetMap

MOST_BUFFER_BYTES = 2**31 - 1
"""More is not used for one log, as in Apache Kafka."""
MARKED_OFFSETS = 2**23
"""How many offsets, from the first surveyed one on, are remembered as the newest of their keys or not."""
_OFFSETS_AT_ONCE = 2**18
"""So many are looked at together at most, a byte for each: more than batches have."""


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
    """Which offsets were surveyed, and which of them are the newest of their keys: two bits for each."""

    def __init__(self) -> None:
        self._surveyed = _Bits(MARKED_OFFSETS)
        self._newest = _Bits(MARKED_OFFSETS)
        self._first: int | None = None
        self._complete = False

    def survey(self, offsets: Column) -> None:
        """Note that these were surveyed; they grow from one call to the next."""
        if self._first is None and len(offsets):
            self._first = int(offsets[0])
        self._surveyed.add(self._marked(offsets))

    def mark_newest(self, newest: OffsetMap) -> None:
        """Note the newest offsets, once all of them are known."""
        if not self._complete:
            for offsets in newest.offsets():
                self._newest.add(self._marked(offsets))
            self._complete = True

    def look_up(self, offsets: Column) -> tuple[Mask, Mask]:
        """Return which offsets are marked as the newest ones, and which were surveyed."""
        newest, surveyed = np.zeros(len(offsets), np.bool_), np.zeros(len(offsets), np.bool_)
        places = self._places(offsets)
        inside = (places >= 0) & (places < MARKED_OFFSETS)
        newest[inside] = self._newest.has(places[inside])
        surveyed[inside] = self._surveyed.has(places[inside])
        return newest, surveyed

    def all_older(self, first: Column, last: Column) -> Mask:
        """Return whether all offsets from `first` to `last` were surveyed and none is marked as a newest one.

        The ranges lie one behind the other. Of one with more than `_OFFSETS_AT_ONCE` it is not known.
        """
        older = np.zeros(len(first), np.bool_)
        begins, ends = self._places(first), self._places(last) + 1
        inside = np.flatnonzero(
            (begins >= 0) & (ends <= MARKED_OFFSETS) & (ends - begins <= _OFFSETS_AT_ONCE)
        )
        begins, ends = begins[inside], ends[inside]
        done = 0
        while done < len(inside):
            most = int(begins[done]) + _OFFSETS_AT_ONCE
            after = int(np.searchsorted(ends, most, "right"))
            older[inside[done:after]] = self._are_older(begins[done:after], ends[done:after])
            done = after
        return older

    def _are_older(self, begins: Column, ends: Column) -> Mask:
        some = slice(int(begins[0]) // 8, int(ends[-1]) // 8 + 1)
        is_older = np.unpackbits(self._surveyed.bits[some] & ~self._newest.bits[some], bitorder="little")
        # Every other interval is one between two ranges.
        bounds = np.stack((begins, ends), axis=1).ravel() - 8 * some.start
        older: Mask = np.minimum.reduceat(is_older, bounds)[::2] == 1
        return older

    def _marked(self, offsets: Column) -> Column:
        places = self._places(offsets)
        return places[places < MARKED_OFFSETS]

    def _places(self, offsets: Column) -> Column:
        return offsets - (self._first or 0)


class _Bits:
    """A set of numbers, a bit for each; that of the number n is the bit n % 8 of byte n // 8."""

    def __init__(self, count: int) -> None:
        # One number more than there are: an interval has to end before the end.
        self.bits = np.zeros(count // 8 + 1, np.uint8)

    def add(self, numbers: Column) -> None:
        """Add numbers, in any order."""
        if not len(numbers):
            return
        some = slice(int(numbers.min()) // 8, int(numbers.max()) // 8 + 1)
        size = 8 * (some.stop - some.start)
        if size <= _OFFSETS_AT_ONCE:
            added = np.zeros(size, np.uint8)
            added[numbers - 8 * some.start] = 1
            self.bits[some] |= np.packbits(added, bitorder="little")
            return
        for bit in range(8):
            self.bits[numbers[numbers & 7 == bit] >> 3] |= np.uint8(1 << bit)

    def has(self, numbers: Column) -> Mask:
        """Return which of the numbers are in the set."""
        found: Mask = (self.bits[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 == 1
        return found
