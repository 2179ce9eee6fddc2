"""The suite of index formats finds each wrong one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.kernel.seams.indexes import IndexFormat, IndexFormatBase, IndexPlace
from tidelog.kernel.testing.indexes import IndexFormatConformance as Suite
from tidelog.kernel.testing.indexes.suite import BASE_OFFSET
from tidelog.plugins.scaffold.skeletons.index import SkeletonIndex


class FindsTheEntryBehind(SkeletonIndex):
    """A position behind the batch that is looked for."""

    def floor_position(self, offset: int, wait: bool) -> int:
        return super().floor_position(offset + 5000, wait)


class LosesTheLastEntry(SkeletonIndex):
    def release(self) -> None:
        if self._offsets:
            del self._offsets[-1], self._positions[-1]


class FindsALaterTime(SkeletonIndex):
    """An offset below which there are larger timestamps."""

    def floor_offset(self, timestamp_ms: int) -> int:
        return super().floor_offset(timestamp_ms + 10_000)


class TruncatesTooLittle(SkeletonIndex):
    """Resurrects the entry of an offset that is gone."""

    def truncate_to(self, offset: int) -> None:
        super().truncate_to(offset + 1)


class TruncatesPositionsOnly(SkeletonIndex):
    def truncate_to(self, offset: int) -> None:
        times = self._timestamps[:], self._time_offsets[:]
        super().truncate_to(offset)
        self._timestamps, self._time_offsets = times


class IsNeverFull(SkeletonIndex):
    @property
    def is_full(self) -> bool:
        return False


class ForgetsTheLastTimestamp(SkeletonIndex):
    def close(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        pass


class KeepsItsOldPlace(SkeletonIndex):
    def relocate(self, place: IndexPlace) -> None:
        pass


class Reorders(SkeletonIndex):
    """Has the newest entry first."""

    def add_position(self, last_offset: int, position: int) -> None:
        self._positions.insert(0, position)
        self._offsets.insert(0, last_offset)


WRONG: dict[type[SkeletonIndex], Callable[[IndexFormat, IndexPlace], None]] = {
    FindsTheEntryBehind: lambda found, place: (
        Suite().test_floor_position_and_floor_offset_return_what_was_added(found, place, 2)
    ),
    LosesTheLastEntry: Suite().test_release_and_close_are_followed_by_entries,
    FindsALaterTime: lambda found, place: Suite().test_floor_position_and_floor_offset_return_what_was_added(
        found, place, 2
    ),
    TruncatesTooLittle: lambda found, place: Suite().test_truncate_to_removes_the_entries_above(
        found, place, 700
    ),
    TruncatesPositionsOnly: lambda found, place: Suite().test_truncate_to_removes_the_entries_above(
        found, place, 700
    ),
    IsNeverFull: lambda found, place: Suite().test_make_room_and_is_full_until_the_last_entry(
        found, place, 2
    ),
    ForgetsTheLastTimestamp: lambda found, place: Suite().test_close_keeps_the_last_timestamp(
        found, place, 1
    ),
    KeepsItsOldPlace: lambda found, place: Suite().test_relocate_after_a_rename_of_the_segment(
        found, Path(place.directory)
    ),
    Reorders: lambda found, place: Suite().test_floor_position_and_floor_offset_return_what_was_added(
        found, place, 2
    ),
}


def format_of(index: type[SkeletonIndex]) -> IndexFormat:
    class Format(IndexFormatBase):
        name = "wrong"

        def create(self, place: IndexPlace, max_bytes: int) -> SkeletonIndex:
            return index(place, max_bytes)

    return Format()


@pytest.mark.parametrize("wrong", WRONG)
def test_index_conformance_finds_a_wrong_index(wrong: type[SkeletonIndex], tmp_path: Path) -> None:
    place = IndexPlace(str(tmp_path), BASE_OFFSET)
    with pytest.raises(AssertionError):
        WRONG[wrong](format_of(wrong), place)
    WRONG[wrong](format_of(SkeletonIndex), place)
