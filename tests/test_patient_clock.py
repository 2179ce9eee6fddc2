"""Clocks that jump wait for threads."""

from __future__ import annotations

import threading

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests import patient_clock
from tests.deadlines import DEADLINE_S


async def test_a_clock_does_not_jump_while_a_thread_works(autojump_clock: MockClock) -> None:
    may_end = threading.Event()
    order: list[str] = []

    async def time_out() -> None:
        await trio.sleep(1)
        order.append("time")

    async def work() -> None:
        await trio.to_thread.run_sync(may_end.wait, DEADLINE_S)
        order.append("thread")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        nursery.start_soon(time_out)
        threading.Timer(0.05, may_end.set).start()
    assert order == ["thread", "time"]
    assert trio.current_time() == autojump_clock.current_time()


async def test_a_clock_jumps_at_last_although_a_thread_hangs(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_clock, "PATIENCE_S", 0.01)
    may_end = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, may_end.wait, DEADLINE_S)
        await wait_all_tasks_blocked()
        await trio.sleep(100)
        may_end.set()
    assert autojump_clock.current_time() >= 100
