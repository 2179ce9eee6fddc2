"""What an idle partition costs."""

from __future__ import annotations

import gc
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append, append_many, read_all, read_bytes, slice_bytes
from tidelog.plugins.storage_file.background import IDLE_CHECK_INTERVAL_MS
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

COUNT = 50
IDLE_CHECK_S = IDLE_CHECK_INTERVAL_MS / 1000


@pytest.fixture
def clock() -> MockClock:
    """Time that only passes when everybody waits."""
    return MockClock(autojump_threshold=0.002)


@pytest.fixture(autouse=True)
def nothing_left_over() -> None:
    """Files that earlier tests left must not be closed between two counts."""
    gc.collect()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def look_once(stores: Sequence[PartitionStore]) -> None:
    """Look for idle partitions, as happens once a minute."""
    for store in stores:
        assert isinstance(store, FilePartitionStore)
        store.release_idle()


def fall_idle(stores: Sequence[PartitionStore]) -> None:
    """Look twice: what was not used in between is idle."""
    look_once(stores)
    look_once(stores)


async def open_many(harness: LogDirectoryHarness) -> Sequence[PartitionStore]:
    return await harness.storage.open_partitions([harness.spec(partition=number) for number in range(COUNT)])


async def test_partitions_that_are_only_open_hold_no_descriptors(harness: LogDirectoryHarness) -> None:
    before = descriptors()
    stores = await open_many(harness)
    assert descriptors() == before
    for store in stores:
        append(store)
    assert descriptors() >= before + COUNT
    await harness.reopen()
    before = descriptors()
    stores = await open_many(harness)
    assert descriptors() == before
    assert [store.log_end_offset for store in stores] == [1] * COUNT


async def test_open_partitions_maps_no_index_before_its_first_lookup(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(index_interval_bytes=0)
    content = b"".join(append_many(store, 5))
    await harness.reopen()
    mapped: list[int] = []
    map_readable = disk.map_readable

    def count(fd: int, size: int) -> mmap.mmap:
        mapped.append(size)
        return map_readable(fd, size)

    monkeypatch.setattr(disk, "map_readable", count)
    store = await harness.open_store(index_interval_bytes=0)
    assert mapped == []
    assert read_all(store, 3) in content
    assert mapped


async def test_partitions_that_fell_idle_let_their_descriptors_go(harness: LogDirectoryHarness) -> None:
    stores = await open_many(harness)
    before = descriptors()
    contents = [b"".join(append(store, 3000) for _ in range(5)) for store in stores]
    region = stores[0].read_batches(0, 1 << 20, 5)
    fall_idle(stores)
    assert descriptors() == before + 1
    assert slice_bytes(region) == contents[0]
    del region
    assert descriptors() == before
    # They come back as if nothing had been.
    for number, store in enumerate(stores):
        assert read_bytes(store, 4) == contents[number][-len(contents[number]) // 5 :]
        contents[number] += append(store, 3000)
        assert read_all(store) == contents[number]


async def test_release_idle_keeps_the_descriptors_of_partitions_in_use(harness: LogDirectoryHarness) -> None:
    stores = (await open_many(harness))[:3]
    written, read, idle = stores
    for store in stores:
        append(store)
    before = descriptors()
    for _ in range(4):
        append(written)
        read_bytes(read, 0)
        look_once(stores)
    assert descriptors() == before - 1
    assert read_all(idle)


async def test_it_is_looked_for_idle_partitions_every_minute(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    del clock
    store = await harness.open_store()
    append(store)
    before = descriptors()
    await trio.sleep(IDLE_CHECK_S * 2.5)
    assert descriptors() == before - 1


@pytest.fixture
def no_gaps() -> Iterator[None]:
    """A new descriptor's number is how many there are: what other tests closed is taken up."""
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    held: list[int] = []
    while not held or held[-1] <= highest:
        held.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for descriptor in held:
        os.close(descriptor)


async def test_files_of_idle_partitions_are_closed_early_when_descriptors_run_short(
    tmp_path: Path, tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch, no_gaps: None
) -> None:
    monkeypatch.setattr(disk, "raise_descriptor_limit", lambda: (descriptors() + 20) / 0.6)
    harness = LogDirectoryHarness(tmp_path, tasks)
    await harness.open()
    before = descriptors()
    stores = await open_many(harness)
    contents = [append(store, 100) for store in stores]
    assert descriptors() <= before + 25
    for number, store in enumerate(stores):
        contents[number] += append(store, 100)
    assert descriptors() <= before + 25
    assert [read_all(store) for store in stores] == contents
    await harness.close()
