"""The offset index, entry by entry."""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.storage_file.indexes.mapped_index import WARM_BYTES
from tidelog.plugins.storage_file.indexes.offset_index import OffsetIndex

BASE = 1000
KEY = OffsetIndex.KEY


def new_index(directory: Path, max_bytes: int = 10 * 1024 * 1024) -> OffsetIndex:
    index = OffsetIndex(IndexPlace(str(directory), BASE), 0, max_bytes)
    index.create()
    return index


def is_full(index: OffsetIndex) -> bool:
    return index.is_full


def fill(index: OffsetIndex, entries: list[tuple[int, int]]) -> None:
    for offset, position in entries:
        index.make_room()
        index.append_offset(offset, position)


def test_append_stores_eight_byte_entries_relative_to_the_base_offset(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    fill(index, [(1000, 0), (1009, 4200), (BASE + 2**31 - 1, 2**31 - 1)])
    index.trim()
    path = tmp_path / "00000000000000001000.index"
    assert path.read_bytes() == bytes.fromhex("000000000000000000000009000010687fffffff7fffffff")


def test_offset_index_file_has_its_full_size_until_trim(tmp_path: Path) -> None:
    index = new_index(tmp_path, max_bytes=10_485_760)
    fill(index, [(1001, 1)])
    path = Path(index.path)
    assert path.stat().st_size == 10_485_760
    assert path.stat().st_blocks * 512 < 100_000, "the file should be mostly a hole"
    index.trim()
    assert path.read_bytes() == struct.pack(">ii", 1, 1)


def test_offset_index_rounds_an_odd_maximum_size_down_to_whole_entries(tmp_path: Path) -> None:
    index = new_index(tmp_path, max_bytes=20)
    assert index.max_entries == 2
    fill(index, [(1001, 1)])
    assert not is_full(index)
    fill(index, [(1002, 2)])
    assert is_full(index)
    assert Path(index.path).stat().st_size == 16


def test_floor_position_of_an_empty_index_is_zero(tmp_path: Path) -> None:
    assert new_index(tmp_path).floor_position(5000, wait=False) == 0


@pytest.mark.parametrize("max_bytes", [4, 7])
def test_offset_index_is_full_without_room_for_an_entry(tmp_path: Path, max_bytes: int) -> None:
    assert new_index(tmp_path, max_bytes).is_full


@given(
    gaps=st.lists(st.integers(1, 50), min_size=1, max_size=3000),
    targets=st.lists(st.integers(-5, 100_000), min_size=1, max_size=20),
)
def test_a_lookup_finds_the_last_entry_at_or_before_the_offset(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], targets: list[int]
) -> None:
    index = new_index(tmp_path_factory.mktemp("index"))
    offsets = [BASE + sum(gaps[: count + 1]) for count in range(min(len(gaps), 50))]
    while len(offsets) < len(gaps):
        offsets.append(offsets[-1] + gaps[len(offsets)])
    fill(index, [(offset, slot + 1) for slot, offset in enumerate(offsets)])
    for target in (*(BASE + target for target in targets), offsets[0], offsets[-1], offsets[-1] + 1):
        assert index.floor_position(target, wait=False) == bisect_right(offsets, target)


@pytest.mark.parametrize("count", [1, 1024, 1025, 1026, 2048, 5000])
def test_floor_position_finds_entries_in_and_before_the_warm_section(tmp_path: Path, count: int) -> None:
    index = new_index(tmp_path)
    fill(index, [(BASE + slot * 10, slot + 1) for slot in range(count)])
    for slot in range(0, count, 7):
        assert index.floor_position(BASE + slot * 10, wait=False) == slot + 1
        assert index.floor_position(BASE + slot * 10 + 9, wait=False) == slot + 1
    assert index.floor_position(BASE - 1, wait=False) == 0


def test_floor_position_of_a_closed_index_would_block_at_the_first_lookup(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    fill(index, [(1010, 100), (1020, 200)])
    index.trim()
    with pytest.raises(WouldBlock):
        index.floor_position(1015, wait=False)
    assert index.floor_position(1015, wait=True) == 100
    assert index.floor_position(1025, wait=False) == 200
    assert index.last_entry() == (1020, 200)


def test_append_after_trim_keeps_the_earlier_entries(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    fill(index, [(1010, 100)])
    index.trim()
    assert index.floor_position(1015, wait=True) == 100
    fill(index, [(1020, 200)])
    assert index.floor_position(1020, wait=False) == 200
    index.trim()
    assert Path(index.path).read_bytes() == struct.pack(">iiii", 10, 100, 20, 200)


@pytest.mark.parametrize(
    ("offset", "kept"), [(1000, 0), (1010, 0), (1011, 1), (1020, 1), (1021, 2), (9999, 3)]
)
def test_truncate_to_drops_the_entries_from_the_offset_on(tmp_path: Path, offset: int, kept: int) -> None:
    index = new_index(tmp_path)
    fill(index, [(1010, 100), (1020, 200), (1030, 300)])
    index.truncate_to(offset)
    assert index.entries == kept
    fill(index, [(2000, 999)])
    index.trim()
    assert len(Path(index.path).read_bytes()) == (kept + 1) * 8


def test_append_of_more_entries_than_one_reserved_page(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    entries = [(BASE + slot, slot) for slot in range(10_000)]
    fill(index, entries)
    index.trim()
    content = Path(index.path).read_bytes()
    assert list(struct.iter_unpack(">ii", content)) == [(offset - BASE, slot) for offset, slot in entries]


class CountingKey:
    """A key's format that notes which bytes of an index are looked at."""

    def __init__(self) -> None:
        self.looked_at: list[int] = []

    def unpack_from(self, buffer: mmap.mmap, at: int) -> tuple[int]:
        """Note it, and unpack."""
        self.looked_at.append(at)
        return KEY.unpack_from(buffer, at)


@pytest.mark.parametrize("count", [1026, 2048, 5000, 100_000])
def test_floor_position_near_the_end_reads_the_warm_section_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    index = new_index(tmp_path)
    fill(index, [(BASE + slot * 10, slot + 1) for slot in range(count)])
    counting = CountingKey()
    monkeypatch.setattr(OffsetIndex, "KEY", counting)
    first_warm = (count - 1) * 8 - WARM_BYTES
    for slot in range(count - WARM_BYTES // 8, count, 50):
        assert index.floor_position(BASE + slot * 10, wait=False) == slot + 1
    assert min(counting.looked_at) >= first_warm
    counting.looked_at.clear()
    # What lies before it needs no look at it beyond its first entry.
    assert index.floor_position(BASE + 5, wait=False) == 1
    assert max(counting.looked_at) == first_warm
