"""Opening and closing: as many threads for each log directory as `num.recovery.threads.per.data.dir` says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.storage_file.files import (
    LogDirectoryHarness,
    log_directories_of,
)
from tidelog.kernel import disk
from tidelog.kernel.seams.storage import PartitionStore, TopicPartition
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.recovery import parallel_opening
from tidelog.plugins.storage_file.recovery.opening import open_partition

DIRECTORIES = 2
PARTITIONS = 12


class Rendezvous:
    """Jobs that meet: each waits until as many as are expected run at the same time."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def meet(self, place: str) -> None:
        """Note how many are at that place, and wait for the others."""
        with self._lock:
            self._running[place] = self._running.get(place, 0) + 1
            self.most[place] = max(self.most.get(place, 0), self._running[place])
        self._barrier.wait(DEADLINE_S)
        with self._lock:
            self._running[place] -= 1


async def opened(tmp_path: Path, tasks: BackgroundTasks, threads: int) -> LogDirectoryHarness:
    """A storage with several directories."""
    harness = LogDirectoryHarness(
        tmp_path,
        tasks,
        {
            "log.dirs": ",".join(str(tmp_path / str(number)) for number in range(DIRECTORIES)),
            "num.recovery.threads.per.data.dir": threads,
        },
    )
    await harness.open()
    return harness


@pytest.mark.parametrize("threads", [1, 3])
async def test_open_partitions_recovers_logs_in_threads_for_each_directory(
    tmp_path: Path, tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    harness = await opened(tmp_path, tasks, threads)
    specs = [harness.spec(partition=number) for number in range(PARTITIONS)]
    for store in await harness.storage.open_partitions(specs):
        append(store)
    harness.abandon()
    await harness.open_again()
    meeting = Rendezvous(threads * DIRECTORIES)

    def meet_and_open(placement: Placement, **options: Any) -> PartitionStore:
        meeting.meet(str(placement.directory.path))
        return open_partition(placement, **options)

    monkeypatch.setattr(parallel_opening, "open_partition", meet_and_open)
    stores = await harness.storage.open_partitions(specs)
    assert [store.log_end_offset for store in stores] == [1] * PARTITIONS
    assert meeting.most == {str(tmp_path / str(number)): threads for number in range(DIRECTORIES)}
    await harness.close()


@pytest.mark.parametrize("threads", [1, 3])
async def test_close_partitions_uses_threads_for_each_directory(
    tmp_path: Path, tasks: BackgroundTasks, threads: int
) -> None:
    harness = await opened(tmp_path, tasks, threads)
    specs = [harness.spec(partition=number) for number in range(PARTITIONS)]
    stores = await harness.storage.open_partitions(specs)
    meeting = Rendezvous(threads * DIRECTORIES)

    def close(store: PartitionStore, place: str) -> None:
        meeting.meet(place)
        store.close()

    place_of = {
        each.topic_partition: view.path
        for view in await log_directories_of(harness.storage).describe()
        for each in view.partitions
    }
    jobs: list[tuple[TopicPartition, Callable[[], None]]] = [
        (spec.topic_partition, partial(close, store, place_of[spec.topic_partition]))
        for spec, store in zip(specs, stores, strict=True)
    ]
    await harness.storage.close_partitions(jobs)
    assert meeting.most == {str(tmp_path / str(number)): threads for number in range(DIRECTORIES)}
    await harness.close()


class Meeting:
    """Flushes of logs that meet."""

    def __init__(self, parties: int) -> None:
        self.meeting = Rendezvous(parties)

    def sync(self, perform: Callable[[int], None], fd: int) -> None:
        """Flush together with others."""
        if (path := Path(f"/proc/self/fd/{fd}").readlink()).suffix == ".log":
            self.meeting.meet(str(path.parent.parent))
        perform(fd)


async def test_close_uses_threads_for_each_directory(
    tmp_path: Path, tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await opened(tmp_path, tasks, 2)
    for store in await harness.storage.open_partitions(
        [harness.spec(partition=number) for number in range(PARTITIONS)]
    ):
        append(store)
    meeting = Meeting(2 * DIRECTORIES)
    monkeypatch.setattr(disk, "sync_data", partial(meeting.sync, disk.sync_data))
    await harness.close()
    monkeypatch.undo()
    assert set(meeting.meeting.most.values()) == {2}
    await harness.open_again()
    await harness.close()
