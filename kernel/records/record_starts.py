"""Where the records of batches begin: each says by its length where the next one does.

To follow one length after the other costs the most of all that decoding records does, so three ways of doing
many at once go first, the fastest that the records allow:

- records of one size: where each one begins is arithmetic, and only the bytes of lengths are compared;
- many batches: one step in all of them at once;
- few batches of many records: each is split into sections at guessed places where a record begins, and one
  step is made in all sections at once. A guess was right if the section before ends there, and nothing that
  comes from a wrong one is used.

Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.columns import RECORD_SIZES, Column, Varints
from tidelog.kernel.records.record import MIN_RECORD_BYTES
from tidelog.kernel.records.sections import Piece, Stretch, pieces_of
from tidelog.kernel.records.varint import read_varint

_MANY_BATCHES: Final = 32
"""From so many on, one step in all of them at once takes less time than one step in each."""
_LONG_RUN: Final = 24
"""From so many records of one size on, finding them at once takes less time than one after the other."""
_LEAST_STEPS: Final = 128
_MOST_STEPS: Final = 1024
"""Records that are read one after the other before a run is searched for again."""
_LEAST_IN_SECTIONS: Final = 64
"""Records that are left of a batch for which sections are tried."""
_BETWEEN_PIECES: Final = 32
"""Records that are read one after the other before it is looked whether they have reached the next piece."""
_SHARED: Final = list(range(int(RECORD_SIZES.max()) + 1))
"""An object for each size: one for each place of the table would take two megabytes."""
_SIZES_BY_BYTE: Final[list[list[int]]] = [
    [_SHARED[size] for size in sizes] for sizes in RECORD_SIZES.reshape(256, 256).T.tolist()
]
"""The same by the first byte and the second one: two lookups in lists take less time than arithmetic."""


def record_starts(data: bytes, varints: Varints, starts: Column, ends: Column, counts: Column) -> Column:
    """Return where the records begin of batches that have `counts` records in `data[starts:ends]` each.

    Raises:
        CorruptBatch: the records of a batch do not end where it does.
        IndexError: a record is beyond the data.
    """
    _check_counts(ends - starts, counts)
    found = np.empty(int(counts.sum()), np.int64)
    # Those with the most records first: the ones that have another record are always the first ones.
    order = np.argsort(-counts, kind="stable")
    position, left = starts[order], -counts[order]
    place = (np.cumsum(counts) - counts)[order]
    active, step = int(np.searchsorted(left, 0)), 0
    while active >= _MANY_BATCHES:
        here = position[:active]
        found[place[:active] + step] = here
        position[:active] = varints.after_records(here)
        step += 1
        active = int(np.searchsorted(left, -step))
    first, after = (place + step).tolist(), (place - left).tolist()
    rests = [
        _Rest(data, int(position[index]), int(ends[order[index]]), found[first[index] : after[index]])
        for index in range(active)
    ]
    _find_rests(data, varints, rests)
    position[:active] = [rest.position for rest in rests]
    wrong = np.flatnonzero(position != ends[order])
    if wrong.size:
        raise _wrong_count(ends - starts, counts, int(order[wrong[0]]))
    return found


def _check_counts(sizes: Column, counts: Column) -> None:
    """Refuse counts that cannot be: they would demand any amount of memory."""
    if (counts < 0).any():
        raise CorruptBatch(f"a batch cannot have {counts.min()} records")
    wrong = np.flatnonzero(counts * MIN_RECORD_BYTES > sizes)
    if wrong.size:
        raise _wrong_count(sizes, counts, int(wrong[0]))


def _wrong_count(sizes: Column, counts: Column, index: int) -> CorruptBatch:
    return CorruptBatch(f"{counts[index]} records do not have the {sizes[index]} bytes of their batch")


def _find_rests(data: bytes, varints: Varints, rests: Sequence[_Rest]) -> None:
    """Find where all records begin that are left.

    Raises:
        CorruptBatch: a length is too long or negative.
        IndexError: a length is beyond the data.
    """
    for rest in rests:
        rest.take_runs()
    long = [rest for rest in rests if len(rest.left) >= _LEAST_IN_SECTIONS and rest.position < rest.end]
    stretches = [Stretch(rest.position, rest.end, len(rest.left)) for rest in long]
    for rest, pieces in zip(long, pieces_of(data, varints, stretches), strict=True):
        rest.take_pieces(pieces)
    for rest in rests:
        rest.walk()


class _Rest:
    """The records of a batch that are not found yet: `left` gets where each of them begins.

    The first one begins at `position`, the last one is to end at `end`.
    """

    def __init__(self, data: bytes, position: int, end: int, left: Column) -> None:
        self._data = data
        self.position = position
        self.end = end
        self.left = left

    def take_runs(self) -> None:
        """Find the next records as long as many of one size follow each other."""
        while len(self.left) and self._take_run() >= _LONG_RUN:
            pass

    def take_pieces(self, pieces: Iterable[Piece]) -> None:
        """Take the pieces that are right, and find the records between them."""
        for piece in pieces:
            begin = int(piece.starts[0])
            while self.position < begin and len(self.left):
                self._walk_to(begin)
            if self.position == begin and len(piece.starts) <= len(self.left):
                self._take(*piece)

    def _walk_to(self, begin: int) -> None:
        """Find some records one after the other, none of those from `begin` on if one begins there."""
        starts, after = walk(self._data, self.position, min(len(self.left), _BETWEEN_PIECES))
        if begin in starts:
            starts, after = starts[: starts.index(begin)], begin
        self._take(starts, after)

    def walk(self) -> None:
        """Find all records that are left, one after the other where their sizes vary."""
        steps = _LEAST_STEPS
        while len(self.left):
            if self._take_run() >= _LONG_RUN:
                steps = _LEAST_STEPS
                continue
            self._take(*walk(self._data, self.position, min(len(self.left), steps)))
            # Where sizes vary, a run is looked for ever more rarely.
            steps = min(2 * steps, _MOST_STEPS)

    def _take(self, starts: Sequence[int] | Column, after: int) -> None:
        """Note where the next records begin, and where the last of them ends."""
        count = len(starts)
        self.left[:count] = starts
        self.left, self.position = self.left[count:], after

    def _take_run(self) -> int:
        size, run = _run_of_equal_sizes(self._data, self.position, self.end, len(self.left))
        after = self.position + run * size
        self._take(np.arange(self.position, after, size), after)
        return run


def _run_of_equal_sizes(data: bytes, start: int, end: int, most: int) -> tuple[int, int]:
    """Return the size of the record at `start`, and how many records from there on have it: at least 1.

    Where a record of that size ends, the next one begins, so it is enough to compare the bytes of lengths.
    """
    length, position = read_varint(data, start)
    if length < 0:
        raise CorruptBatch(f"a record cannot have {length} bytes")
    size, run, step = position - start + length, 0, min(most, _LONG_RUN)
    while step:
        # Few at first, then ever more: a comparison without a match costs as much as one with.
        same = _equal_records(data[start:position], data, start + run * size, end, size, step)
        run += same
        step = min(most - run, 8 * step) if same == step else 0
    return size, max(run, 1)


def _equal_records(length: bytes, data: bytes, start: int, end: int, size: int, most: int) -> int:
    """Return how many of the next `most` records of this size have this length, one after the other."""
    same = most
    end = min(end, start + most * size)
    for index in range(len(length)):
        found = data[start + index : end : size]
        same = min(same, len(found) - len(found.lstrip(length[index : index + 1])))
    return same


def walk(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Return where `count` records from `position` on begin, and where the last one ends."""
    starts: list[int] = []
    add, sizes = starts.append, _SIZES_BY_BYTE
    for _ in range(count):
        add(position)
        size = sizes[data[position]][data[position + 1]]
        position += size or _run_of_equal_sizes(data, position, position, 1)[0]
    return starts, position
