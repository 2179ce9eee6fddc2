"""Partitions move between log directories while they are used; nothing is lost, whenever a crash comes."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.lowlevel
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.plugins.storage_file.files import (
    eventually,
    log_directories_of,
)
from tidelog.kernel import disk as system
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import LogDirNotFound, StorageError
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.events import Event, PartitionMoved
from tidelog.kernel.seams.storage import LogDirectoryView, TopicPartition
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.storage.harness import headers_of, read_all
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.moving.replica_moves import ReplicaMoves
from tidelog.plugins.storage_file.testing import FailingDisk
from tidelog.plugins.storage_file.testing.interposing import Interposer

SMALL = {"segment.bytes": str(1024 * 1024), "index.interval.bytes": "100"}


@pytest.fixture
def disk() -> Generator[FailingDisk]:
    """A disk that works until it is told not to."""
    failing = FailingDisk()
    with failing.installed():
        yield failing


@asynccontextmanager
async def two_directories(place: Path) -> AsyncGenerator[Broker]:
    values = {
        "storage": "file",
        "log.dirs": f"{place / 'a'},{place / 'b'}",
        "metadata.log.dir": str(place / "meta"),
        "log.segment.delete.delay.ms": 0,
        "log.initial.task.delay.ms": 0,
    }
    async with running_broker(values) as broker:
        if broker.topics.find("t") is None:
            await broker.topics.create(TopicSpec("t", 1, config=SMALL))
        yield broker


def the_partition(broker: Broker) -> UnifiedLog:
    return broker.topics.get("t").partitions[0].log


def append(partition: UnifiedLog, count: int, size: int = 100) -> None:
    for number in range(count):
        partition.append_nowait(make_batch([bytes([number % 256]) * size]))


async def views(broker: Broker) -> dict[str, LogDirectoryView]:
    return {Path(view.path).name: view for view in await log_directories_of(broker.storage).describe()}


async def moved(broker: Broker, place: Path, name: str) -> None:
    """Wait until the partition is in that directory and nowhere else."""
    with trio.fail_after(DEADLINE_S):
        while True:
            found = await views(broker)
            here, others = found.pop(name), found.values()
            if [each.is_future for each in here.partitions] == [False] and not any(
                each.partitions for each in others
            ):
                break
            await trio.to_thread.run_sync(time.sleep, 0.005)
    assert (place / name / "t-0").is_dir()


def all_offsets(partition: UnifiedLog) -> list[int]:
    return [header.base_offset for header in headers_of(read_all(partition.store))]


async def test_swap_publishes_partition_moved_once(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        partition, events = the_partition(broker), list[Event]()
        broker.events.subscribe(events.append)
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        await eventually(lambda: bool(events))
        assert events == [
            PartitionMoved(broker.replicas.get(*partition.topic_partition), str(tmp_path / "b"))
        ]
        await moved(broker, tmp_path, "b")
    assert len(events) == 1


async def test_run_next_moves_all_records_of_a_partition_to_the_target_directory(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 5000, 500)
        content = read_all(partition.store)
        assert (tmp_path / "a/t-0").exists()
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        # Asking again is no error.
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        await moved(broker, tmp_path, "b")
        assert read_all(partition.store) == content
        append(partition, 10)
        await partition.flush()
        assert partition.read(5005, 1000, Isolation.READ_UNCOMMITTED).size
        await eventually(lambda: not list((tmp_path / "a").glob("t-0*")))
        image = broker.metadata.records  # type: ignore[attr-defined]
        assert len(set(image.brokers[1].log_dirs)) == 2
        content = read_all(partition.store)
    async with two_directories(tmp_path) as broker:
        assert broker.storage.clean_start
        assert read_all(the_partition(broker).store) == content
        assert not list((tmp_path / "a").glob("t-*"))


async def test_run_next_moves_a_partition_during_appends_and_reads(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 2000, 1000)
        for target in "bab":
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / target))
            while not (tmp_path / target / "t-0").exists():
                append(partition, 20)
                end = partition.log_end_offset
                assert partition.read(end - 5, 10_000, Isolation.READ_UNCOMMITTED, wait=True).size
                await trio.lowlevel.checkpoint()
            await moved(broker, tmp_path, target)
            assert all_offsets(partition) == list(range(partition.log_end_offset))
        count = partition.log_end_offset
    async with two_directories(tmp_path) as broker:
        assert all_offsets(the_partition(broker)) == list(range(count))


async def test_run_next_moves_log_start_epochs_producers_and_aborted_transactions(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        for sequence in range(3):
            partition.append_nowait(
                make_batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=sequence)
            )
        partition.append_nowait(
            make_batch([b"y"], producer_id=8, producer_epoch=0, base_sequence=0, transactional=True),
            in_transaction=True,
        )
        partition.append_marker(8, 0, 0, commit=False)
        partition.raise_log_start(2)
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        await moved(broker, tmp_path, "b")
        assert partition.log_start_offset == 2
        found = partition.read(2, 10_000, Isolation.READ_COMMITTED)
        assert [each.producer_id for each in partition.aborted_transactions(2, found)] == [8]
        assert "leader-epoch-checkpoint" in partition.store.side_files()
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        assert partition.log_start_offset == 2
        assert set(partition.producers.entries) == {7, 8}
        found = partition.read(2, 10_000, Isolation.READ_COMMITTED)
        assert [each.producer_id for each in partition.aborted_transactions(2, found)] == [8]


async def test_describe_reports_the_offset_lag_of_a_future_replica_during_a_move(
    tmp_path: Path, disk: FailingDisk
) -> None:
    del disk
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 3)
        slow = Slow("t-0.")
        with slow.installed():
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
            await eventually(lambda: slow.reached)
            found = await views(broker)
            assert [(each.is_future, each.offset_lag) for each in found["b"].partitions] == [(True, 3)]
            assert [each.is_future for each in found["a"].partitions] == [False]
            slow.go_on()
            await moved(broker, tmp_path, "b")


async def test_move_back_to_the_source_directory_cancels_the_move(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 3)
        slow = Slow("t-0.")
        with slow.installed():
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
            await eventually(lambda: slow.reached)
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "a"))
            slow.go_on()
            await moved(broker, tmp_path, "a")
        await eventually(lambda: not list((tmp_path / "b").glob("t-0*")))


async def test_delete_partitions_cancels_a_move_and_removes_the_future_replica(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        append(the_partition(broker), 3)
        slow = Slow("t-0.")
        with slow.installed():
            await log_directories_of(broker.storage).move(
                the_partition(broker).topic_partition, str(tmp_path / "b")
            )
            await eventually(lambda: slow.reached)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.topics.delete, "t")
                await trio.testing.wait_all_tasks_blocked()
                slow.go_on()
            await eventually(lambda: not list(tmp_path.glob("?/t-0*")))


async def test_move_to_an_unknown_or_failed_directory_leaves_the_partition_in_place(
    tmp_path: Path, disk: FailingDisk
) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 3)
        with pytest.raises(LogDirNotFound):
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "c"))
        await broker.topics.create(TopicSpec("other", 1))
        disk.refuse(errno.EIO, ["pwrite"], paths=lambda path: path.startswith(f"{tmp_path}/b"))
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        # The target fails; the partition stays where it is and loses nothing.
        await eventually(lambda: len(broker.storage.failed_partitions) == 1)
        disk.recover()
        append(partition, 3)
        assert all_offsets(partition) == list(range(6))
        with pytest.raises(StorageError, match="is offline"):
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))


async def test_a_stop_leaves_the_copy_for_the_next_start(tmp_path: Path) -> None:
    slow = Slow("t-0.", after=30)
    async with two_directories(tmp_path) as broker:
        append(the_partition(broker), 3000, 1000)
        with slow.installed():
            await log_directories_of(broker.storage).move(
                the_partition(broker).topic_partition, str(tmp_path / "b")
            )
            await eventually(lambda: slow.reached)
            broker.storage._moves.cancel_in(broker.storage._directories.in_service[1])  # type: ignore[attr-defined]
            slow.go_on()
            await eventually(lambda: not broker.storage._moves.under_way())  # type: ignore[attr-defined]
        assert list((tmp_path / "b").glob("t-0.*-future"))
    async with two_directories(tmp_path) as broker:
        await moved(broker, tmp_path, "b")
        assert all_offsets(the_partition(broker)) == list(range(3000))


async def test_close_partitions_leaves_the_copy_of_a_move_for_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow("t-0.", after=30)
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 3000, 1000)

        def close() -> None:
            partition.store.close()
            slow.go_on()

        with slow.installed(), trio.fail_after(DEADLINE_S):
            await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
            await eventually(lambda: slow.reached)
            (move,) = broker.storage.moves_under_way  # type: ignore[attr-defined]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.storage.close_partitions, [(partition.topic_partition, close)])
                await trio.testing.wait_all_tasks_blocked()
                if move.cancelled:
                    slow.go_on()
            await eventually(lambda: not broker.storage.moves_under_way)  # type: ignore[attr-defined]
        assert list((tmp_path / "b").glob("t-0.*-future"))
        assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    async with two_directories(tmp_path) as broker:
        await moved(broker, tmp_path, "b")
        assert all_offsets(the_partition(broker)) == list(range(3000))


class Slow(Interposer):
    """Holds up a write to files whose path has some text in it, until it is told to go on."""

    one_at_a_time = False

    def __init__(self, text: str, after: int = 0) -> None:
        super().__init__()

        self._text, self._after = text, after
        self._going_on = threading.Event()
        self.reached = False

    def call(self, name, perform, arguments):  # type: ignore[no-untyped-def]
        """Hold up or perform."""
        if name in ("mkdir", "pwrite") and self._text in self.path_of(name, arguments):
            self._after -= 1
            if self._after < 0 and not self.reached:
                self.reached = True
                assert self._going_on.wait(DEADLINE_S)
        return perform(*arguments)

    def go_on(self) -> None:
        """Hold nothing up any more."""
        self._going_on.set()


async def test_an_old_directory_that_cannot_be_renamed_hurts_nobody(
    tmp_path: Path, disk: FailingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with two_directories(tmp_path) as broker:
        partition = the_partition(broker)
        append(partition, 10)
        old = f"{tmp_path}/a/t-0"
        disk.refuse(errno.EIO, ["rename"], paths=lambda path: path == old)
        await log_directories_of(broker.storage).move(partition.topic_partition, str(tmp_path / "b"))
        await eventually(lambda: "its old directory is left" in caplog.text)
        await eventually(lambda: len(broker.storage._directories) == 1)  # type: ignore[attr-defined]
        disk.recover()
        append(partition, 10)
        await partition.flush()
        assert partition.commit.durable_offset == 20
        assert not broker.storage.failed_partitions
    async with two_directories(tmp_path) as broker:
        assert all_offsets(the_partition(broker)) == list(range(20))
        assert list((tmp_path / "a").glob("t-0.*-stray"))


FIRST = f"/{0:020d}.log"


class Meeting:
    """An append on the event loop that is held up until the copy's thread has begun some segments.

    That is the moment at which the descriptor of the append must not be closed.
    """

    def __init__(self, segments: int) -> None:
        self._loop = threading.get_ident()
        self._segments = segments
        self._pwrite = system.pwrite
        self._open_file = system.open_file
        self.copying = threading.Event()
        self.appending = threading.Event()
        self.met = threading.Event()

    def open_file(self, path: str | Path, flags: int) -> int:
        """Count the segments that the copy rolls to, from the held up append on."""
        # A file that was created ahead, or not.
        name = Path(path).name
        rolled_to = "-future" in str(path) and ".log" in name and name != FIRST[1:] and flags & os.O_CREAT
        if threading.get_ident() != self._loop and rolled_to:
            self.copying.set()
            assert self.appending.wait(DEADLINE_S)
            self._segments -= 1
            if not self._segments:
                self.met.set()
        return self._open_file(path, flags)

    def pwrite(self, fd: int, data: bytes, position: int) -> int:
        """Hold up the event loop's write once."""
        if threading.get_ident() == self._loop and not self.appending.is_set():
            self.appending.set()
            assert self.met.wait(DEADLINE_S)
        return self._pwrite(fd, data, position)


async def test_release_idle_during_a_move_closes_no_descriptor_that_an_append_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each descriptor is one too many, so whoever opens a file has idle ones closed.
    monkeypatch.setattr(system, "raise_descriptor_limit", lambda: 0)
    async with two_directories(tmp_path) as broker:
        append(the_partition(broker), 80, 100_000)
        other = (await broker.topics.create(TopicSpec("other", 1))).partitions[0]
        append(other.log, 1)
        meeting = Meeting(segments=5)
        monkeypatch.setattr(system, "open_file", meeting.open_file)
        await log_directories_of(broker.storage).move(
            the_partition(broker).topic_partition, str(tmp_path / "b")
        )
        await eventually(meeting.copying.is_set)
        monkeypatch.setattr(system, "pwrite", meeting.pwrite)
        append(other.log, 1)
        assert meeting.met.is_set()
        await eventually(lambda: not broker.storage.moves_under_way)  # type: ignore[attr-defined]
        append(other.log, 1)
        assert all_offsets(other.log) == [0, 1, 2]
        assert not broker.storage.failed_partitions


async def test_release_idle_in_a_thread_closes_idle_files_on_the_event_loop(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        store = the_partition(broker).store
        append(the_partition(broker), 1)
        release = store.log.services.release_idle  # type: ignore[attr-defined]
        segment = store.log.segments.active  # type: ignore[attr-defined]
        await trio.to_thread.run_sync(release)
        await trio.to_thread.run_sync(release)
        await eventually(lambda: segment.log is None)


class WaitingMove:
    """A move that is decided, and whose swap has to wait for a reader forever."""

    partition = TopicPartition("t", 0)
    name = "t-0.future"
    source = SimpleNamespace(id_bytes=b"source", path=Path("source"))
    target = SimpleNamespace(id_bytes=b"target", path=Path("target"), futures={})
    cancelled = decided = False
    is_in_sync = True

    def wanted(self) -> bool:
        return True

    def copy_some(self, limit: int) -> int:
        return 0

    def join(self) -> bool:
        return True

    def swap(self) -> bool:
        return False

    def make_durable(self) -> None:
        """Nothing was copied."""

    begin_swap = end = make_durable


async def test_a_move_that_is_cancelled_before_its_swap_leaves_the_partition_to_its_source() -> None:
    assigned: list[bytes] = []

    async def assign(_partition: TopicPartition, directory: bytes) -> None:
        await trio.lowlevel.checkpoint()
        assigned.append(directory)

    moves = ReplicaMoves(assign, lambda _partition, _path: None, lambda: 1 << 30)
    moves.begin(cast("ReplicaMove", WaitingMove()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(moves.run_next)
        await eventually(lambda: bool(assigned))
        nursery.cancel_scope.cancel()
    assert assigned == [b"target", b"source"]
