"""Flushing: what has to be durable before it is acknowledged, one flush for all who wait, and its failure."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tests.kernel.log.parts import batch_of, follow, new_store, open_partition
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.seams.partition import AppendWaiter

NEVER_FLUSHED = TopicConfig()


class Disk:
    """Flushes that end when the test says so, and fail when it says so."""

    def __init__(self, end: Callable[[], int]) -> None:
        self.flushes = 0
        self.failure: Exception | None = None
        self.may_end = threading.Semaphore(0)
        self.begun = threading.Event()
        self._end = end

    def flush(self) -> int:
        end = self._end()
        self.flushes += 1
        self.begun.set()
        assert self.may_end.acquire(timeout=DEADLINE_S)
        if self.failure is not None:
            raise self.failure
        return end

    async def wait_begun(self) -> None:
        """Wait until a flush has begun that did not when this was last called."""
        assert await trio.to_thread.run_sync(self.begun.wait, DEADLINE_S)
        self.begun.clear()


def partition_on(flush_messages: int) -> tuple[UnifiedLog, Disk]:
    store = new_store()
    disk = Disk(lambda: store.log_end_offset)
    store.flush = disk.flush  # type: ignore[method-assign]
    return open_partition(store, TopicConfig({"flush.messages": flush_messages})), disk


async def wait_visible(partition: UnifiedLog, end_offset: int) -> None:
    """As a long poll does: wait until the high watermark is at `end_offset`."""
    with trio.fail_after(DEADLINE_S):
        while partition.high_watermark < end_offset:
            grown = trio.Event()
            waiter = AppendWaiter(1, grown.set)
            partition.add_waiter(waiter)
            await grown.wait()
            partition.remove_waiter(waiter)


@asynccontextmanager
async def producer_that_leaves(partition: UnifiedLog, count: int = 1) -> AsyncGenerator[trio.CancelScope]:
    """One that waits for what it appended, until it is cancelled."""
    async with trio.open_nursery() as producer:
        for _ in range(count):
            producer.start_soon(partition.wait_flushed, partition.append_nowait(batch_of(1)).last_offset)
        await wait_all_tasks_blocked()
        yield producer.cancel_scope


def test_wait_flushed_without_flush_messages_returns_immediately() -> None:
    partition = open_partition()
    assert not partition.append_nowait(batch_of(1)).flush_due
    assert partition.high_watermark == 1


async def test_high_watermark_is_raised_when_a_batch_is_durable() -> None:
    partition, disk = partition_on(flush_messages=1)
    result = partition.append_nowait(batch_of(2))
    assert result.flush_due
    assert partition.log_end_offset == 2
    assert partition.high_watermark == 0
    assert not partition.read(0, 100, Isolation.READ_UNCOMMITTED).size
    disk.may_end.release()
    await partition.wait_flushed(result.last_offset)
    assert partition.high_watermark == partition.last_stable_offset == 2
    assert partition.read(0, 100, Isolation.READ_UNCOMMITTED).size


async def test_wait_flushed_is_served_by_one_flush_for_all() -> None:
    partition, disk = partition_on(flush_messages=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partition.wait_flushed, partition.append_nowait(batch_of(1)).last_offset)
        await disk.wait_begun()
        for _ in range(20):  # these come while the first flush is under way, which cannot hold them
            nursery.start_soon(partition.wait_flushed, partition.append_nowait(batch_of(1)).last_offset)
        await wait_all_tasks_blocked()
        disk.may_end.release(2)
    assert disk.flushes == 2
    assert partition.high_watermark == 21


async def test_wait_flushed_of_appends_in_one_turn_is_one_flush() -> None:
    partition, disk = partition_on(flush_messages=1)
    offsets = [partition.append_nowait(batch_of(1)).last_offset for _ in range(10)]
    disk.may_end.release()
    await partition.wait_flushed(offsets[-1])
    assert (disk.flushes, partition.high_watermark) == (1, 10)


async def test_wait_flushed_starts_no_unnecessary_flush() -> None:
    partition, disk = partition_on(flush_messages=2)
    disk.may_end.release(100)
    for end in range(2, 12, 2):
        await partition.wait_flushed(partition.append_nowait(batch_of(2)).last_offset)
        await wait_all_tasks_blocked(0.001)
        assert (disk.flushes, partition.high_watermark) == (end // 2, end)


async def test_wait_flushed_does_not_wait_for_later_appends() -> None:
    partition, disk = partition_on(flush_messages=1)
    first = partition.append_nowait(batch_of(1)).last_offset
    await disk.wait_begun()
    partition.append_nowait(batch_of(1))
    disk.may_end.release()
    with trio.fail_after(DEADLINE_S):
        await partition.wait_flushed(first)
    assert partition.high_watermark == 1
    disk.may_end.release()
    await wait_visible(partition, 2)


async def test_flush_messages_of_several_records() -> None:
    partition, disk = partition_on(flush_messages=3)
    assert [partition.append_nowait(batch_of(1)).flush_due for _ in range(3)] == [False, False, True]
    assert partition.high_watermark == 2
    disk.may_end.release()
    await partition.wait_flushed(2)
    assert partition.high_watermark == 3
    assert not partition.append_nowait(batch_of(1)).flush_due


class Steps(trio.abc.Instrument):
    """Counts the steps of tasks by their names."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count[task.name] += 1


async def test_the_end_of_a_flush_wakes_those_alone_that_it_reached() -> None:
    partition, disk = partition_on(flush_messages=1)
    steps = Steps()
    async with trio.open_nursery() as nursery:
        first = partition.append_nowait(batch_of(1)).last_offset
        nursery.start_soon(partition.wait_flushed, first, name="first")
        await disk.wait_begun()
        later = [partition.append_nowait(batch_of(1)).last_offset for _ in range(3)]
        for offset in later:
            nursery.start_soon(partition.wait_flushed, offset, name="later")
        await wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(steps)
        disk.may_end.release()
        await disk.wait_begun()
        await wait_all_tasks_blocked()
        assert (steps.count["first"], steps.count["later"]) == (1, 0)
        disk.may_end.release()
    trio.lowlevel.remove_instrument(steps)
    assert steps.count["later"] == 3
    assert partition.high_watermark == 4


# Whoever waits may leave


async def test_append_is_flushed_and_visible_without_wait_flushed() -> None:
    partition, disk = partition_on(flush_messages=1)
    partition.append_nowait(batch_of(1))
    disk.may_end.release()
    await wait_visible(partition, 1)
    assert partition.commit.durable_offset == 1


async def test_wait_flushed_that_is_cancelled_leaves_the_batch_to_become_visible() -> None:
    partition, disk = partition_on(flush_messages=1)
    partition.append_nowait(batch_of(1))
    await disk.wait_begun()
    async with producer_that_leaves(partition, 3) as leaving:
        leaving.cancel()
    assert partition.high_watermark == 0
    disk.may_end.release(2)
    await wait_visible(partition, 4)
    assert disk.flushes == 2


async def test_wait_flushed_that_is_cancelled_affects_no_other_waiter() -> None:
    partition, disk = partition_on(flush_messages=1)
    async with trio.open_nursery() as others:
        async with producer_that_leaves(partition) as leaving:
            others.start_soon(partition.wait_flushed, partition.append_nowait(batch_of(1)).last_offset)
            await wait_all_tasks_blocked()
            leaving.cancel()
        disk.may_end.release(2)
    assert partition.high_watermark == 2


async def test_append_marker_is_visible_after_the_flush_without_wait_flushed() -> None:
    partition, disk = partition_on(flush_messages=1)
    partition.append_marker(7, 0, 0, commit=True)
    disk.may_end.release()
    await wait_visible(partition, 1)
    assert partition.last_stable_offset == 1


async def test_what_is_not_due_any_more_is_shown_after_the_flush_under_way() -> None:
    """`flush.messages` was raised while the disk was busy."""
    partition, disk = partition_on(flush_messages=1)
    partition.append_nowait(batch_of(1))
    await disk.wait_begun()
    partition.append_nowait(batch_of(1))
    partition.configure(NEVER_FLUSHED)
    disk.may_end.release()
    await wait_visible(partition, 2)
    assert (disk.flushes, partition.commit.durable_offset) == (1, 1)


async def test_a_flush_that_a_truncation_overlaps_makes_nothing_durable_that_was_dropped() -> None:
    partition, disk = partition_on(flush_messages=100)
    for _ in range(5):
        partition.append_nowait(batch_of(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partition.commit.flush)
        await disk.wait_begun()
        await partition.truncate_to(2)
        # What takes the place of what was dropped is not flushed.
        for _ in range(6):
            partition.append_nowait(batch_of(1))
        disk.may_end.release()
    assert partition.commit.durable_offset == 2
    assert partition.has_unflushed


async def test_truncate_to_ends_the_wait_for_the_flush_of_what_it_dropped() -> None:
    partition, disk = partition_on(flush_messages=100)
    partition.append_nowait(batch_of(5))
    follow(partition)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partition.flush)
        await disk.wait_begun()
        await partition.truncate_to(0)
        partition.append_as_follower(batch_of(2))
        disk.may_end.release(3)
    assert disk.flushes <= 2


async def test_a_flush_moves_no_high_watermark_where_another_broker_leads() -> None:
    partition, disk = partition_on(flush_messages=100)
    follow(partition)
    partition.append_as_follower(batch_of(5))
    disk.may_end.release()
    await partition.flush()
    assert (partition.commit.durable_offset, partition.high_watermark) == (5, 0)


# Failure


async def test_wait_flushed_fails_after_a_failed_flush() -> None:
    partition, disk = partition_on(flush_messages=1)
    first = partition.append_nowait(batch_of(1))
    disk.failure = OSError(5, "Input/output error")
    disk.may_end.release()
    with pytest.raises(StorageError, match="Input/output error"):
        await partition.wait_flushed(first.last_offset)
    assert partition.high_watermark == 0
    disk.failure = None
    with pytest.raises(StorageError, match="Input/output error"):
        partition.append_nowait(batch_of(1))
    with pytest.raises(StorageError, match="earlier flush failed"):
        await partition.commit.flush()
    assert disk.flushes == 1


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), ValueError("a mistake of ours")])
async def test_wait_flushed_raises_for_all_waiters(failure: Exception) -> None:
    partition, disk = partition_on(flush_messages=1)
    failures: list[str] = []

    async def wait(offset: int) -> None:
        try:
            await partition.wait_flushed(offset)
        except StorageError as error:
            failures.append(str(error))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait, partition.append_nowait(batch_of(1)).last_offset)
        await wait_all_tasks_blocked()
        disk.failure = failure
        disk.may_end.release()
    (shown,) = set(failures)
    assert len(failures) == 3
    assert re.match(f"the disk refused to flush: .*{re.escape(str(failure))}", shown)


async def test_take_offline_after_a_failed_flush_without_waiters() -> None:
    partition, disk = partition_on(flush_messages=1)
    woken = trio.Event()
    partition.add_waiter(AppendWaiter(1, woken.set))
    partition.append_nowait(batch_of(1))
    disk.failure = OSError(5, "Input/output error")
    disk.may_end.release()
    with trio.fail_after(DEADLINE_S):
        await woken.wait()
    assert isinstance(partition.offline, StorageError)
    assert partition.high_watermark == 0


async def test_a_flush_that_failed_shows_nothing_though_it_is_not_due_any_more() -> None:
    partition, disk = partition_on(flush_messages=1)
    partition.append_nowait(batch_of(1))
    await disk.wait_begun()
    partition.configure(NEVER_FLUSHED)
    disk.failure = OSError(5, "Input/output error")
    disk.may_end.release()
    with pytest.raises(StorageError):
        await partition.flush()
    assert partition.high_watermark == 0
