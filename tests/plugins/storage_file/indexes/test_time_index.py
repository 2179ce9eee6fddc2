"""The time index, entry by entry."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.plugins.storage_file.indexes.time_index import TimeIndex

BASE = 1000


def new_index(directory: Path, max_bytes: int = 10 * 1024 * 1024) -> TimeIndex:
    index = TimeIndex(IndexPlace(str(directory), BASE), 0, max_bytes, -1)
    index.create()
    return index


def is_full(index: TimeIndex) -> bool:
    return index.is_full


def fill(index: TimeIndex, entries: list[tuple[int, int]]) -> None:
    for timestamp, offset in entries:
        index.make_room()
        index.append_timestamp(timestamp, offset)


def test_append_stores_twelve_byte_entries_relative_to_the_base_offset(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    fill(index, [(0, 1000), (1_700_000_000_000, 1010)])
    index.trim()
    path = tmp_path / "00000000000000001000.timeindex"
    assert path.read_bytes() == bytes.fromhex("0000000000000000000000000000018bcfe568000000000a")


def test_time_index_file_has_the_full_size_of_whole_entries(tmp_path: Path) -> None:
    index = new_index(tmp_path, max_bytes=10_485_760)
    fill(index, [(5, 1001)])
    # As Apache Kafka preallocates it: ten megabytes rounded down to whole entries.
    assert Path(index.path).stat().st_size == 10_485_756


def test_append_ignores_a_timestamp_that_is_not_larger(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    fill(index, [(-1, 1000), (5, 1001), (5, 1002), (3, 1003), (6, 1004)])
    index.trim()
    assert list(struct.iter_unpack(">qi", Path(index.path).read_bytes())) == [(5, 1), (6, 4)]


def test_append_last_uses_the_slot_reserved_for_the_largest_timestamp(tmp_path: Path) -> None:
    index = new_index(tmp_path, max_bytes=36)
    fill(index, [(1, 1001)])
    assert not is_full(index)
    fill(index, [(2, 1002)])
    assert is_full(index)
    index.append_last(3, 1003)
    index.append_last(3, 1003)
    index.trim()
    assert list(struct.iter_unpack(">qi", Path(index.path).read_bytes())) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(9, BASE), (10, 1005), (19, 1005), (20, 1007), (30, 1020), (10**12, 1020)]
)
def test_a_lookup_finds_the_last_entry_at_or_before_the_timestamp(
    tmp_path: Path, timestamp: int, offset: int
) -> None:
    index = new_index(tmp_path)
    fill(index, [(10, 1005), (20, 1007), (30, 1020)])
    assert index.floor_offset(timestamp) == offset


@pytest.mark.parametrize(("offset", "last"), [(1005, -1), (1006, 10), (1020, 20), (1021, 30)])
def test_truncate_to_drops_entries_and_lowers_the_last_timestamp(
    tmp_path: Path, offset: int, last: int
) -> None:
    index = new_index(tmp_path)
    fill(index, [(10, 1005), (20, 1007), (30, 1020)])
    index.truncate_to(offset)
    assert index.last_timestamp == last
    fill(index, [(last + 1, 1500)])
    assert index.last_entry() == (last + 1, 1500)
