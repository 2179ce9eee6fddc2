"""Where records begin, found section by section: one step in all sections of some batches at once.

Only of the first record of a batch it is known where it begins, the others lie one behind the other. So the
places where sections begin are guessed, by what records have in common. Whether a guess was right shows
itself: the record before it ends there, or none does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tidelog.kernel.records.columns import Column, Mask, Varints
from tidelog.kernel.records.record import MIN_RECORD_BYTES

_SECTION_RECORDS: Final = 48
"""How many records a section is to have: with more there are more steps, with fewer more guesses."""
_LEAST_SECTIONS: Final = 64
"""With fewer, it takes no less time than one record after the other."""
_STEPS_AT_ONCE: Final = 8
"""Before it is looked whether all sections are at their end."""
_MOST_STEPS: Final = 4 * _SECTION_RECORDS
"""A section with more records is given up: all others would have to wait for it."""
_TRIES: Final = 6
"""How many zero bytes are tried for one guess."""
_RECORDS_IN_A_ROW: Final = 3
"""So many behind each other are hardly there by chance."""
_FROM_ZERO_TO_RECORD: Final = (1, -2, -1)
_OTHER_AND_ZERO: Final = re.compile(rb"[^\0]\0")


class Stretch(NamedTuple):
    """`records` records in `data[begin:end]`, the first of which begins there."""

    begin: int
    end: int
    records: int


class Piece(NamedTuple):
    """Where records begin that lie behind each other, and where the last one ends.

    That is so if one begins at `starts[0]`, which is a guess.
    """

    starts: Column
    after: int


class _Sections(NamedTuple):
    """The index of the stretch that each section is of, where it begins, and where the next one does.

    The last one of a stretch has the end of that.
    """

    owner: Column
    begin: Column
    stop: Column


class _Steps(NamedTuple):
    """All `starts`, of which each section has `counts`, and where the last record of each one ends.

    Sections that are not `whole` were given up.
    """

    starts: Column
    counts: Column
    after: Column
    whole: Mask


def pieces_of(data: bytes, varints: Varints, stretches: Sequence[Stretch]) -> list[list[Piece]]:
    """Return for each stretch the pieces that were found of it, in the order of their positions.

    Other records may lie between them, and none of them may be right.
    """
    pieces: list[list[Piece]] = [[] for _ in stretches]
    counts = [max(1, each.records // _SECTION_RECORDS) for each in stretches]
    if sum(counts) < _LEAST_SECTIONS:
        return pieces
    sections = _guess_sections(data, varints, stretches, np.array(counts, np.int64))
    steps = _follow(varints, sections, len(data))
    # Sections of which each one ends where the next one begins are one piece.
    meets_next = steps.whole[:-1] & steps.whole[1:] & (steps.after[:-1] == sections.begin[1:])
    firsts = np.append(0, np.flatnonzero(~meets_next) + 1)
    lasts = np.append(firsts[1:], len(meets_next) + 1) - 1
    bounds = np.append(0, np.cumsum(steps.counts))
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        starts = steps.starts[bounds[first] : bounds[last + 1]]
        if len(starts) and steps.whole[first]:
            pieces[sections.owner[first]].append(Piece(starts, int(steps.after[last])))
    return pieces


def _guess_sections(data: bytes, varints: Varints, stretches: Sequence[Stretch], counts: Column) -> _Sections:
    """Return sections at about equal distances, up to `counts` of them in each stretch."""
    begin, end, _ = np.array(stretches, np.int64).T
    owner = np.repeat(np.arange(len(counts)), counts)
    index = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins: Column = begin[owner] + (end - begin)[owner] * index // counts[owner]
    guessed = np.flatnonzero(index)
    begins[guessed] = _guess_records(data, varints, begins[guessed])
    inside = (begins >= 0) & (begins < end[owner])
    owner, begins = owner[inside], begins[inside]
    stops = np.append(begins[1:], end[-1])
    is_last = np.append(owner[1:] != owner[:-1], True)
    return _Sections(owner, begins, np.where(is_last, end[owner], stops))


def _guess_records(data: bytes, varints: Varints, near: Column) -> Column:
    """Return where records may begin, not far behind each of these positions, or -1.

    Each record has a zero byte for its attributes, behind the one or two bytes of its length, and where it
    has no headers one at its end.
    """
    found = np.full(len(near), -1)
    pending, zeros, find = np.arange(len(near)), near, _find_zero
    for _ in range(_TRIES):
        zeros = np.array([find(data, each) for each in zeros.tolist()], np.int64)
        for distance in _FROM_ZERO_TO_RECORD:
            alike = _look_like_records(data, varints, zeros + distance)
            found[pending[alike]] = zeros[alike] + distance
            pending, zeros = pending[~alike], zeros[~alike]
            if not len(pending):
                return found
        find = _find_zero_after_other
    return found


def _find_zero(data: bytes, position: int) -> int:
    zero = data.find(b"\0", position)
    return len(data) if zero < 0 else zero


def _find_zero_after_other(data: bytes, position: int) -> int:
    """Return where the next zero byte is behind another byte, past the zeros at `position`."""
    match = _OTHER_AND_ZERO.search(data, position)
    return len(data) if match is None else match.end() - 1


def _look_like_records(data: bytes, varints: Varints, positions: Column) -> Mask:
    """Return whether the bytes at each position could be a record, with others behind it.

    Near the end of the data nothing looks like that.
    """
    content = np.frombuffer(data, np.uint8)
    last = len(data) - MIN_RECORD_BYTES
    here = np.clip(positions, 0, last)
    alike: Mask = here == positions
    for _ in range(_RECORDS_IN_A_ROW):
        attributes = content.take(here + 1 + (content.take(here) >> 7))
        sizes = varints.record_sizes(here)
        alike &= (sizes >= MIN_RECORD_BYTES) & (attributes == 0)
        here = np.minimum(here + sizes, last)
    return alike


def _follow(varints: Varints, sections: _Sections, size: int) -> _Steps:
    """Make steps in all sections until each is at its stop or behind it."""
    walked = np.empty((_MOST_STEPS, len(sections.begin)), np.int64)
    walked[0] = position = sections.begin
    steps = 1
    while steps < _MOST_STEPS and (steps % _STEPS_AT_ONCE or (position < sections.stop).any()):
        # A section at its stop is followed too, up to the end of the data.
        position = position + varints.record_sizes(np.minimum(position, size - 2))
        walked[steps] = position
        steps += 1
    by_section = walked[:steps].T
    inside = by_section < sections.stop[:, np.newaxis]
    counts = inside.sum(axis=1)
    after = by_section[np.arange(len(counts)), np.minimum(counts, steps - 1)]
    return _Steps(by_section[inside], counts, after, counts < steps)
