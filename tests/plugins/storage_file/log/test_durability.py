"""From where a log has to be checked after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.plugins.storage_file.files import LogDirectoryHarness, eventually
from tidelog.kernel import disk
from tidelog.kernel.testing.storage.harness import append_many
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

CHECKPOINT_S = 60


@pytest.fixture
def clock() -> MockClock:
    """Time that only passes when everybody waits."""
    return MockClock(autojump_threshold=0.002)


async def open_file_store(harness: LogDirectoryHarness) -> FilePartitionStore:
    store = await harness.open_store(segment_bytes=1000)
    assert isinstance(store, FilePartitionStore)
    return store


async def test_recovery_point_moves_with_every_flush(harness: LogDirectoryHarness) -> None:
    store = await open_file_store(harness)
    assert store.recovery_point == 0
    append_many(store, 1, 600)
    assert store.recovery_point == 0
    store.flush()
    assert store.recovery_point == 1


@pytest.mark.parametrize("name", ["sync_data", "fsync"])
async def test_recovery_point_moves_only_after_the_device_has_everything(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A checkpoint, or a crash, may come while the device is still busy: with data, or with names."""
    store = await open_file_store(harness)
    append_many(store, 1, 600)
    store.flush()
    append_many(store, 1, 100)
    store.log.durability.files_created()
    sync, seen = getattr(disk, name), list[tuple[int, int]]()

    def watched(fd: int) -> None:
        seen.append((store.recovery_point, store.durable_offset))
        sync(fd)
        seen.append((store.recovery_point, store.durable_offset))

    monkeypatch.setattr(disk, name, watched)
    assert store.flush() == 2
    assert set(seen) == {(1, 1)}
    assert (store.recovery_point, store.durable_offset) == (2, 2)


async def test_flush_makes_a_rename_durable_that_comes_while_the_parent_is_flushed(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_file_store(harness)
    fsync, flushed = disk.fsync, list[str]()

    def watched(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        fsync(fd)
        if path == harness.log_dir:
            flushed.append(store.log.directory)
            if len(flushed) == 1:
                store.log.rename(f"{store.log.directory}.new")

    monkeypatch.setattr(disk, "fsync", watched)
    append_many(store, 1, 600)
    store.flush()
    store.flush()
    store.flush()
    assert flushed == [f"{harness.log_dir}/topic-0", f"{harness.log_dir}/topic-0.new"]


async def test_recovery_point_moves_when_a_rolled_segment_was_flushed_in_the_background(
    harness: LogDirectoryHarness,
) -> None:
    store = await open_file_store(harness)
    append_many(store, 5, 600)
    assert store.recovery_point == 0
    await eventually(lambda: store.recovery_point == 4)


async def test_recovery_point_stays_below_a_segment_whose_indexes_may_be_lost(
    harness: LogDirectoryHarness,
) -> None:
    store = await open_file_store(harness)
    append_many(store, 1, 600)
    assert store.flush() == 1
    append_many(store, 1, 600)
    # The log of the first segment is durable, its trimmed indexes are not yet.
    assert store.recovery_point == 0
    await eventually(lambda: store.recovery_point == 1)


async def test_truncate_to_lowers_the_recovery_point(harness: LogDirectoryHarness) -> None:
    store = await open_file_store(harness)
    append_many(store, 5, 600)
    store.flush()
    store.truncate_to(2)
    assert store.recovery_point == 2


async def test_recovery_point_is_checkpointed_every_minute_if_it_moved(
    harness: LogDirectoryHarness, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del clock
    path = harness.log_dir / "recovery-point-offset-checkpoint"
    store = await open_file_store(harness)
    append_many(store, 2, 600)
    store.flush()
    await trio.sleep(CHECKPOINT_S + 5)
    await eventually(path.exists)
    assert path.read_text() == "0\n1\ntopic 0 2\n"

    def fail(*_: object) -> None:
        raise AssertionError("nothing changed, so nothing has to be written")

    monkeypatch.setattr(disk, "replace_file", fail)
    await trio.sleep(CHECKPOINT_S * 3)
    monkeypatch.undo()
    statistics = harness.tasks.statistics()["checkpoint recovery points"]
    assert statistics.failures == 0
