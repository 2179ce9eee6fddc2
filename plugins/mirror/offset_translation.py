"""Which offset at the target a record of the source has: runs of records that were copied together.

A run is a number of records with consecutive offsets, at the source and at the target. One run of each
transaction is kept as it is while it is new; of older ones fewer and fewer, as groups are near the end of a
partition, or far from it. So a partition has about a hundred runs, however long it is copied.

An offset within a run is translated exactly. One between two runs becomes the end of the run before: the
records from there to the true offset may be read again, and none is skipped. That needs no record of the
source, so retention and compaction there change nothing.

Source: KIP-382, KIP-545; offset syncs of MirrorMaker 2 are pairs of single offsets, thinned out likewise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

NEW_RUNS: Final = 32
"""So many of the newest runs are all kept."""


class CopiedRun(NamedTuple):
    """`length` records from the offset `source` on, which are from `target` on at the target."""

    source: int
    length: int
    target: int


class OffsetTranslation:
    """Runs of one partition in order, each with its number among all that there ever were."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._runs: list[CopiedRun] = []

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def next_number(self) -> int:
        """The number of the next run."""
        return self._numbers[-1] + 1 if self._numbers else 0

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the runs that are kept."""
        return tuple(self._numbers)

    def add(self, number: int, run: CopiedRun) -> None:
        """Add a run, or replace that of the same number.

        The order of numbers is that of offsets, once all records of a ledger are applied. Some of them may be
        applied again after that, so that their runs are in the middle for a while.
        """
        index = bisect_left(self._numbers, number)
        if index < len(self._numbers) and self._numbers[index] == number:
            self._runs[index] = run
        else:
            self._numbers.insert(index, number)
            self._runs.insert(index, run)

    def remove(self, number: int) -> None:
        """Remove the run of that number, if there is one."""
        if number in self._numbers:
            index = self._numbers.index(number)
            del self._numbers[index], self._runs[index]

    def behind(self, offset: int) -> list[tuple[int, CopiedRun]]:
        """Return the runs with records from an offset of the source on, with their numbers."""
        return [
            (number, run)
            for number, run in zip(self._numbers, self._runs, strict=True)
            if run.source + run.length > offset
        ]

    def superfluous(self, newest: int) -> list[int]:
        """Return the numbers of runs that need not be kept once there is a run `newest`.

        The first one stays: an offset before all runs becomes its beginning.
        """
        first = self._numbers[:1]
        return [each for each in self._numbers if each not in first and not _is_kept(each, newest)]

    def translate(self, offset: int) -> int | None:
        """Return an offset at the target from which on all records are that follow `offset` at the source.

        None if no run is known.
        """
        if not self._runs:
            return None
        index = bisect_right(self._runs, offset, key=lambda run: run.source) - 1
        if index < 0:
            return self._runs[0].target
        run = self._runs[index]
        return run.target + min(offset - run.source, run.length)


def _is_kept(number: int, newest: int) -> bool:
    """Return whether a run is kept: of those that are 2ⁿ times as old, each 2ⁿth one."""
    doublings = ((newest - number) // NEW_RUNS).bit_length()
    return number % (1 << doublings) == 0
