"""Deadlines: each callback once, at its newest time, and a heap that does not grow."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncGenerator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.plugins.coordinator.runtime import deadlines as module
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines


class Calls:
    """Callbacks that note their name and when they were called, in milliseconds since the start."""

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines
        self.start_ms = deadlines.now_ms()
        self.made: list[tuple[str, int]] = []

    def at(self, key: str, in_ms: int) -> None:
        """Schedule `key`."""
        self.deadlines.schedule(key, self.start_ms + in_ms, lambda: self.note(key))

    def by(self, key: str, in_ms: int) -> None:
        """Schedule `key` unless it is earlier."""
        self.deadlines.schedule_by(key, self.start_ms + in_ms, lambda: self.note(key))

    def note(self, key: str) -> None:
        """A callback was called."""
        self.made.append((key, self.deadlines.now_ms() - self.start_ms))


@pytest.fixture
async def calls() -> AsyncGenerator[Calls]:
    """Deadlines that are being served."""
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        yield Calls(deadlines)
        nursery.cancel_scope.cancel()


async def test_schedule_serves_callbacks_in_the_order_of_their_times(
    autojump_clock: MockClock, calls: Calls
) -> None:
    calls.at("c", 300)
    calls.at("a", 100)
    calls.at("b", 100)
    await trio.sleep(0.2)
    calls.at("d", 250)
    await trio.sleep(1)
    assert calls.made == [("a", 100), ("b", 100), ("d", 250), ("c", 300)]
    assert len(calls.deadlines) == 0


async def test_schedule_moves_the_deadline_of_a_key_later_or_earlier(
    autojump_clock: MockClock, calls: Calls
) -> None:
    calls.at("later", 100)
    calls.at("later", 500)
    calls.at("sooner", 500)
    calls.at("sooner", 50)
    calls.at("to and fro", 400)
    calls.at("to and fro", 10)
    calls.at("to and fro", 300)
    await trio.sleep(1)
    assert calls.made == [("sooner", 50), ("to and fro", 300), ("later", 500)]


async def test_schedule_by_keeps_an_earlier_deadline_of_the_key(
    autojump_clock: MockClock, calls: Calls
) -> None:
    calls.by("new", 70)
    calls.at("earlier", 10)
    calls.by("earlier", 20)
    calls.at("put off", 10)
    calls.at("put off", 90)
    calls.by("put off", 80)
    await trio.sleep(1)
    assert calls.made == [("earlier", 10), ("new", 70), ("put off", 80)]


async def test_cancel_of_a_deadline_that_is_set_again(autojump_clock: MockClock, calls: Calls) -> None:
    calls.at("a", 100)
    calls.at("b", 100)
    calls.deadlines.cancel("a")
    calls.deadlines.cancel("unknown")
    calls.at("c", 50)
    calls.deadlines.cancel("c")
    calls.at("c", 200)
    await trio.sleep(1)
    assert calls.made == [("b", 100), ("c", 200)]


async def test_a_time_that_has_passed_is_served_at_once(autojump_clock: MockClock, calls: Calls) -> None:
    calls.at("past", -5000)
    await wait_all_tasks_blocked()
    assert calls.made == [("past", 0)]


async def test_callbacks_may_schedule(autojump_clock: MockClock, calls: Calls) -> None:
    def again() -> None:
        calls.note("first")
        calls.at("second", 30)

    calls.deadlines.schedule("first", calls.start_ms + 20, again)
    await trio.sleep(1)
    assert calls.made == [("first", 20), ("second", 30)]


async def test_deadlines_run_logs_a_failed_callback_and_serves_the_others(
    autojump_clock: MockClock, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("no luck")

    calls.deadlines.schedule("bad", calls.start_ms + 10, fail)
    calls.at("good", 10)
    with caplog.at_level(logging.ERROR):
        await trio.sleep(1)
    assert calls.made == [("good", 10)]
    assert "'bad'" in caplog.text


async def test_deadlines_run_serves_many_callbacks_that_are_due_at_once_beside_others(
    autojump_clock: MockClock, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    names = [str(number) for number in range(100)]
    for name in names:
        calls.at(name, 10)
    await trio.sleep(0.010)
    seen = [len(calls.made)]
    while len(calls.made) < len(names):
        await trio.lowlevel.checkpoint()
        seen.append(len(calls.made))
    assert [name for name, _ in calls.made] == names
    assert max(after - before for before, after in itertools.pairwise(seen)) <= 2


async def test_heartbeats_leave_one_place_and_cancelled_ones_go(
    autojump_clock: MockClock, calls: Calls
) -> None:
    heap = calls.deadlines._heap  # pyright: ignore[reportPrivateUsage]
    for beat in range(1000):
        calls.at("member", 1000 + beat)
    assert len(heap) == 1
    for number in range(1000):
        calls.at(str(number), 500)
        calls.deadlines.cancel(str(number))
    heap = calls.deadlines._heap  # pyright: ignore[reportPrivateUsage]
    assert len(heap) <= module.SPARE_PLACES + 3
    await trio.sleep(2)
    assert calls.made == [("member", 1999)]


async def test_run_waits_for_a_clock_that_stands_still(mock_clock: MockClock) -> None:
    """As the event loop's does while it is held: what is due by trio's clock is not served."""
    lost = 0.0
    deadlines = Deadlines(lambda: trio.current_time() - lost)
    calls = Calls(deadlines)
    calls.at("session", 45_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        await wait_all_tasks_blocked()
        mock_clock.jump(60)
        lost = 59.0
        await wait_all_tasks_blocked()
        assert calls.made == []
        mock_clock.jump(44)
        await wait_all_tasks_blocked()
        assert calls.made == [("session", 45_000)]
        nursery.cancel_scope.cancel()
