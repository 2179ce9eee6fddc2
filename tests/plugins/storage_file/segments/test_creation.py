"""Rolling renames files that a thread created ahead, and leaves the old segment to a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.storage_file.files import (
    IdleTasks,
    LogDirectoryHarness,
    eventually,
    offset_entries,
    time_entries,
)
from tidelog.kernel import disk
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append, append_many, read_all
from tidelog.plugins.storage_file.testing import CHANGING, DyingProcess, ProcessDied
from tidelog.plugins.storage_file.testing.interposing import Interposer

HOUR_MS = 3_600_000


class Threads(Interposer):
    """Notes what the thread that made it does to files, and what others do."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = threading.get_ident()
        self.on_loop: list[tuple[str, str]] = []
        self.elsewhere: list[tuple[str, str]] = []

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Note it, and do it."""
        if name in CHANGING:
            what = "create" if name == "open_file" and arguments[1] & os.O_CREAT else name
            mine = threading.get_ident() == self._loop
            (self.on_loop if mine else self.elsewhere).append(
                (what, Path(self.path_of(name, arguments)).name)
            )
        return perform(*arguments)


SETTINGS: dict[str, dict[str, int]] = {
    "size": {"segment_bytes": 5000},
    "time": {"segment_ms": HOUR_MS},
    "offset index": {"segment_index_bytes": 80, "index_interval_bytes": 0},
    "offsets": {"segment_bytes": 1 << 30},
}


async def append_with_pauses(
    harness: LogDirectoryHarness, store: PartitionStore, count: int, kind: str
) -> bytes:
    """Append batches a while apart, so that threads have their turn; what was appended."""
    content = b""
    for number in range(count):
        timestamp = START_MS + (number * HOUR_MS // 5 if kind == "time" else 0)
        gap = 2**29 if kind == "offsets" else 0
        content += append(store, 600, timestamp=timestamp, gap=gap)
        await harness.tasks.wait_for_jobs()
    return content


@pytest.mark.parametrize("kind", ["size", "time", "offset index"])
@pytest.mark.parametrize("preallocate", [False, True])
async def test_spare_segment_lets_a_roll_create_and_trim_nothing_on_the_event_loop(
    harness: LogDirectoryHarness, kind: str, preallocate: bool
) -> None:
    store = await harness.open_store(**SETTINGS[kind], preallocate=preallocate)
    threads = Threads()
    with threads.installed():
        content = await append_with_pauses(harness, store, 30, kind)
    rolls = len(store.segments()) - 1
    assert rolls >= 2
    done = {what for what, _ in threads.on_loop}
    assert done <= {"open_file", "rename", "pwrite", "ftruncate", "map_writable"}
    # A hole for the entries to come, in the indexes of the segment that takes them.
    cut = [name for what, name in threads.on_loop if what == "ftruncate"]
    active = {f"{view.base_offset:020d}" for view in store.segments()}
    assert set(cut) <= {base + suffix for base in active for suffix in (".index", ".timeindex")}
    assert len(cut) <= 2 * (rolls + 1)
    assert sum(what == "rename" for what, _ in threads.on_loop) == 3 * rolls
    assert sum(what == "create" for what, _ in threads.elsewhere) >= 3 * rolls
    assert ("preallocate" in {what for what, _ in threads.elsewhere}) is preallocate
    assert read_all(store) == content


async def test_spare_segment_lets_produce_requests_roll_without_creating_files(tmp_path: Path) -> None:
    values = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(values) as broker:
        await broker.topics.create(
            TopicSpec("t", 1, config={"segment.bytes": "1048576", "preallocate": "true"})
        )
        (partition,) = broker.topics.get("t").partitions
        threads = Threads()
        with threads.installed():
            for _ in range(12):
                partition.log.append_nowait(make_batch([b"x" * 300_000]))
                await broker.tasks.wait_for_jobs()
        assert len(partition.log.store.segments()) == 4
        allowed = {"rename", "pwrite", "open_file", "ftruncate", "map_writable"}
        assert {what for what, _ in threads.on_loop} == allowed
        assert {what for what, _ in threads.elsewhere} >= {"create", "preallocate", "truncate", "fsync"}


@pytest.mark.parametrize("kind", list(SETTINGS))
async def test_roll_without_a_spare_segment_creates_files_and_preallocates_nothing(
    tmp_path: Path, kind: str
) -> None:
    harness = LogDirectoryHarness(tmp_path, IdleTasks())
    await harness.open()
    store = await harness.open_store(**SETTINGS[kind], preallocate=True)
    threads = Threads()
    with threads.installed():
        content = await append_with_pauses(harness, store, 30, kind)
    assert len(store.segments()) > 2
    assert "preallocate" not in {what for what, _ in threads.on_loop}
    assert read_all(store, 0) == content
    await harness.close()


async def test_spare_segment_is_used_for_offsets_that_do_not_fit_into_the_indexes(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=3000)
    append_many(store, 3, 600)
    await harness.tasks.wait_for_jobs()
    threads = Threads()
    with threads.installed():
        append(store, 10, gap=2**31)
    assert sum(what == "rename" for what, _ in threads.on_loop) == 3
    assert "create" not in {what for what, _ in threads.on_loop}


async def test_finish_trims_an_inactive_segment_and_stores_its_largest_timestamp(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=3000, index_interval_bytes=1000, preallocate=True)
    sizes = [len(batch) for batch in append_many(store, 5, 600)]
    await harness.tasks.wait_for_jobs()
    first = harness.log_files()[0]
    assert first.stat().st_size == sum(sizes[:4])
    assert offset_entries(first.with_suffix(".index")) == [(2, sum(sizes[:2]))]
    assert time_entries(first.with_suffix(".timeindex")) == [(START_MS + 2, 2), (START_MS + 3, 3)]


async def test_finish_is_repeated_until_a_full_disk_has_room(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(segment_bytes=3000, index_interval_bytes=1000)
    monkeypatch.setattr(harness.tasks, "in_thread", lambda *_: None)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    append_many(store, 5, 600)
    real = disk.ftruncate
    monkeypatch.setattr(disk, "ftruncate", full)
    assert store.flush() == 5
    first = harness.log_files()[0]
    assert first.with_suffix(".timeindex").stat().st_size > 1000
    monkeypatch.setattr(disk, "ftruncate", real)
    assert store.flush() == 5
    assert len(time_entries(first.with_suffix(".timeindex"))) == 2


async def test_spare_segment_is_removed_at_a_clean_stop(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=3000)
    append_many(store, 4, 600)
    await harness.tasks.wait_for_jobs()
    assert any(name.endswith(".next.deleted") for name in harness.names())
    await harness.reopen()
    assert not any(name.endswith(".deleted") for name in harness.names())


async def test_spare_segment_that_a_crash_left_is_removed_at_start(
    harness: LogDirectoryHarness, tmp_path: Path
) -> None:
    store = await harness.open_store(segment_bytes=3000)
    content = b"".join(append_many(store, 4, 600))
    await harness.tasks.wait_for_jobs()
    crashed = harness.crash(tmp_path / "crashed")
    assert sum(name.endswith(".next.deleted") for name in crashed.names()) == 3
    await crashed.open()
    store = await crashed.open_store(segment_bytes=3000)
    assert read_all(store) == content
    assert not any(name.endswith(".deleted") for name in crashed.names())
    await crashed.close()


async def test_roll_with_a_crash_at_every_step_loses_nothing(tmp_path: Path, tasks: BackgroundTasks) -> None:
    step, died = 0, True
    while died:
        place = tmp_path / str(step)
        harness = LogDirectoryHarness(place, tasks)
        await harness.open()
        store = await harness.open_store(segment_bytes=3000)
        content = b"".join(append_many(store, 4, 600))
        await tasks.wait_for_jobs()
        dying = DyingProcess(step, CHANGING)
        with dying.installed():
            try:
                last = append(store, 600)
            except ProcessDied:
                last = b""
        died, step = dying.died, step + 1
        harness.abandon()
        await tasks.wait_for_jobs()
        crashed = harness.crash(place / "crashed")
        await crashed.open()
        found = read_all(await crashed.open_store(segment_bytes=3000))
        assert found[: len(content)] == content
        assert len(found) >= len(content) + len(last)
        await crashed.close()
    assert step > 5


async def test_spare_segment_of_a_deleted_topic_is_not_used_by_a_new_one(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[Callable[[], object]] = []
    monkeypatch.setattr(harness.tasks, "in_thread", lambda _, job: queued.append(job))
    await harness.reopen()
    store = await harness.open_store(segment_bytes=3000)
    append_many(store, 5, 600)
    await harness.storage.delete_partitions([(harness.spec().topic_partition, store)])
    harness.forget_topic("topic")
    late = list(queued)
    new = await harness.open_store(segment_bytes=3000)
    content = b"".join(append_many(new, 3, 600))
    before = {path.name: path.stat().st_size for path in harness.partition_dir.iterdir()}
    assert len(late) >= 2
    for job in late:
        job()
    assert {path.name: path.stat().st_size for path in harness.partition_dir.iterdir()} == before
    assert read_all(new) == content


async def test_truncate_to_makes_an_unfinished_segment_the_active_one(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[Callable[[], object]] = []
    monkeypatch.setattr(harness.tasks, "in_thread", lambda _, job: queued.append(job))
    await harness.reopen()
    store = await harness.open_store(segment_bytes=3000, index_interval_bytes=500)
    batches = append_many(store, 5, 600)
    store.truncate_to(3)
    for job in queued:
        job()
    batches[3:] = append_many(store, 3, 600)
    assert read_all(store) == b"".join(batches)
    await harness.reopen()
    assert read_all(await harness.open_store(segment_bytes=3000)) == b"".join(batches)


async def test_spare_segment_that_could_not_be_created_does_not_fail_a_later_roll(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(segment_bytes=3000)
    append_many(store, 2, 600)
    real = disk.open_file

    def full(path: str | Path, flags: int) -> int:
        if "next" in str(path):
            raise OSError(28, "No space left on device", str(path))
        return real(path, flags)

    monkeypatch.setattr(disk, "open_file", full)
    append_many(store, 2, 600)
    await harness.tasks.wait_for_jobs()
    assert not any("next" in name for name in harness.names())
    append_many(store, 3, 600)
    assert len(store.segments()) == 2
    monkeypatch.undo()
    append(store, 600)
    await eventually(lambda: any("next" in name for name in harness.names()))
