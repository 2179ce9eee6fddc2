"""Log directories that fail: the others lose nothing and go on; a repaired one is back after a restart."""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.plugins.storage_file.files import (
    CLEAN_MARK,
    eventually,
    log_directories_of,
)
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import FileRegion, TopicPartition
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.storage.harness import read_all
from tidelog.plugins.storage_file.directories.failed_directories import FailureChannel
from tidelog.plugins.storage_file.directories.lock import DirectoryLock
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.testing import FailingDisk

PARTITIONS = 4


@pytest.fixture
def disk() -> Generator[FailingDisk]:
    """A disk that works until it is told not to."""
    failing = FailingDisk()
    with failing.installed():
        yield failing


def settings(place: Path, **more: object) -> dict[str, object]:
    return {
        "storage": "file",
        "log.dirs": f"{place / 'a'},{place / 'b'}",
        "metadata.log.dir": str(place / "meta"),
        **more,
    }


@asynccontextmanager
async def two_directories(place: Path, **more: object) -> AsyncGenerator[Broker]:
    async with running_broker(settings(place, **more)) as broker:
        if broker.topics.find("t") is None:
            await broker.topics.create(TopicSpec("t", PARTITIONS))
        yield broker


def in_directory(broker: Broker, place: Path, name: str) -> list[UnifiedLog]:
    """Partitions of the topic that lie in one of the directories."""
    logs = [partition.log for partition in broker.topics.get("t").partitions]
    return [each for each in logs if (place / name / str(each.topic_partition)).exists()]


def append_to(partition: UnifiedLog, count: int = 3) -> None:
    for _ in range(count):
        partition.append_nowait(make_batch([b"value"]))


def below(place: Path) -> object:
    return lambda path: str(path).startswith(f"{place}/") or path == str(place)


async def fail_on_append(disk: FailingDisk, place: Path, number: int, partition: UnifiedLog) -> None:
    disk.refuse(number, ["pwrite"], paths=below(place))  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        append_to(partition, 1)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
async def test_disk_failed_takes_one_directory_offline_while_the_other_is_served(
    tmp_path: Path, disk: FailingDisk, number: int
) -> None:
    async with two_directories(tmp_path) as broker:
        lost, kept = (in_directory(broker, tmp_path, name) for name in "ab")
        assert len(lost) == len(kept) == PARTITIONS // 2
        for partition in (*lost, *kept):
            append_to(partition)
        await fail_on_append(disk, tmp_path / "a", number, lost[0])
        await eventually(lambda: all(each.offline is not None for each in lost))
        disk.recover()
        for partition in lost:
            with pytest.raises(StorageError, match=rf"{partition.topic_partition} is offline: .*a failed"):
                partition.append_nowait(make_batch([b"late"]))
            with pytest.raises(StorageError):
                partition.read(0, 1000, Isolation.READ_UNCOMMITTED)
            with pytest.raises(StorageError):
                partition.availability.check()
            # The disk is well again, and nothing touches it.
            with pytest.raises(OSError, match="a failed"):
                partition.store.write_side_file("00000000000000000009.snapshot", b"late")
        for partition in kept:
            append_to(partition)
            assert partition.log_end_offset == 6
        # Its lock is let go of, so that whoever repairs it can.
        await eventually(lambda: can_be_locked(tmp_path / "a"))
        await broker.topics.create(TopicSpec("later", 2))
        assert not list((tmp_path / "a").glob("later-*"))
    assert not (tmp_path / "a" / CLEAN_MARK).exists()
    assert (tmp_path / "b" / CLEAN_MARK).exists()
    async with two_directories(tmp_path) as broker:
        ends = sorted(each.log.log_end_offset for each in broker.topics.get("t").partitions)
        assert ends == [3, 3, 6, 6]
        for each in broker.topics.get("t").partitions:
            append_to(each.log, 1)


def can_be_locked(directory: Path) -> bool:
    try:
        DirectoryLock(directory).release()
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("operation", ["pwrite", "preadv"])
async def test_an_error_of_the_disk_at_any_append_or_read_takes_the_directory_down(
    tmp_path: Path, disk: FailingDisk, operation: str
) -> None:
    async with two_directories(tmp_path) as broker:
        lost = in_directory(broker, tmp_path, "a")[0]
        append_to(lost)
        disk.refuse(errno.EIO, [operation], paths=below(tmp_path / "a"))  # type: ignore[arg-type]
        fails: dict[str, Callable[[], object]] = {
            "pwrite": lambda: append_to(lost),
            "preadv": lambda: lost.read(1, 1, Isolation.READ_UNCOMMITTED, wait=True),
        }
        with pytest.raises(StorageError):
            fails[operation]()
        await eventually(lambda: lost.offline is not None)
        disk.recover()


async def test_an_error_of_the_disk_while_a_region_is_sent_takes_the_directory_down(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as broker:
        lost = in_directory(broker, tmp_path, "a")[0]
        append_to(lost)
        (region,) = lost.read(0, 1000, Isolation.READ_UNCOMMITTED, wait=True).regions
        assert isinstance(region, FileRegion)
        region.file.report_error(OSError(errno.EIO, "Input/output error"))
        await eventually(lambda: lost.offline is not None)


async def test_a_directory_that_fails_again_and_again_is_taken_once(tmp_path: Path) -> None:
    first, second = (LogDirectory(tmp_path / name) for name in "ab")
    channel = FailureChannel(2)
    for reason in ("read", "write", "flush"):
        channel.offer(first, reason)
    channel.offer(second, "gone")
    assert [await channel.take() for _ in range(2)] == [(first, "read"), (second, "gone")]
    with trio.move_on_after(0):
        assert await channel.take() is None
    for directory in (first, second):
        directory.release()


async def test_a_flush_that_fails_acknowledges_nothing_and_takes_its_directory_down(
    tmp_path: Path, disk: FailingDisk
) -> None:
    more = {"log.flush.interval.messages": 1}
    async with two_directories(tmp_path, **more) as broker:
        lost, kept = (in_directory(broker, tmp_path, name)[0] for name in "ab")
        for partition in (lost, kept):
            result = partition.append_nowait(make_batch([b"first"]))
            await partition.wait_flushed(result.last_offset)
        disk.refuse(errno.EIO, ["sync_data"], paths=below(tmp_path / "a"))  # type: ignore[arg-type]
        result = lost.append_nowait(make_batch([b"never acknowledged"]))
        with pytest.raises(StorageError):
            await lost.wait_flushed(result.last_offset)
        await eventually(lambda: len(broker.storage.failed_partitions) == PARTITIONS // 2)
        result = kept.append_nowait(make_batch([b"second"]))
        await kept.wait_flushed(result.last_offset)
        assert kept.high_watermark == 2
        assert lost.high_watermark == 1


async def test_a_directory_that_fails_while_the_broker_stops_is_not_taken_for_the_last_one(
    tmp_path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, release = threading.Event(), LogDirectory.release

    def release_after_the_others(directory: LogDirectory) -> None:
        if directory.path.name == "a":
            released.wait(DEADLINE_S)
        else:
            released.set()
        release(directory)

    monkeypatch.setattr(LogDirectory, "release", release_after_the_others)
    async with two_directories(tmp_path) as broker:
        lost = in_directory(broker, tmp_path, "a")
        await fail_on_append(disk, tmp_path / "a", errno.EIO, lost[0])
        await eventually(lambda: len(broker.storage.failed_partitions) == len(lost))


async def test_fail_directory_is_recorded_in_the_metadata_log(tmp_path: Path, disk: FailingDisk) -> None:
    async with two_directories(tmp_path) as broker:
        image = broker.metadata.records  # type: ignore[attr-defined]
        lost = in_directory(broker, tmp_path, "a")
        numbers = {each.topic_partition.partition for each in lost}
        assert len(image.brokers[1].log_dirs) == 2
        await fail_on_append(disk, tmp_path / "a", errno.EIO, lost[0])
        disk_of = image.find_topic("t").partitions
        await eventually(lambda: all(disk_of[number].leader == -1 for number in numbers))
        assert {number for number, each in disk_of.items() if each.leader == 1} == set(range(4)) - numbers
        assert len(image.brokers[1].log_dirs) == 1
        disk.recover()
    async with two_directories(tmp_path) as broker:
        image = broker.metadata.records  # type: ignore[attr-defined]
        assert all(each.leader == 1 for each in image.find_topic("t").partitions.values())
        assert len(image.brokers[1].log_dirs) == 2


async def test_no_room_refuses_an_append_and_takes_nothing_down(tmp_path: Path, disk: FailingDisk) -> None:
    async with two_directories(tmp_path) as broker:
        (full, *_) = in_directory(broker, tmp_path, "a")
        await fail_on_append(disk, tmp_path / "a", errno.ENOSPC, full)
        disk.recover()
        await trio.testing.wait_all_tasks_blocked(0.05)
        append_to(full)
        assert not broker.storage.failed_partitions


async def test_a_side_file_that_cannot_be_written_takes_the_directory_down(
    tmp_path: Path, disk: FailingDisk
) -> None:
    async with two_directories(tmp_path) as broker:
        (lost, *_) = in_directory(broker, tmp_path, "a")
        disk.refuse(errno.EIO, ["rename"], paths=below(tmp_path / "a"))  # type: ignore[arg-type]
        # The first batch of an epoch has the epoch written beside the log.
        append_to(lost)
        await eventually(lambda: lost.offline is not None)
        disk.recover()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
async def test_disk_failed_keeps_the_directory_online_after_emfile_or_enomem(
    tmp_path: Path, disk: FailingDisk, number: int
) -> None:
    async with two_directories(tmp_path) as broker:
        (one, *_) = in_directory(broker, tmp_path, "a")
        disk.refuse(number, ["open_file", "pwrite"], paths=below(tmp_path / "a"))  # type: ignore[arg-type]
        with pytest.raises(StorageError):
            append_to(one)
        disk.recover()
        await trio.testing.wait_all_tasks_blocked(0.05)
        append_to(one)


async def test_take_next_halts_the_broker_when_the_last_log_directory_fails(
    tmp_path: Path, disk: FailingDisk
) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(StorageError, match=r"halted: all log directories have failed"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        async with two_directories(tmp_path) as broker:
            for name in "ab":
                (partition, *_) = in_directory(broker, tmp_path, name)
                await fail_on_append(disk, tmp_path / name, errno.EIO, partition)
            with trio.fail_after(DEADLINE_S):
                await broker.wait_stop_requested()
            assert broker.halted
            disk.recover()


async def test_take_next_halts_the_broker_when_the_metadata_log_directory_fails(
    tmp_path: Path, disk: FailingDisk
) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(StorageError, match=r"which has the metadata log, failed"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        async with two_directories(tmp_path) as broker:
            disk.refuse(errno.EIO, ["sync_data"], paths=below(tmp_path / "meta"))  # type: ignore[arg-type]
            with pytest.raises(StorageError):
                await broker.topics.create(TopicSpec("never", 1))
            with trio.fail_after(DEADLINE_S):
                await broker.wait_stop_requested()
            disk.recover()


async def test_log_directories_open_takes_an_unusable_directory_offline_until_repaired(
    tmp_path: Path,
) -> None:
    async with two_directories(tmp_path) as broker:
        for partition in broker.topics.get("t").partitions:
            append_to(partition.log)
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    (tmp_path / "a").write_text("not a directory")
    async with two_directories(tmp_path) as broker:
        failed = broker.storage.failed_partitions
        assert len(failed) == PARTITIONS // 2
        for partition in broker.topics.get("t").partitions:
            if partition.topic_partition in failed:
                assert isinstance(partition.log.offline, StorageError)
            else:
                assert len(read_all(partition.log.store)) > 0
                append_to(partition.log)
        views = {view.path: view for view in await log_directories_of(broker.storage).describe()}
        assert "cannot be used" in (views[str(tmp_path / "a")].failure or "")
        assert views[str(tmp_path / "b")].failure is None
        await broker.topics.create(TopicSpec("later", 2))
        # Something for the metadata of a partition that is offline does not bring it back.
        await broker.topics.alter_config("t", lambda _: {"segment.ms": "1000000"})
    (tmp_path / "a").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "a")
    async with two_directories(tmp_path) as broker:
        assert not broker.storage.failed_partitions
        assert sorted(each.log.log_end_offset for each in broker.topics.get("t").partitions) == [3, 3, 6, 6]


async def test_open_partitions_takes_a_directory_offline_that_fails_during_recovery(
    tmp_path: Path, disk: FailingDisk
) -> None:
    async with two_directories(tmp_path) as broker:
        for each in broker.topics.get("t").partitions:
            append_to(each.log)
    (tmp_path / "a" / CLEAN_MARK).unlink()
    logs = (f"{tmp_path}/a/t-",)
    disk.refuse(errno.EIO, ["pread", "preadv", "scandir"], paths=lambda path: path.startswith(logs))
    async with two_directories(tmp_path) as broker:
        assert len(broker.storage.failed_partitions) == PARTITIONS // 2
        for partition in in_directory(broker, tmp_path, "b"):
            append_to(partition)
        disk.recover()
    async with two_directories(tmp_path) as broker:
        assert sorted(each.log.log_end_offset for each in broker.topics.get("t").partitions) == [3, 3, 6, 6]


async def test_delete_partitions_with_failed_directories_is_finished_at_the_next_start(
    tmp_path: Path, disk: FailingDisk
) -> None:
    async with two_directories(tmp_path) as broker:
        (lost, *_) = in_directory(broker, tmp_path, "a")
        append_to(lost)
        await fail_on_append(disk, tmp_path / "a", errno.EIO, lost)
        await eventually(lambda: lost.offline is not None)
        disk.recover()
        await broker.topics.delete("t")
        assert broker.storage.failed_partitions == {}
        assert list((tmp_path / "a").glob("t-?"))
    async with running_broker(settings(tmp_path)):
        assert not list((tmp_path / "a").glob("t-?"))


async def test_choose_metadata_directory_refuses_a_new_log_while_a_directory_is_offline(
    tmp_path: Path,
) -> None:
    values = {"storage": "file", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_broker(values):
        pass
    (tmp_path / "a").rename(tmp_path / "elsewhere")
    (tmp_path / "a").write_text("not a directory")
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigError, match="the metadata log may be in a log directory that is offline"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        async with running_broker(values):
            raise AssertionError("it started")
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


async def test_a_checkpoint_that_cannot_be_written_takes_its_directory_down(
    tmp_path: Path, disk: FailingDisk
) -> None:
    quick = {"log.initial.task.delay.ms": 0, "log.flush.offset.checkpoint.interval.ms": 20}
    async with two_directories(tmp_path, **quick) as broker:
        (lost, *_), (kept, *_) = (in_directory(broker, tmp_path, name) for name in "ab")
        checkpoint = f"{tmp_path}/a/recovery-point"
        disk.refuse(errno.EIO, ["open_file"], paths=lambda path: path.startswith(checkpoint))
        append_to(lost)
        # The checkpoint may be written, and fail, before this flush is done.
        with suppress(StorageError):
            await lost.flush()
        await eventually(lambda: lost.offline is not None)
        disk.recover()
        append_to(kept)
        await kept.flush()
        written = tmp_path / "b/recovery-point-offset-checkpoint"
        name = kept.topic_partition
        assert isinstance(name, TopicPartition)
        await eventually(
            lambda: written.exists() and f"{name.topic} {name.partition} 3" in written.read_text()
        )
