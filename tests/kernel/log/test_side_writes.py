"""Files beside a log that are written in the background never tell of what is not so any more."""

from __future__ import annotations

import errno
from uuid import uuid4

import pytest
import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, LeaderEpochLineage
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.flush_threads import FlushThreads
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.tasks import ManualTasks
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore


@pytest.fixture
def tasks() -> ManualTasks:
    """Background work that waits to be told."""
    return ManualTasks()


@pytest.fixture
def partition(tasks: ManualTasks) -> UnifiedLog:
    """A new partition that rolls every three batches."""
    clock = FakeClock()
    config = TopicConfig({"segment.bytes": 1000})
    store = MemoryPartitionStore(config, clock)
    return UnifiedLog(
        TopicPartition("t", 0),
        uuid4(),
        store,
        config,
        clock,
        tasks.in_thread,
        FlushThreads(tasks.run_shielded),
    )


def append(partition: UnifiedLog, count: int, size: int = 200) -> None:
    for _ in range(count):
        partition.append_nowait(make_batch([b"x" * size]))


def test_truncate_to_drops_snapshots_that_wait_to_be_written(
    partition: UnifiedLog, tasks: ManualTasks
) -> None:
    append(partition, 5)
    assert [view.base_offset for view in partition.store.segments()] == [0, 3]
    trio.run(partition.truncate_to, 1)
    append(partition, 5, size=400)
    tasks.run_jobs()
    assert [view.base_offset for view in partition.store.segments()] == [0, 2, 4]
    # One at offset 3 would tell of batches that were cut off.
    assert list(partition.store.side_files()) == [
        "00000000000000000002.snapshot",
        "00000000000000000004.snapshot",
        CHECKPOINT_NAME,
    ]


def test_truncate_to_an_offset_behind_the_end_drops_no_side_write(
    partition: UnifiedLog, tasks: ManualTasks
) -> None:
    append(partition, 5)
    trio.run(partition.truncate_to, 5)
    tasks.run_jobs()
    assert list(partition.store.side_files()) == ["00000000000000000003.snapshot", CHECKPOINT_NAME]


@pytest.mark.parametrize("written_before", [True, False])
def test_truncate_to_leaves_the_lineage_of_the_shorter_log_on_the_disk(
    partition: UnifiedLog, tasks: ManualTasks, written_before: bool
) -> None:
    for epoch in range(4):
        partition.leader_epoch = epoch
        append(partition, 1)
    if written_before:
        tasks.run_jobs()
    trio.run(partition.truncate_to, 2)
    content = partition.store.read_side_file(CHECKPOINT_NAME)
    assert content == b"0\n2\n0 0\n1 1\n"


def test_raise_log_start_truncates_lineage_and_snapshots(partition: UnifiedLog, tasks: ManualTasks) -> None:
    for epoch in range(10):
        partition.leader_epoch = epoch // 4
        append(partition, 1)
    tasks.run_jobs()
    assert partition.store.side_files()[:3] == [f"{offset:020}.snapshot" for offset in (3, 6, 9)]
    partition.raise_log_start(7)
    tasks.run_jobs()
    assert partition.store.read_side_file(CHECKPOINT_NAME) == b"0\n2\n1 7\n2 8\n"
    assert partition.store.side_files()[:-1] == [f"{offset:020}.snapshot" for offset in (6, 9)]


def test_truncate_to_removes_the_snapshots_above_it_from_the_disk(
    partition: UnifiedLog, tasks: ManualTasks
) -> None:
    append(partition, 10)
    tasks.run_jobs()
    trio.run(partition.truncate_to, 5)
    snapshots = [name for name in partition.store.side_files() if name != CHECKPOINT_NAME]
    assert snapshots == ["00000000000000000003.snapshot"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_side_writes_keep_the_newest_leader_epochs_in_any_order_of_jobs(
    partition: UnifiedLog, tasks: ManualTasks, newest_first: bool
) -> None:
    for epoch in range(4):
        partition.leader_epoch = epoch
        append(partition, 1)
    if newest_first:
        tasks.jobs.reverse()
    tasks.run_jobs()
    content = partition.store.read_side_file(CHECKPOINT_NAME)
    assert LeaderEpochLineage.decode(content or b"").entries() == [(epoch, epoch) for epoch in range(4)]


def test_an_epoch_that_is_owed_is_written_once_the_disk_takes_it_after_any_error(
    partition: UnifiedLog, tasks: ManualTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_with(number: int) -> None:
        def refuse(name: str, content: bytes) -> None:
            raise OSError(number, "refused")

        monkeypatch.setattr(partition.store, "write_side_file", refuse)

    append(partition, 1)
    tasks.run_jobs()
    refuse_with(errno.ENOSPC)
    partition.epochs.begin_durably(5, 1)
    partition.epochs.pay_soon()
    for number in (errno.EMFILE, errno.ENOMEM):
        refuse_with(number)
        with pytest.raises(OSError, match="refused"):
            tasks.run_jobs()
        with pytest.raises(StorageError, match="there was no room"):
            append(partition, 1)
    assert len(tasks.jobs) == 1
    with pytest.raises(StorageError, match="there was no room"):
        append(partition, 1)
    # Not once more for each append that is refused.
    assert len(tasks.jobs) == 1
    monkeypatch.undo()
    tasks.run_jobs()
    append(partition, 1)
    content = partition.store.read_side_file(CHECKPOINT_NAME)
    assert LeaderEpochLineage.decode(content or b"").entries() == [(0, 0), (5, 1)]


def test_truncate_to_writes_the_lineage_that_an_error_has_kept_from_the_disk(
    partition: UnifiedLog, tasks: ManualTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, content: bytes) -> None:
        raise OSError(errno.EMFILE, "refused")

    append(partition, 2)
    monkeypatch.setattr(partition.store, "write_side_file", refuse)
    with pytest.raises(OSError, match="refused"):
        tasks.run_jobs()
    monkeypatch.undo()
    trio.run(partition.truncate_to, 1)
    assert partition.store.read_side_file(CHECKPOINT_NAME) == b"0\n1\n0 0\n"


def test_side_writes_write_nothing_beside_a_partition_that_is_gone(
    partition: UnifiedLog, tasks: ManualTasks
) -> None:
    append(partition, 5)
    changed: list[str] = []
    partition.side_writes.run_soon("change", lambda: changed.append("files"))
    partition.take_offline()
    tasks.run_jobs()
    assert list(partition.store.side_files()) == []
    assert changed == []
