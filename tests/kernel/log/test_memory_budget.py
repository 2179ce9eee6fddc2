"""The memory that unpacking may take: never more than there is, in the order of asking, and given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from tidelog.kernel.errors import InvalidRecord
from tidelog.kernel.log import record_checks
from tidelog.kernel.log.memory_budget import CHECKS, MemoryBudget, Unpacking
from tidelog.kernel.testing import FakeClock

from .parts import batch_of, changed, check_in_steps, compressed, open_partition

DEADLINE_S = 10.0
SNAPPY, ZSTD = 2, 4


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def test_acquire_check_is_a_checkpoint_only_if_none_is_free() -> None:
    unpacking, checked = Unpacking(), trio.Event()

    async def check() -> None:
        with assert_no_checkpoints():
            await unpacking.acquire_check()
        await checked.wait()
        unpacking.checks.release()

    async with trio.open_nursery() as nursery:
        for _ in range(CHECKS):
            nursery.start_soon(check)
        await wait_all_tasks_blocked()
        assert unpacking.checks.available_tokens == 0
        checked.set()
        await unpacking.acquire_check()
    unpacking.checks.release()


def test_try_hold_refuses_more_than_the_free_bytes() -> None:
    memory = MemoryBudget(100)
    assert memory.try_hold(60)
    assert not memory.try_hold(41)
    assert memory.try_hold(40)
    memory.release(60)
    memory.release(40)
    assert memory.free_bytes == 100


def test_hold_of_more_than_the_memory_budget_holds_all_of_it() -> None:
    memory = MemoryBudget(100)
    with memory.hold(1000):
        assert memory.free_bytes == 0
        assert not memory.try_hold(1)
    assert memory.free_bytes == 100


def test_hold_releases_memory_after_an_error() -> None:
    memory = MemoryBudget(100)
    with pytest.raises(InvalidRecord), memory.hold(10):
        raise InvalidRecord("wrong")
    assert memory.free_bytes == 100


def test_hold_serves_a_large_request_before_later_small_ones() -> None:
    """Otherwise what is large would wait for ever while there is always something small."""
    memory, got, threads = MemoryBudget(100), list[int](), list[threading.Thread]()
    assert memory.try_hold(50)

    def hold(size: int) -> None:
        with memory.hold(size):
            got.append(size)

    for size in (100, 20, 10):
        threads.append(threading.Thread(target=hold, args=(size,), daemon=True))
        threads[-1].start()
        until(lambda: memory.waiting == len(threads))
        assert not memory.try_hold(1)
    assert got == []
    memory.release(50)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert got[0] == 100
    assert sorted(got) == [10, 20, 100]
    assert memory.free_bytes == 100


@given(st.lists(st.integers(0, 150), max_size=20))
def test_memory_budget_is_never_exceeded_by_try_hold(sizes: list[int]) -> None:
    memory = MemoryBudget(100)
    held: list[int] = []
    for size in sizes:
        if memory.try_hold(size):
            held.append(size)
        elif held:
            memory.release(held.pop(0))
        assert memory.free_bytes == 100 - sum(min(each, 100) for each in held) >= 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_memory_budget_is_released_after_record_checks(codec: int) -> None:
    partition = open_partition()
    total = partition.unpacking.memory.free_bytes
    batch = compressed(batch_of(500), codec)
    wrong = changed(batch, record_count=501, last_offset_delta=500)
    await check_in_steps(partition, batch)
    with pytest.raises(InvalidRecord):
        await check_in_steps(partition, wrong)
    assert partition.unpacking.memory.free_bytes == total


@pytest.mark.parametrize("codec", [SNAPPY, ZSTD])
async def test_memory_budget_makes_record_checks_wait_without_blocking_the_event_loop(codec: int) -> None:
    partition = open_partition()
    memory = partition.unpacking.memory
    total = memory.free_bytes
    assert memory.try_hold(total)
    batch = compressed(batch_of(500), codec)
    ended: list[int] = []

    async def check() -> None:
        ended.append(await check_in_steps(partition, batch))

    async with trio.open_nursery() as nursery:
        for _ in range(2 * CHECKS):
            nursery.start_soon(check)
        await trio.to_thread.run_sync(until, lambda: memory.waiting == CHECKS)
        assert ended == []
        memory.release(total)
    assert len(ended) == 2 * CHECKS


async def test_those_who_hold_memory_find_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for what they hold, and must not have taken all threads for that."""
    monkeypatch.setattr(record_checks, "OTHERS_SECONDS", 0.0)
    partition = open_partition()
    unpacking = Unpacking(1024 * 1024)
    partition.unpacking = unpacking
    batches = [compressed(batch_of(3000), codec) for codec in (SNAPPY, ZSTD, SNAPPY, 1, 3) * 4]
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            for batch in batches:
                nursery.start_soon(check_in_steps, partition, batch)
    assert unpacking.memory.free_bytes == 1024 * 1024


def test_a_lookup_holds_memory_while_it_unpacks() -> None:
    partition = open_partition()
    partition.append_nowait(compressed(batch_of(100), ZSTD))
    memory = partition.unpacking.memory
    total = memory.free_bytes
    assert memory.try_hold(total)
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(partition.offset_for_timestamp(FakeClock().now_ms)), daemon=True
    )
    thread.start()
    until(lambda: memory.waiting == 1)
    assert found == []
    memory.release(total)
    thread.join(DEADLINE_S)
    assert found != []
    assert memory.free_bytes == total
