"""Files go in two steps: renamed at once, removed after a delay."""

from __future__ import annotations

import math
import re
import threading
import time
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tests.metadata_changes import put_topics, remove_topics
from tests.plugins.storage_file.files import PARTITION, LogDirectoryHarness, eventually
from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import topic_image
from tidelog.kernel.testing.storage.harness import append, append_many, read_all, slice_bytes
from tidelog.plugins.storage_file.directories.deletion import DeletionQueue
from tidelog.plugins.storage_file.directories.lock import DirectoryLock
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory

DELAY_S = 60
INITIAL_DELAY_S = 30
"""`log.initial.task.delay.ms` as it is by default."""


@pytest.fixture
def clock() -> MockClock:
    """Time that only passes when everybody waits."""
    return MockClock(autojump_threshold=0.002)


def deleted(harness: LogDirectoryHarness) -> set[str]:
    return {name for name in harness.names() if name.endswith(".deleted")}


async def test_segments_are_renamed_at_once_and_removed_later(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    del clock
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=DELAY_S * 1000)
    append_many(store, 6, 600)
    assert len(store.delete_segments_before(2)) == 2
    expected = {
        f"{base:020d}.{suffix}.deleted" for base in (0, 1) for suffix in ("log", "index", "timeindex")
    }
    assert deleted(harness) == expected
    await trio.sleep(DELAY_S - 5)
    assert deleted(harness) == expected
    await trio.sleep(10)
    await eventually(lambda: not deleted(harness))
    assert store.log_start_offset == 2


async def test_a_partition_is_renamed_at_once_and_removed_later(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    del clock
    spec = harness.spec(config=TopicConfig({"file.delete.delay.ms": DELAY_S * 1000}))
    (store,) = await harness.storage.open_partitions([spec])
    batch = append(store)
    region = store.read_batches(0, 1000, 1)
    await harness.storage.delete_partitions([(spec.topic_partition, store)])
    (renamed,) = harness.log_dir.glob("*-delete")
    assert re.fullmatch(rf"{PARTITION}\.[0-9a-f]{{32}}-delete", renamed.name)
    await trio.sleep(DELAY_S - 5)
    assert renamed.exists()
    await trio.sleep(10)
    await eventually(lambda: not renamed.exists())
    assert slice_bytes(region) == batch


async def test_without_a_delay_the_next_round_removes(harness: LogDirectoryHarness, clock: MockClock) -> None:
    del clock
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=0)
    append_many(store, 3, 600)
    store.delete_segments_before(1)
    await trio.sleep(2)
    await eventually(lambda: not deleted(harness))


async def test_what_was_not_removed_in_time_goes_at_the_next_start(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    del clock
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 6, 600)
    store.delete_segments_before(2)
    (other,) = await harness.storage.open_partitions([harness.spec("other")])
    await harness.storage.delete_partitions([(harness.spec("other").topic_partition, other)])
    assert len(list(harness.log_dir.glob("*-delete"))) == 1
    await harness.reopen()
    store = await harness.open_store(segment_bytes=1000)
    await trio.sleep(INITIAL_DELAY_S + 2)
    await eventually(lambda: not list(harness.log_dir.glob("*-delete")))
    assert deleted(harness) == set()
    assert store.log_start_offset == 2


async def test_a_deletion_that_a_crash_interrupted_is_finished(harness: LogDirectoryHarness) -> None:
    specs = [harness.spec(partition=number) for number in range(2)]
    stores = await harness.storage.open_partitions(specs)
    for store in stores:
        append(store)
    metadata = harness.metadata
    await put_topics(metadata, topic_image("topic", harness.topic_ids["topic"], 2))
    await put_topics(metadata, topic_image("kept", harness.spec("kept").topic_id, 1))
    (kept,) = await harness.storage.open_partitions([harness.spec("kept")])
    content = append(kept)
    await remove_topics(metadata, "topic")
    # Of the two partitions only the first was renamed when the crash came.
    await harness.storage.delete_partitions([(specs[0].topic_partition, stores[0])])
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    assert not list(crashed.log_dir.glob("topic-[01]"))
    crashed.forget_topic("topic")
    store = await crashed.open_store()
    assert store.log_end_offset == 0
    (kept,) = await crashed.storage.open_partitions([crashed.spec("kept")])
    assert read_all(kept) == content
    await crashed.close()


async def test_a_file_that_cannot_be_removed_is_told_and_does_not_stop_the_others(
    harness: LogDirectoryHarness,
    clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del clock
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=0)
    append_many(store, 3, 600)
    unlink = disk.unlink

    def refuse_one(path: str | Path) -> None:
        if str(path).endswith("0.index.deleted"):
            raise PermissionError(1, "Operation not permitted")
        unlink(path)

    monkeypatch.setattr(disk, "unlink", refuse_one)
    store.delete_segments_before(1)
    await trio.sleep(2)
    await eventually(lambda: deleted(harness) == {"00000000000000000000.index.deleted"})
    assert "could not be removed: [Errno 1] Operation not permitted" in caplog.text


async def test_a_flush_under_way_does_not_mind_a_deletion(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 6, 600)
    await harness.reopen()
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 3, 600)
    store.delete_segments_before(8)
    assert store.flush() == 9
    append(store, 600)
    assert store.flush() == 10


async def test_delete_partitions_lets_a_later_flush_and_close_succeed(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 6, 600)
    await harness.storage.delete_partitions([(harness.spec().topic_partition, store)])
    store.flush()
    await harness.close()


async def test_remove_partitions_waits_for_the_initial_task_delay_unlike_remove_files(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    # Otherwise time would pass while threads remove files.
    clock.autojump_threshold = math.inf
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=0)
    append_many(store, 3, 600)
    store.delete_segments_before(1)
    spec = harness.spec("other", config=TopicConfig({"file.delete.delay.ms": 0}))
    (other,) = await harness.storage.open_partitions([spec])
    await harness.storage.delete_partitions([(spec.topic_partition, other)])
    assert deleted(harness)
    clock.jump(2)
    await eventually(lambda: not deleted(harness))
    for _ in range(INITIAL_DELAY_S - 4):
        clock.jump(1)
        await wait_all_tasks_blocked()
    await wait_for_threads()
    assert list(harness.log_dir.glob("*-delete"))
    clock.jump(4)
    await eventually(lambda: not list(harness.log_dir.glob("*-delete")))


class Unlinking:
    """`disk.unlink` that stops before the first removal of a `.deleted` file until it is let go."""

    def __init__(self) -> None:
        self._unlink = disk.unlink
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.unlinked: list[str] = []

    def __call__(self, path: str | Path) -> None:
        """Wait, then unlink."""
        if str(path).endswith(".deleted"):
            self.begun.set()
            assert self.go_on.wait(DEADLINE_S)
            self.unlinked.append(Path(path).name)
        self._unlink(path)


async def test_deletion_queue_close_holds_the_lock_during_a_removal_and_starts_no_other(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlinking = Unlinking()
    monkeypatch.setattr(disk, "unlink", unlinking)
    queues: list[DeletionQueue] = []
    close = DeletionQueue.close

    def close_and_note(queue: DeletionQueue) -> None:
        queues.append(queue)
        close(queue)

    monkeypatch.setattr(DeletionQueue, "close", close_and_note)
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=0)
    append_many(store, 6, 600)
    store.delete_segments_before(4)
    await eventually(unlinking.begun.is_set)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.close)
        for _ in range(20):
            await trio.to_thread.run_sync(time.sleep, 0.01)
            with pytest.raises(ConfigError, match="in use by another broker"):
                DirectoryLock(harness.log_dir)
        await eventually(lambda: any(queue.closed for queue in queues))
        unlinking.go_on.set()
    DirectoryLock(harness.log_dir).release()
    await trio.sleep(1.5)
    assert len(unlinking.unlinked) == 1
    await harness.open_again()


async def test_files_of_the_next_broker_are_not_removed(
    harness: LogDirectoryHarness, clock: MockClock
) -> None:
    del clock
    store = await harness.open_store(segment_bytes=1000, file_delete_delay_ms=5000)
    append_many(store, 6, 600)
    store.delete_segments_before(2)
    await trio.sleep(2)
    old = deleted(harness)
    await harness.reopen()
    await harness.open_store(segment_bytes=1000)
    assert not deleted(harness)
    # What the next one deletes has the same names, and its readers may still open it.
    for name in old:
        (harness.partition_dir / name).write_bytes(b"of the next broker")
    await trio.sleep(DELAY_S)
    await wait_for_threads()
    assert deleted(harness) == old


async def test_remove_files_removes_nothing_from_an_offline_log_directory(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path / "data")
    (tmp_path / "data" / "0.log.deleted").touch()
    directory.deletions.add([str(tmp_path / "data" / "0.log.deleted")], 0)
    await trio.to_thread.run_sync(directory.release)
    await directory.deletions.remove_files()
    assert (tmp_path / "data" / "0.log.deleted").exists()


async def wait_for_threads() -> None:
    """Give jobs that were begun in threads the time to end."""
    await trio.to_thread.run_sync(time.sleep, 0.1)
