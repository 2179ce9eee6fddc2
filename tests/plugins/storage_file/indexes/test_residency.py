"""A mapped index whose pages were evicted is read in a thread, never by a page fault of the event loop."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import WouldBlock
from tidelog.plugins.storage_file.indexes import mapped_index, offset_index
from tidelog.plugins.storage_file.indexes.mapped_index import WARM_BYTES
from tidelog.plugins.storage_file.indexes.offset_index import OffsetIndex
from tidelog.plugins.storage_file.indexes.residency import is_resident

COUNT = 20_000


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    """An index that is mapped, with entry n for offset 10n at position n + 1."""
    index = OffsetIndex(IndexPlace(str(tmp_path), 0), 0, 1 << 20)
    index.create()
    for slot in range(COUNT):
        index.make_room()
        index.append_offset(slot * 10, slot + 1)
    index.trim()
    index.load()
    return index


def evict(index: OffsetIndex) -> None:
    """Have the system forget the whole file, mapped as it is."""
    index.load().madvise(mmap.MADV_DONTNEED)
    fd = os.open(index.path, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def was_evicted(index: OffsetIndex) -> bool:
    """Whether the beginning of the file has to be read from the device, as the system says."""
    fd = os.open(index.path, os.O_RDONLY)
    try:
        os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(fd)
    return False


def test_is_resident_is_false_for_evicted_pages_so_that_floor_position_would_block(
    index: OffsetIndex,
) -> None:
    assert index.floor_position(500, wait=False) == 51
    mapped = index.load()
    evict(index)
    if not was_evicted(index):
        pytest.skip("this file system keeps its pages in memory, or cannot tell")
    assert not is_resident(mapped, 0, COUNT * 8)
    with pytest.raises(WouldBlock):
        index.floor_position(500, wait=False)
    assert index.floor_position(500, wait=True) == 51
    assert index.floor_position(500, wait=False) == 51


class Memory:
    """Says which bytes of an index are in memory."""

    def __init__(self, resident: range) -> None:
        self.resident = resident

    def __call__(self, mapped: mmap.mmap, start: int, end: int) -> bool:
        """Whether all of these are."""
        assert len(mapped) >= end
        return self.resident.start <= start and end <= self.resident.stop


@pytest.mark.parametrize(
    ("resident", "near_the_end", "before"),
    [
        (range(COUNT * 8), True, True),
        (range(COUNT * 8 - WARM_BYTES - 8, COUNT * 8), True, False),
        (range(COUNT * 8 - WARM_BYTES), False, False),
        (range(0), False, False),
    ],
)
def test_is_resident_is_checked_only_for_the_pages_that_floor_position_reads(
    index: OffsetIndex,
    monkeypatch: pytest.MonkeyPatch,
    resident: range,
    near_the_end: bool,
    before: bool,
) -> None:
    for module in (mapped_index, offset_index):
        monkeypatch.setattr(module, "is_resident", Memory(resident))
    for slot, found in ((COUNT - 5, near_the_end), (5, before)):
        if found:
            assert index.floor_position(slot * 10, wait=False) == slot + 1
        else:
            with pytest.raises(WouldBlock):
                index.floor_position(slot * 10, wait=False)
        assert index.floor_position(slot * 10, wait=True) == slot + 1
    assert (index.offset_behind(100, 5) > 0) is (len(resident) == COUNT * 8)
