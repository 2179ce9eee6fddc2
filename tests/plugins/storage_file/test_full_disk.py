"""A full disk: appends are refused, all else works or waits, and room is all that is needed afterwards."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tests.metadata_changes import topics_of
from tests.plugins.storage_file.between_lines import between_lines
from tests.plugins.storage_file.files import CLEAN_MARK, eventually
from tidelog.kernel import disk
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.storage_file.directories.checkpoints import RECOVERY_POINT_CHECKPOINT
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.segments.segment import Segment
from tidelog.plugins.storage_file.testing import FailingDisk

TAKES_ROOM = ["pwrite", "preallocate", "mkdir"]
FILLED = 3


@pytest.fixture
def failing() -> Generator[FailingDisk]:
    """A disk that has room until it is told otherwise."""
    disk = FailingDisk()
    with disk.installed():
        yield disk


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """One directory; checkpoints are written all the time."""
    return {
        "storage": "file",
        "log.dirs": str(tmp_path / "d"),
        "log.initial.task.delay.ms": 0,
        "log.flush.offset.checkpoint.interval.ms": 10,
        "log.flush.start.offset.checkpoint.interval.ms": 10,
        "replica.high.watermark.checkpoint.interval.ms": 10,
    }


async def with_topic(broker: Broker, name: str = "t") -> UnifiedLog:
    """A topic with three records."""
    await broker.topics.create(TopicSpec(name, 1))
    partition = broker.topics.get(name).partitions[0]
    append(partition.log, FILLED)
    return partition.log


def append(partition: UnifiedLog, count: int = 1) -> None:
    for _ in range(count):
        partition.append_nowait(make_batch([b"value"]))


def refused(partition: UnifiedLog) -> bool:
    try:
        append(partition)
    except StorageError:
        return True
    return False


def readable(partition: UnifiedLog) -> int:
    """How many bytes can be read."""
    return partition.read(partition.log_start_offset, 1 << 20, Isolation.READ_UNCOMMITTED, wait=True).size


async def test_disk_failed_keeps_a_full_directory_in_service(
    settings: dict[str, object], failing: FailingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running_broker(settings) as broker:
        partition = await with_topic(broker)
        size = readable(partition)
        failing.refuse(errno.ENOSPC, TAKES_ROOM)
        for _ in range(3):
            assert refused(partition)
        partition.raise_log_start(2)
        await trio.lowlevel.checkpoint()
        with pytest.raises(StorageError, match="cannot be created"):
            await broker.topics.create(TopicSpec("u", 1))
        # Checkpoints, snapshots of the metadata and all other work in the background is refused meanwhile.
        seen = failing.refused
        await eventually(lambda: failing.refused > seen + 10)
        assert readable(partition) < size
        assert not broker.halted
        assert not broker.storage.failed_partitions
        failing.recover()
        append(partition)
        await broker.topics.create(TopicSpec("u", 1))
        checkpoint = Path(str(settings["log.dirs"])) / "log-start-offset-checkpoint"
        await eventually(lambda: checkpoint.exists() and "t 0 2" in checkpoint.read_text())
    assert caplog.text.count("is full: appends are refused") == 1
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


async def test_side_writes_that_a_full_disk_refuses_are_written_later(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("t", 1))
        partition = broker.topics.get("t").partitions[0]
        written = tmp_path / "d" / "t-0" / CHECKPOINT_NAME
        failing.refuse(errno.ENOSPC, ["open_file"], paths=lambda path: CHECKPOINT_NAME in path)
        append(partition.log)
        await eventually(lambda: failing.refused > 0)
        assert not written.exists()
        failing.recover()
        await eventually(written.exists)
        assert written.read_text() == "0\n1\n0 0\n"


@pytest.mark.parametrize("clean", [True, False])
async def test_a_stop_and_a_start_need_no_room(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path, clean: bool
) -> None:
    async with running_broker(settings) as broker:
        await with_topic(broker)
        if not clean:
            failing.refuse(errno.ENOSPC, TAKES_ROOM)
    assert (tmp_path / "d" / CLEAN_MARK).exists() is clean
    failing.refuse(errno.ENOSPC, TAKES_ROOM)
    async with running_broker(settings) as broker:
        partition = broker.topics.get("t").partitions[0]
        assert partition.log.log_end_offset == FILLED
        assert readable(partition.log)
        assert refused(partition.log)
        assert partition.is_leader
        with pytest.raises(StorageError, match="No space"):
            await broker.producer_ids.allocate()
        failing.recover()
        if not clean:
            # In a new leader epoch nothing is appended before it is on the disk.
            assert partition.leader_epoch > 0
        await eventually(lambda: not refused(partition.log))
        assert await broker.allocate_producer_id() >= 0
        assert broker.metadata.broker_epoch > 0
        (topic,) = topics_of(broker.metadata)
        assert topic.name == "t"
    assert (tmp_path / "d" / CLEAN_MARK).exists()


async def test_begin_durably_on_a_full_disk_refuses_appends_until_the_epoch_is_written(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    async with running_broker(settings) as broker:
        await with_topic(broker)
    (tmp_path / "d" / CLEAN_MARK).unlink()
    failing.refuse(errno.ENOSPC, ["pwrite"], paths=lambda path: CHECKPOINT_NAME in path)
    async with running_broker(settings) as broker:
        partition = broker.topics.get("t").partitions[0]
        with pytest.raises(StorageError, match="No space left on device: there was no room for leader-epoch"):
            append(partition.log)
        failing.recover()
        await eventually(lambda: not refused(partition.log))
        # The stop took epoch 1, the start leads in epoch 2, and has a later one as the stop was not clean.
        assert (tmp_path / "d" / "t-0" / CHECKPOINT_NAME).read_text() == "0\n2\n0 0\n3 3\n"


async def test_a_partition_that_cannot_be_opened_for_want_of_room_leaves_the_others_in_service(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    async with running_broker(settings) as broker:
        for name in "tu":
            await with_topic(broker, name)
    (tmp_path / "d" / CLEAN_MARK).unlink()
    failing.refuse(errno.ENOSPC, ["open_file"], paths=lambda path: "/t-0/" in path and "index" in path)
    async with running_broker(settings) as broker:
        offline, served = (broker.topics.get(name).partitions[0] for name in "tu")
        assert offline.log.offline is not None
        append(served.log)
        failing.recover()
    async with running_broker(settings) as broker:
        assert broker.topics.get("t").partitions[0].log.log_end_offset == FILLED


async def test_an_index_that_cannot_be_rebuilt_for_want_of_room_is_rebuilt_by_the_next_start(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    settings["log.index.interval.bytes"] = 0
    async with running_broker(settings) as broker:
        partition = await with_topic(broker)
        found = partition.offset_for_timestamp(0)
    index = tmp_path / "d" / "t-0" / "00000000000000000000.index"
    size = index.stat().st_size
    assert size
    for _ in range(2):
        (tmp_path / "d" / CLEAN_MARK).unlink()
        failing.refuse(errno.ENOSPC, ["pwrite"], paths=lambda path: "index" in path)
        async with running_broker(settings) as broker:
            partition = broker.topics.get("t").partitions[0].log
            assert partition.offset_for_timestamp(0) == found
            assert partition.log_end_offset == FILLED
            assert index.stat().st_size == 0
            failing.recover()
    async with running_broker(settings):
        assert index.stat().st_size >= size


async def test_write_forgotten_on_a_full_disk_is_owed_before_a_topic_gets_the_name(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    settings["log.flush.offset.checkpoint.interval.ms"] = 0
    settings["log.flush.start.offset.checkpoint.interval.ms"] = 0
    checkpoint = tmp_path / "d" / RECOVERY_POINT_CHECKPOINT
    async with running_broker(settings) as broker:
        await (await with_topic(broker)).flush()
        (directory,) = broker.storage._directories  # type: ignore[attr-defined]
        assert isinstance(directory, LogDirectory)
        directory.write_recovery_points()
        assert "t 0 3" in checkpoint.read_text()
        failing.refuse(errno.ENOSPC, ["open_file"], paths=lambda path: path.endswith(disk.TEMPORARY_SUFFIX))
        await broker.topics.delete("t")
        assert not (tmp_path / "d" / "t-0").exists()
        assert "t 0 3" in checkpoint.read_text()
        with pytest.raises(StorageError, match="cannot be created"):
            await broker.topics.create(TopicSpec("t", 1))
        failing.recover()
        await broker.topics.create(TopicSpec("t", 1))
        assert "t 0" not in checkpoint.read_text()


async def test_write_forgotten_that_is_refused_while_another_ends_is_owed(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    settings["log.flush.offset.checkpoint.interval.ms"] = 0
    settings["log.flush.start.offset.checkpoint.interval.ms"] = 0
    checkpoint = tmp_path / "d" / RECOVERY_POINT_CHECKPOINT
    async with running_broker(settings) as broker:
        for name in "tu":
            await (await with_topic(broker, name)).flush()
        (directory,) = broker.storage._directories  # type: ignore[attr-defined]
        assert isinstance(directory, LogDirectory)
        directory.write_recovery_points()
        failing.refuse(errno.ENOSPC, ["open_file"], paths=lambda path: path.endswith(disk.TEMPORARY_SUFFIX))
        await broker.topics.delete("t")
        failing.recover()

        def refuse_the_other() -> None:
            """As another thread that comes between two lines."""
            partition = TopicPartition("u", 0)
            is_locked = directory._writing.locked()  # pyright: ignore[reportPrivateUsage]
            if not is_locked and partition in directory.folders and "t 0" not in checkpoint.read_text():
                directory.folders.remove(partition)
                failing.refuse(errno.ENOSPC, ["open_file"])
                directory.write_forgotten()
                failing.recover()

        with between_lines(("directories/log_directory.py",), refuse_the_other):
            directory.write_owed()
            directory.write_owed()
        assert "t 0" not in checkpoint.read_text()
        assert "u 0" not in checkpoint.read_text()


async def test_a_flush_does_not_need_the_indexes_of_older_segments_to_be_completed(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(settings) as broker:
        partition = await with_topic(broker)
        await partition.roll()
        append(partition)
        with monkeypatch.context() as patch:
            patch.setattr(Segment, "finish", refuse_for_want_of_room)
            await partition.flush()
        assert not broker.storage.failed_partitions
        assert not partition.has_unflushed
        append(partition)
        await partition.flush()
        assert isinstance(partition.store, FilePartitionStore)
        assert not partition.store.log.segments.all[0].unfinished


def refuse_for_want_of_room(_: Segment) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_flush_that_finds_the_disk_full_takes_the_directory_down(
    settings: dict[str, object], failing: FailingDisk, tmp_path: Path
) -> None:
    # What was acknowledged to be written is lost, unlike after a write that was refused.
    settings |= {"metadata.log.dir": str(tmp_path / "m")}
    settings |= {"log.dirs": f"{tmp_path / 'd'},{tmp_path / 'e'}"}
    async with running_broker(settings) as broker:
        partition = await with_topic(broker)
        failing.refuse(errno.ENOSPC, ["sync_data"], paths=lambda path: "/t-0/" in path)
        with pytest.raises(StorageError, match="No space"):
            await partition.flush()
        await eventually(lambda: bool(broker.storage.failed_partitions))
        failing.recover()
