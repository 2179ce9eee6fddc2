"""A short read is no end, a short write is not done: every read and write may stop at any byte."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.in_memory import memory_folder
from tests.plugins.storage_file.files import IdleTasks, LogDirectoryHarness, evict_page
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    FileRegion,
    PartitionStore,
    WouldBlock,
    region_bytes,
)
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage import StorageConformance
from tidelog.kernel.testing.storage.harness import (
    StorageHarness,
    append,
    append_many,
    headers_of,
    slice_bytes,
)
from tidelog.plugins.metadata_kraft.records.control import SnapshotHeaderRecord
from tidelog.plugins.metadata_kraft.snapshots import snapshot_time, write_snapshot
from tidelog.plugins.storage_file import plugin as storage_file
from tidelog.plugins.storage_file.indexes.transaction_index import ENTRY, TransactionIndex
from tidelog.plugins.storage_file.segments.segment_files import holds_batches
from tidelog.plugins.storage_file.testing import ShortDisk

SETTINGS = {"segment_bytes": 3000, "index_interval_bytes": 300}

allowances = st.lists(st.integers(0, 200) | st.just(1 << 30), min_size=1, max_size=12)
"""What each call may move in turn; 0 is EAGAIN where a read must not wait."""


def allowing(pattern: Sequence[int]) -> Callable[[int], int]:
    """Allow what the pattern says, over and over, and now and then all of it, so that everything ends."""
    following = cycle([*pattern, 1 << 30])
    return lambda size: min(next(following), size)


def at_random(seed: int) -> Callable[[int], int]:
    """Cut about half of all calls at a random byte."""
    choose = random.Random(seed)
    return lambda size: choose.randrange(size + 1) if size and choose.random() < 0.5 else size


@pytest.mark.long
@pytest.mark.in_memory
class TestFileStorageOnAShortDisk(StorageConformance, plugin=storage_file):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncGenerator[StorageHarness]:
        """A fresh, open storage on a disk that cuts half of all reads and writes short."""
        tasks, short = BackgroundTasks(), ShortDisk(at_random(1))
        with short.installed():
            async with tasks.running():
                harness = StorageHarness(self.plugin, tmp_path, tasks, dict(self.settings))
                await harness.open()
                try:
                    yield harness
                finally:
                    await harness.close()
        assert short.shortened


def aborted(count: int) -> list[AbortedTransaction]:
    """Transactions one after the other, each of two offsets."""
    return [AbortedTransaction(7, 2 * at, 2 * at + 1, 2 * at + 2) for at in range(count)]


def index_with(directory: str | Path, entries: Sequence[AbortedTransaction]) -> TransactionIndex:
    """A transaction index in a file of its own."""
    index = TransactionIndex(IndexPlace(str(directory), 0))
    for entry in entries:
        index.append(entry)
    return index


@given(count=st.integers(1, 300), start=st.integers(0, 620), size=st.integers(1, 620), pattern=allowances)
def test_a_search_for_aborted_transactions_finds_all_or_would_block(
    count: int, start: int, size: int, pattern: list[int]
) -> None:
    entries = aborted(count)
    end = start + size
    expected = [entry for entry in entries if entry.last_offset >= start and entry.first_offset < end]
    with tempfile.TemporaryDirectory(dir=memory_folder()) as directory:
        index = index_with(directory, entries)
        with ShortDisk(allowing(pattern)).installed():
            waited: list[AbortedTransaction] = []
            index.search(start, end, waited, wait=True)
            assert waited == expected
            found: list[AbortedTransaction] = []
            try:
                index.search(start, end, found, wait=False)
            except WouldBlock:
                return
            assert found == expected


@given(count=st.integers(1, 200), offset=st.integers(0, 420), pattern=allowances)
def test_truncate_to_cuts_a_transaction_index_at_the_offset_despite_short_reads(
    count: int, offset: int, pattern: list[int]
) -> None:
    entries = aborted(count)
    kept = [entry for entry in entries if entry.last_offset < offset]
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as directory,
        ShortDisk(allowing(pattern)).installed(),
    ):
        index = index_with(directory, entries)
        index.truncate_to(offset)
        assert index.last_offset == (kept[-1].last_offset if kept else -1)
        assert Path(index.path).stat().st_size == len(kept) * ENTRY.size


def test_transaction_index_search_raises_if_the_file_was_cut(tmp_path: Path) -> None:
    index = index_with(tmp_path, aborted(10))
    os.truncate(index.path, 5 * ENTRY.size + 3)
    with pytest.raises(OSError, match=r"txnindex ends before the end of entry 5"):
        index.search(0, 100, [], wait=True)


@pytest.mark.parametrize("page", range(4))
@pytest.mark.parametrize("start", [0, 15, 240, 480, 700])
def test_transaction_index_search_misses_no_entry_of_an_evicted_page(
    tmp_path: Path, page: int, start: int
) -> None:
    entries = aborted(395)
    expected = [entry for entry in entries if entry.last_offset >= start]
    index = index_with(tmp_path, entries)
    evict_page(Path(index.path), page)
    found: list[AbortedTransaction] = []
    try:
        index.search(start, 1000, found, wait=False)
    except WouldBlock:
        found.clear()
        index.search(start, 1000, found, wait=True)
    # Either way: a search that does not wait may find that a fast device has brought the page meanwhile.
    assert found == expected


@contextmanager
def filled_store() -> Generator[tuple[PartitionStore, list[Buffer]]]:
    """A store in several segments with aborted transactions, and its batches."""

    async def open_it(harness: LogDirectoryHarness) -> PartitionStore:
        await harness.open()
        return await harness.open_store(**SETTINGS)

    with tempfile.TemporaryDirectory(dir=memory_folder()) as directory:
        harness = LogDirectoryHarness(Path(directory), IdleTasks())
        store = trio.run(open_it, harness)
        yield store, list(append_many(store, 12, 700, records=3))
        harness.abandon()


@given(pattern=allowances, offset=st.integers(0, 35))
def test_reads_and_searches_of_a_log_are_whole_or_would_block(pattern: list[int], offset: int) -> None:
    with filled_store() as (store, batches), ShortDisk(allowing(pattern)).installed():
        end, batch = store.log_end_offset, batches[offset // 3]
        assert slice_bytes(store.read_batches(offset, 1, end, wait=True)) == batch
        assert [each.base_offset for each in store.headers(offset)] == list(range(offset // 3 * 3, end, 3))
        assert store.batch_at_timestamp(START_MS + offset // 3) == batch
        assert store.batch_of_max_timestamp() == batches[-1]
        try:
            found = store.read_batches(offset, 1, end)
        except WouldBlock:
            return
        assert slice_bytes(found) == batch


async def test_append_completes_a_batch_after_short_writes(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    with ShortDisk(allowing([3, 1, 50])).installed():
        batches = [append(store, 700) for _ in range(9)]
    assert b"".join(path.read_bytes() for path in harness.log_files()) == b"".join(batches)


def test_a_region_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pread = tmp_path / "file", os.pread
    path.write_bytes(bytes(range(200)))
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, 7), position))
    with path.open("rb") as file:
        assert region_bytes(FileRegion(Opened(file.fileno()), 10, 100)) == bytes(range(10, 110))
        with pytest.raises(OSError, match="a file ended at byte 200, 3 bytes too early"):
            region_bytes(FileRegion(Opened(file.fileno()), 190, 13))


class Opened:
    """An open file that is in memory."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def resident(self, position: int, size: int) -> bool:
        """It is."""
        return position >= 0 <= size

    def report_error(self, error: OSError) -> None:
        """Ignore it."""

    def prefetch(self, position: int, size: int) -> None:
        """Nothing to do."""


def test_the_time_of_a_metadata_snapshot_is_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000001-0000000001.checkpoint"
    write_snapshot(path, 1, [SnapshotHeaderRecord(last_contained_log_timestamp=4711)], [], START_MS)
    with ShortDisk(allowing([1])).installed():
        assert snapshot_time(path) == 4711


def test_holds_batches_is_true_for_a_log_that_begins_with_zeros(tmp_path: Path) -> None:
    # A base offset of 0 is eight zeros; what follows tells.
    path = tmp_path / "log"
    path.write_bytes(bytes(11) + b"\1" + bytes(80))
    with ShortDisk(allowing([4])).installed():
        assert holds_batches(str(path))


async def test_headers_that_are_read_in_parts_are_those_of_the_log(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    content = b"".join(append_many(store, 9, 700))
    with ShortDisk(allowing([1, 60, 61])).installed():
        assert list(store.headers(0)) == headers_of(content)
