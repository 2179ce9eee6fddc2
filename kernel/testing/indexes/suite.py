"""The suite itself: every method of an index against the model, reopened, truncated, full and renamed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tidelog.kernel.seams.indexes import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    IndexFormat,
    IndexPlace,
    IndexUnusable,
    SegmentIndex,
)
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.indexes.model import Entry, ModelIndex

BASE_OFFSET = 1_000_000
LOG_BYTES = 1 << 31
AMPLE_BYTES = 1 << 20
PAGES = 3000
"""So many entries reach over several pages of memory, and beyond what is searched first."""


class IndexFormatConformance:
    """Everything that a storage relies on; `plugin` is the module with the hook of the format to prove.

    `format_name` chooses one where the plugin offers several.
    """

    plugin: ClassVar[ModuleType]
    format_name: ClassVar[str | None] = None

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    @pytest.fixture
    def index_format(self) -> IndexFormat:
        """Return the index format under test."""
        offered: Sequence[IndexFormat] = list(self.plugin.tidelog_index_formats())
        (chosen,) = [each for each in offered if self.format_name in (None, each.name)]
        return chosen

    @pytest.fixture
    def place(self, tmp_path: Path) -> IndexPlace:
        """Where a segment is."""
        return IndexPlace(str(tmp_path), BASE_OFFSET)

    def test_suffixes_are_unique_to_the_format(self, index_format: IndexFormat) -> None:
        assert index_format.name
        others = {".log", ".txnindex", ".snapshot", ".deleted", ".cleaned", ".swap"}
        assert not others.intersection(index_format.suffixes)
        assert all(suffix.startswith(".") for suffix in index_format.suffixes)

    def test_floor_position_and_floor_offset_of_an_empty_index(
        self, index_format: IndexFormat, place: IndexPlace
    ) -> None:
        assert_alike(index_format.create(place, AMPLE_BYTES), ModelIndex(BASE_OFFSET))
        assert_alike(index_format.build(place, AMPLE_BYTES).finish(-1, -1), ModelIndex(BASE_OFFSET))

    @pytest.mark.parametrize("count", [1, 2, PAGES])
    def test_floor_position_and_floor_offset_return_what_was_added(
        self, index_format: IndexFormat, place: IndexPlace, count: int
    ) -> None:
        index, model = filled(index_format, place, count)
        assert index.entries == count
        assert_alike(index, model)

    @pytest.mark.parametrize("count", [1, PAGES])
    def test_close_keeps_the_last_timestamp(
        self, index_format: IndexFormat, place: IndexPlace, count: int
    ) -> None:
        index, model = filled(index_format, place, count)
        close(index, model, model.entries[-1].max_timestamp + 5)
        assert_alike(index, model)
        close(index, model, model.entries[-1].max_timestamp + 3)
        index.close(START_MS * 2, -1)
        assert_alike(index, model)

    def test_release_and_close_are_followed_by_entries(
        self, index_format: IndexFormat, place: IndexPlace
    ) -> None:
        index, model = filled(index_format, place, 10)
        for seed in range(3):
            index.close(-1, -1)
            index.release()
            fill(index, model, 400, seed)
            index.release()
            assert_alike(index, model)

    @pytest.mark.parametrize("count", [0, 1, PAGES])
    def test_open_and_build_return_the_same_index(
        self, index_format: IndexFormat, place: IndexPlace, count: int
    ) -> None:
        index, model = filled(index_format, place, count)
        close(index, model, START_MS + 10**9)
        index.release()
        again = reopened(index_format, place, model)
        assert_alike(again, model)
        fill(again, model, 50)
        assert_alike(again, model)

    def test_build_returns_what_appends_have_added(
        self, index_format: IndexFormat, place: IndexPlace
    ) -> None:
        index, model = filled(index_format, place, PAGES)
        close(index, model, START_MS + 10**9)
        contents = [Path(path).read_bytes() for path in index.files]
        index.release()
        built = build(index_format, place, model)
        assert [Path(path).read_bytes() for path in built.files] == contents
        assert_alike(built, model)

    @pytest.mark.parametrize("keep", [0, 1, 700, PAGES - 1, PAGES])
    def test_truncate_to_removes_the_entries_above(
        self, index_format: IndexFormat, place: IndexPlace, keep: int
    ) -> None:
        index, model = filled(index_format, place, PAGES)
        offset = model.entries[keep].last_offset if keep < PAGES else model.entries[-1].last_offset + 1
        index.truncate_to(offset)
        model.truncate_to(offset)
        assert_alike(index, model)
        fill(index, model, 30)
        close(index, model, START_MS + 10**9)
        assert_alike(reopened(index_format, place, model), model)

    @pytest.mark.parametrize("entries", [1, 2, 5])
    def test_make_room_and_is_full_until_the_last_entry(
        self, index_format: IndexFormat, place: IndexPlace, entries: int
    ) -> None:
        index = index_format.create(place, entries * OFFSET_ENTRY_BYTES)
        assert not index.is_full or entries * OFFSET_ENTRY_BYTES < 2 * TIME_ENTRY_BYTES
        for number in range(entries):
            index.make_room()
            # No timestamps, so that only the positions fill it.
            full = index.append_entry(BASE_OFFSET + number, number + 1, -1, BASE_OFFSET)
            assert full == index.is_full
        assert index.is_full
        index.resize(AMPLE_BYTES)
        assert not index.is_full

    def test_last_timestamp_has_a_reserved_entry(self, index_format: IndexFormat, place: IndexPlace) -> None:
        index, model = index_format.create(place, 4 * TIME_ENTRY_BYTES), ModelIndex(BASE_OFFSET)
        for number in range(3):
            assert not index.is_full
            add(
                index, model, Entry(BASE_OFFSET + number, number + 1, START_MS + number, BASE_OFFSET + number)
            )
        assert index.is_full
        close(index, model, START_MS + 100)
        assert_alike(index, model)

    def test_last_position_with_offsets_of_31_bits(
        self, index_format: IndexFormat, place: IndexPlace
    ) -> None:
        index, model = index_format.create(place, AMPLE_BYTES), ModelIndex(BASE_OFFSET)
        last = BASE_OFFSET + MAX_RELATIVE_OFFSET
        add(index, model, Entry(last, MAX_RELATIVE_OFFSET, 2**62, last))
        assert_alike(index, model)
        close(index, model, 2**62)
        assert_alike(reopened(index_format, place, model), model)
        # Beyond what any entry can hold, as a segment may be asked for what lies far behind it.
        assert index.floor_position(last + 2**40, wait=True) == MAX_RELATIVE_OFFSET

    def test_relocate_after_a_rename_of_the_segment(self, index_format: IndexFormat, tmp_path: Path) -> None:
        marked = IndexPlace(str(tmp_path), BASE_OFFSET, ".cleaned")
        model = ModelIndex(BASE_OFFSET)
        fill_model(model, 200)
        index = build(index_format, marked, model)
        plain = IndexPlace(str(tmp_path), BASE_OFFSET)
        for suffix in index_format.suffixes:
            Path(marked.path(suffix)).rename(plain.path(suffix))
        index.relocate(plain)
        assert_alike(index, model)
        assert all(Path(path).exists() for path in index.files)
        assert ".cleaned" not in str(index)

    def test_suffixes_name_all_files_of_an_index(self, index_format: IndexFormat, place: IndexPlace) -> None:
        index, model = filled(index_format, place, 100)
        close(index, model, START_MS + 10**9)
        expected = sorted(place.path(suffix) for suffix in index_format.suffixes)
        assert sorted(index.files) == expected
        assert sorted(str(path) for path in Path(place.directory).iterdir()) == expected
        assert str(place.base_offset) in str(index)

    def test_open_refuses_missing_and_truncated_files(
        self, index_format: IndexFormat, place: IndexPlace
    ) -> None:
        index, model = filled(index_format, place, 100)
        close(index, model, START_MS + 10**9)
        for path in map(Path, index.files):
            content = path.read_bytes()
            path.write_bytes(content[:-1])
            with pytest.raises(IndexUnusable):
                index_format.open(place, AMPLE_BYTES, LOG_BYTES)
            path.unlink()
            with pytest.raises(IndexUnusable):
                index_format.open(place, AMPLE_BYTES, LOG_BYTES)
            path.write_bytes(content)
        assert_alike(reopened(index_format, place, model), model)


def add(index: SegmentIndex, model: ModelIndex, entry: Entry) -> None:
    """Add an entry to both."""
    index.make_room()
    index.append_entry(entry.last_offset, entry.position, entry.max_timestamp, entry.max_timestamp_offset)
    model.entries.append(entry)


def fill_model(model: ModelIndex, count: int, seed: int = 0) -> list[Entry]:
    """Add entries as appending makes them: gaps, timestamps that go back and forth; what was added."""
    dice = random.Random(seed)
    offset, position = model.last_position()
    timestamp, timestamp_offset = model.last_timestamp()
    added: list[Entry] = []
    for _ in range(count):
        offset += dice.randint(1, 20)
        position += dice.randint(1, 5000)
        new = START_MS + position + dice.randint(-4000, 4000)
        if new > timestamp:
            timestamp, timestamp_offset = new, offset
        added.append(Entry(offset, position, timestamp, timestamp_offset))
    model.entries += added
    return added


def fill(index: SegmentIndex, model: ModelIndex, count: int, seed: int = 0) -> None:
    """Add the same entries to both."""
    for entry in fill_model(model, count, seed):
        index.make_room()
        index.append_entry(entry.last_offset, entry.position, entry.max_timestamp, entry.max_timestamp_offset)


def filled(index_format: IndexFormat, place: IndexPlace, count: int) -> tuple[SegmentIndex, ModelIndex]:
    """Return a new index with entries, and its model."""
    index, model = index_format.create(place, AMPLE_BYTES), ModelIndex(BASE_OFFSET)
    fill(index, model, count)
    return index, model


def close(index: SegmentIndex, model: ModelIndex, timestamp: int) -> None:
    """Close both, with a largest timestamp that belongs to an offset behind all entries."""
    offset = model.last_position()[0] + 1 if timestamp > model.last_timestamp()[0] else BASE_OFFSET
    model.closing = max(model.closing, (timestamp, offset))
    index.close(timestamp, offset)


def build(index_format: IndexFormat, place: IndexPlace, model: ModelIndex) -> SegmentIndex:
    """Rebuild an index from a model's entries."""
    builder = index_format.build(place, AMPLE_BYTES)
    for entry in model.entries:
        builder.add(entry.last_offset, entry.position, entry.max_timestamp, entry.max_timestamp_offset)
    return builder.finish(*model.closing)


def reopened(index_format: IndexFormat, place: IndexPlace, model: ModelIndex) -> SegmentIndex:
    """Return the closed index as the next start opens or rebuilds it."""
    if index_format.suffixes:
        return index_format.open(place, AMPLE_BYTES, LOG_BYTES)
    return build(index_format, place, model)


def assert_alike(index: SegmentIndex, model: ModelIndex) -> None:
    """Every lookup gives what the model gives."""
    assert index.last_position() == model.last_position()
    assert index.last_timestamp() == model.last_timestamp()
    assert index.entries == len(model.entries)
    dice = random.Random(len(model.entries))
    chosen = [dice.choice(model.entries) for _ in range(40)] if model.entries else []
    for entry in [*chosen, *model.entries[:2], *model.entries[-2:]]:
        for offset in (entry.last_offset - 1, entry.last_offset, entry.last_offset + 1):
            found = floor_position(index, offset)
            assert found == model.floor_position(offset), f"position of {offset}"
            for position in (entry.position, entry.position + 1):
                bound = index.offset_behind(position, offset)
                assert bound in (0, model.offset_behind(position, offset)), f"behind {position}"
        for timestamp in (entry.max_timestamp - 1, entry.max_timestamp, entry.max_timestamp + 1):
            assert index.floor_offset(timestamp) == model.floor_offset(timestamp), f"offset of {timestamp}"
    assert floor_position(index, BASE_OFFSET - 1) == 0
    assert index.floor_offset(0) == BASE_OFFSET


def floor_position(index: SegmentIndex, offset: int) -> int:
    """As storage asks: without waiting first, then, if need be, waiting."""
    try:
        return index.floor_position(offset, wait=False)
    except WouldBlock:
        return index.floor_position(offset, wait=True)
