"""The newest offset of each key, in memory of a fixed size: hashes of 16 bytes and offsets of 8.

Open addressing. A hash is looked for where its bytes 0 to 3 say, then bytes 1 to 4 and so on, and in the
following slots when these are used up. Many hashes are put and looked up at once: each round does one step
for all of those that have not come to their end. Nothing can be removed.
Source: seed 001, "The dedupe hash table, SkimpyOffsetMap".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tidelog.kernel.records.columns import Column, Mask

SLOT_BYTES = 24
NOT_FOUND = -1
_SLOTS_PER_KEY = 2
_SLOTS_AT_ONCE = 2**16
"""What all slots have is worked out for so many at once: for all it would take as much memory as they do."""
_PROBES = 13
"""Numbers of four bytes in a hash."""


class OffsetMap:
    """Hash → offset. An empty slot has a hash of zeros, which no key has."""

    def __init__(self, memory_bytes: int, load_factor: float, most_keys: int | None = None) -> None:
        """For as many entries as fit that memory, filled up to `load_factor`, and at least one.

        It takes less memory, and less time, when there are no more than `most_keys`.
        """
        self._of_all = slots = max(memory_bytes // SLOT_BYTES, 1)
        self.slots = slots if most_keys is None else max(min(slots, _SLOTS_PER_KEY * most_keys), 1)
        self._most = min(max(int(slots * load_factor), 1), self.slots)
        self._front = np.zeros(self.slots, np.uint64)
        self._back = np.zeros(self.slots, np.uint64)
        self._offsets = np.zeros(self.slots, np.int64)
        self.size = 0

    @property
    def filled(self) -> float:
        """The share that is used of the slots that fit the memory."""
        return self.size / self._of_all

    def offsets(self) -> Iterator[Column]:
        """Iterate over the newest offsets of all keys, some at a time, in no order."""
        for first in range(0, self.slots, _SLOTS_AT_ONCE):
            some = slice(first, first + _SLOTS_AT_ONCE)
            used: Mask = (self._front[some] | self._back[some]) != 0
            yield self._offsets[some][used]

    def put(self, hashes: npt.NDArray[np.uint8], offsets: Column) -> int:
        """Note offsets, which grow, as the newest of their keys; return how many of the first ones fitted."""
        count = len(offsets)
        if self.size + count > self._most:
            # Only where not all of them may fit, as this looks up every key once more.
            count = self._fitting(hashes)
            hashes, offsets = hashes[:count], offsets[:count]
        search = _Search(hashes, self.slots)
        while len(search):
            slots = search.slots()
            front, back = self._front[slots], self._back[slots]
            empty = (front | back) == 0
            # Where several hashes meet in an empty slot the last one gets it.
            taken = slots[empty]
            self._front[taken], self._back[taken] = search.front[empty], search.back[empty]
            self.size += self._different(taken)
            front, back = self._front[slots], self._back[slots]
            placed = (front == search.front) & (back == search.back)
            # Of equal ones the last one stays, which has the largest offset.
            self._offsets[slots[placed]] = offsets[search.index[placed]]
            search.keep(~placed)
        return count

    def get(self, hashes: npt.NDArray[np.uint8]) -> Column:
        """Return the newest offset of each key, `NOT_FOUND` for those that were not put."""
        found = np.full(len(hashes), NOT_FOUND, np.int64)
        search = _Search(hashes, self.slots)
        # Numbers below 0 come back to slots where they have been; after twice as many steps all were seen.
        while len(search) and search.attempt < 2 * self.slots + _PROBES:
            slots = search.slots()
            front, back = self._front[slots], self._back[slots]
            same = (front == search.front) & (back == search.back)
            found[search.index[same]] = self._offsets[slots[same]]
            search.keep(~same & ((front | back) != 0))
        return found

    def _different(self, taken: Column) -> int:
        """Return how many slots these are; none has an offset yet, so an index is written there for now."""
        indexes = np.arange(len(taken))
        self._offsets[taken] = indexes
        return int(np.count_nonzero(self._offsets[taken] == indexes))

    def _fitting(self, hashes: npt.NDArray[np.uint8]) -> int:
        """Return how many of the first hashes fit, of which those that are there need no room."""
        new = np.flatnonzero(self.get(hashes) == NOT_FOUND)
        _, first = np.unique(hashes[new], axis=0, return_index=True)
        needing = np.sort(new[first])
        room = self._most - self.size
        return len(hashes) if len(needing) <= room else int(needing[room])


class _Search:
    """Hashes that are looked for, and how far; `index` is the place of each one among all."""

    def __init__(self, hashes: npt.NDArray[np.uint8], slots: int) -> None:
        hashes = np.ascontiguousarray(hashes)
        words = hashes.view(np.uint64)
        self.front, self.back = words[:, 0], words[:, 1]
        self.index = np.arange(len(hashes))
        self.attempt = 0
        self._hashes = hashes
        self._slots = slots

    def __len__(self) -> int:
        return len(self.index)

    def slots(self) -> Column:
        """Return where each hash is looked for next."""
        at = min(self.attempt, _PROBES - 1)
        number: npt.NDArray[np.int32] = (
            np.ascontiguousarray(self._hashes[:, at : at + 4]).view(">i4")[:, 0].astype(np.int32)
        )
        # As in Java: numbers have 32 bits, and the absolute value of the smallest one is 0.
        number += np.int32(max(0, self.attempt - (_PROBES - 1)))
        self.attempt += 1
        np.abs(number, out=number)
        return (np.maximum(number, 0) % np.int32(self._slots)).astype(np.int64)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only these hashes."""
        self.index = self.index[mask]
        self.front, self.back = self.front[mask], self.back[mask]
        self._hashes = self._hashes[mask]
