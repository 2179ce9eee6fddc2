"""Flushing: what has to be durable before it is acknowledged, one flush for all who wait, and its failure."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio

from tests.kernel.partition.parts import batch_of, new_store, open_partition
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.partition import Isolation, Partition
from tidelog.kernel.partition.group_commit import GroupCommit


class Disk:
    """Flushes that end when the test says so, and fail when it says so."""

    def __init__(self, end: Callable[[], int]) -> None:
        self.flushes = 0
        self.failure: OSError | None = None
        self.may_end = threading.Semaphore(0)
        self.begun = threading.Event()
        self._end = end

    def flush(self) -> int:
        end = self._end()
        self.flushes += 1
        self.begun.set()
        assert self.may_end.acquire(timeout=10)
        if self.failure is not None:
            raise self.failure
        return end


def partition_on(flush_messages: int) -> tuple[Partition, Disk]:
    partition = open_partition(new_store(), TopicConfig(flush_messages=flush_messages))
    disk = Disk(lambda: partition.log_end_offset)
    partition.commit = GroupCommit(0, disk.flush)
    return partition, disk


def test_without_flush_messages_nothing_waits() -> None:
    partition = open_partition()
    assert not partition.append(batch_of(1)).flush_due
    assert partition.high_watermark == 1


async def test_readers_see_a_batch_only_when_it_is_durable() -> None:
    partition, disk = partition_on(flush_messages=1)
    result = partition.append(batch_of(2))
    assert result.flush_due
    assert partition.log_end_offset == 2
    assert partition.high_watermark == 0
    assert not partition.read(0, 100, Isolation.READ_UNCOMMITTED).size
    disk.may_end.release()
    await partition.wait_flushed(result.last_offset)
    assert partition.high_watermark == partition.last_stable_offset == 2
    assert partition.read(0, 100, Isolation.READ_UNCOMMITTED).size


async def test_one_flush_serves_all_who_waited_when_it_began() -> None:
    partition, disk = partition_on(flush_messages=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partition.wait_flushed, partition.append(batch_of(1)).last_offset)
        await trio.to_thread.run_sync(disk.begun.wait, 10)
        for _ in range(20):  # these come while the first flush is under way, which cannot hold them
            nursery.start_soon(partition.wait_flushed, partition.append(batch_of(1)).last_offset)
        await trio.testing.wait_all_tasks_blocked()
        disk.may_end.release(2)
    assert disk.flushes == 2
    assert partition.high_watermark == 21


async def test_a_measure_of_several_records_flushes_when_it_is_full() -> None:
    partition, disk = partition_on(flush_messages=3)
    assert [partition.append(batch_of(1)).flush_due for _ in range(3)] == [False, False, True]
    assert partition.high_watermark == 2
    disk.may_end.release()
    await partition.wait_flushed(2)
    assert partition.high_watermark == 3
    assert not partition.append(batch_of(1)).flush_due


async def test_a_failed_flush_acknowledges_nothing_now_or_later() -> None:
    partition, disk = partition_on(flush_messages=1)
    first = partition.append(batch_of(1))
    disk.failure = OSError(5, "Input/output error")
    disk.may_end.release()
    with pytest.raises(StorageError, match="Input/output error"):
        await partition.wait_flushed(first.last_offset)
    assert partition.high_watermark == 0
    disk.failure = None
    with pytest.raises(StorageError, match="Input/output error"):
        partition.append(batch_of(1))
    with pytest.raises(StorageError, match="earlier flush failed"):
        await partition.commit.flush()
    assert disk.flushes == 1


async def test_all_who_wait_learn_of_the_failure() -> None:
    partition, disk = partition_on(flush_messages=1)
    failures: list[str] = []

    async def wait(offset: int) -> None:
        try:
            await partition.wait_flushed(offset)
        except StorageError as error:
            failures.append(str(error))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait, partition.append(batch_of(1)).last_offset)
        await trio.testing.wait_all_tasks_blocked()
        disk.failure = OSError(28, "No space left on device")
        disk.may_end.release()
    assert len(failures) == 3
