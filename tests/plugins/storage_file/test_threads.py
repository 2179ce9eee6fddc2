"""Appends on the event loop while threads read, flush, delete and replace."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.records.batch import parse_header, verify_crc
from tidelog.kernel.seams.storage import PartitionStore, WouldBlock
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import StorageHarness, append, read_all, slice_bytes
from tidelog.plugins.index_memory import plugin as index_memory
from tidelog.plugins.storage_file import plugin as storage_file
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

APPENDS = 1500
READERS = 3


@pytest.fixture(autouse=True)
def eager_switching() -> Generator[None]:
    """Let threads take turns in the middle of everything."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def check_read(store: PartitionStore, choose: random.Random, *, wait: bool, gaps: bool = False) -> None:
    """Read somewhere, with a limit somewhere, and check what comes; with `gaps` offsets may be missing."""
    start, end = store.log_start_offset, store.log_end_offset
    if start == end:
        return
    offset = choose.randrange(start, end)
    limit = choose.choice([end, choose.randrange(offset + 1, end + 1)])
    try:
        content = slice_bytes(
            store.read_batches(offset, choose.choice([1, 500, 5000, 1 << 20]), limit, wait=wait)
        )
    except WouldBlock:
        assert not wait
        return
    except OffsetOutOfRange:
        assert offset < store.log_start_offset
        return
    if not content and (gaps or offset < store.log_start_offset):
        return
    header = parse_header(content)
    assert header.last_offset >= offset
    assert header.base_offset < limit
    assert verify_crc(content[: header.size], header)
    if offset >= store.log_start_offset and not gaps:
        assert header.base_offset <= offset


async def test_append_while_threads_read_flush_and_delete_segments(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=15_000, index_interval_bytes=300, file_delete_delay_ms=0)
    assert isinstance(store, FilePartitionStore)
    done = False

    def read_on(seed: int) -> None:
        choose = random.Random(seed)
        while not done:
            check_read(store, choose, wait=True)
            if choose.random() < 0.1:
                store.batch_at_timestamp(choose.randrange(2**41))
                assert len(list(store.headers(store.log_end_offset))) <= APPENDS
                views = store.segments()
                assert [view.next_offset for view in views[:-1]] == [view.base_offset for view in views[1:]]

    def flush_and_delete() -> None:
        while not done:
            assert store.flush() <= store.log_end_offset
            store.delete_segments_before(store.log_end_offset - 300)

    async with trio.open_nursery() as nursery:
        for seed in range(READERS):
            nursery.start_soon(trio.to_thread.run_sync, read_on, seed)
        nursery.start_soon(trio.to_thread.run_sync, flush_and_delete)
        choose = random.Random(0)
        try:
            for count in range(APPENDS):
                append(store, choose.choice([10, 300, 900]), records=choose.choice([1, 2]))
                check_read(store, choose, wait=False)
                if count % 50 == 0:
                    store.release_idle()
                    store.release_idle()
                await trio.lowlevel.checkpoint()
        finally:
            done = True
    assert store.flush() == store.log_end_offset
    assert store.log_start_offset > 0


def replace_some(store: PartitionStore, choose: random.Random) -> None:
    """Write a few inactive segments anew, without some of their batches."""
    views = store.segments()[:-1]
    if not views:
        return
    first = choose.randrange(len(views))
    chosen = views[first : first + choose.randint(1, 4)]
    draft = store.draft_segment(chosen[0].base_offset)
    for header in list(store.headers(chosen[0].base_offset)):
        if header.base_offset >= chosen[-1].next_offset:
            break
        if header.base_offset >= chosen[0].base_offset and choose.random() < 0.95:
            batch = slice_bytes(store.read_batches(header.base_offset, 1, header.next_offset, wait=True))
            draft.append(batch[: header.size], header.base_offset, header.last_offset, header.max_timestamp)
    store.replace_segments([draft], [view.base_offset for view in chosen])


@pytest.mark.parametrize("index_format", ["sparse", "memory"])
async def test_readers_go_on_while_segments_are_replaced(
    tmp_path: Path, tasks: BackgroundTasks, index_format: str
) -> None:
    harness = StorageHarness(storage_file, tmp_path, tasks, {"log.index.format": index_format}, index_memory)
    await harness.open()
    store = await harness.open_store(segment_bytes=5000, index_interval_bytes=300, file_delete_delay_ms=0)
    assert isinstance(store, FilePartitionStore)
    done = False
    replaced = 0

    def read_on(seed: int) -> None:
        choose = random.Random(seed)
        while not done:
            check_read(store, choose, wait=True, gaps=True)
            if choose.random() < 0.1:
                store.batch_at_timestamp(choose.randrange(2**41))
                offsets = [header.base_offset for header in store.headers(0)]
                assert offsets == sorted(set(offsets))

    def replace_on() -> None:
        nonlocal replaced
        choose = random.Random(7)
        while not done:
            replace_some(store, choose)
            replaced += 1

    async with trio.open_nursery() as nursery:
        for seed in range(READERS):
            nursery.start_soon(trio.to_thread.run_sync, read_on, seed)
        nursery.start_soon(trio.to_thread.run_sync, replace_on)
        choose = random.Random(0)
        try:
            for count in range(APPENDS):
                append(store, choose.choice([10, 300, 900]), records=choose.choice([1, 2]))
                check_read(store, choose, wait=False, gaps=True)
                if count % 50 == 0:
                    store.release_idle()
                    store.release_idle()
                await trio.lowlevel.checkpoint()
        finally:
            done = True
    assert replaced > 5
    content = read_all(store)
    await harness.reopen()
    assert read_all(await harness.open_store(segment_bytes=5000)) == content
    await harness.close()
