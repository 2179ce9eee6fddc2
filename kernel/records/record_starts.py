"""Where the records of batches begin: each says by its length where the next one does.

Source: Kafka documentation, "Record".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.columns import RECORD_SIZES, Column, Varints
from tidelog.kernel.records.record import MIN_RECORD_BYTES
from tidelog.kernel.records.varint import read_varint

_MANY_BATCHES: Final = 32
"""From so many on, one step in all of them at once takes less time than one step in each."""
_LONG_RUN: Final = 24
"""From so many records of one size on, finding them at once takes less time than one after the other."""
_LEAST_STEPS: Final = 128
_MOST_STEPS: Final = 1024
"""Records that are read one after the other before a run is searched for again."""
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
    for index in range(active):
        first, after_last = int(place[index]) + step, int(place[index]) - int(left[index])
        end = int(ends[order[index]])
        position[index] = _find_starts(data, int(position[index]), end, found[first:after_last])
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


def _find_starts(data: bytes, position: int, end: int, found: Column) -> int:
    """Find as many records as `found` has elements, from `position` on; return where the last one ends.

    `found` gets where each one begins. Records of one size are found at once, others one after the other.
    """
    count, done, steps = len(found), 0, _LEAST_STEPS
    while done < count:
        size, run = _run_of_equal_sizes(data, position, end, count - done)
        found[done : done + run] = np.arange(position, position + run * size, size)
        done, position = done + run, position + run * size
        if run >= _LONG_RUN:
            steps = _LEAST_STEPS
        else:
            after = min(done + steps, count)
            found[done:after], position = _walk(data, position, after - done)
            # Where sizes vary, a run is looked for ever more rarely.
            done, steps = after, min(2 * steps, _MOST_STEPS)
    return position


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


def _walk(data: bytes, position: int, count: int) -> tuple[list[int], int]:
    """Return where `count` records from `position` on begin, and where the last one ends."""
    starts: list[int] = []
    add, sizes = starts.append, _SIZES_BY_BYTE
    for _ in range(count):
        add(position)
        size = sizes[data[position]][data[position + 1]]
        position += size or _run_of_equal_sizes(data, position, position, 1)[0]
    return starts, position
