"""The monitor of the event loop: what held it is named once, and deadlines do not run meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock

from tests.deadlines import DEADLINE_S
from tidelog.kernel import loop_monitor as module
from tidelog.kernel.loop_monitor import (
    COUNTED_SECONDS,
    LoopClock,
    LoopMonitor,
    Sample,
    set_holder,
    take_sample,
)
from tidelog.kernel.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_MS = 40
HOLDER = "the task of this test"


class Clocks:
    """The two clocks of a `LoopClock`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.real = 7.0
        self.clock = LoopClock(lambda: self.now, lambda: self.real)

    def passes(self, seconds: float) -> None:
        """Both advance."""
        self.now += seconds
        self.real += seconds


@pytest.mark.parametrize(
    ("gaps", "passed"),
    [
        ([], 0.0),
        ([0.2, 0.3, 0.25], 0.75),
        ([60.0], COUNTED_SECONDS),
        ([0.1, 60.0, 0.1, 3600.0], 0.2 + 2 * COUNTED_SECONDS),
    ],
)
def test_loop_clock_does_not_run_while_the_loop_stands_still(gaps: list[float], passed: float) -> None:
    clocks = Clocks()
    clocks.clock.beat()
    for gap in gaps:
        clocks.passes(gap)
        before = clocks.clock()
        clocks.clock.beat()
        assert clocks.clock() == pytest.approx(before)
    assert clocks.clock() - 1000.0 == pytest.approx(passed)


def test_loop_clock_runs_without_beats() -> None:
    clocks = Clocks()
    clocks.passes(60)
    assert clocks.clock() == 1060
    clocks.clock.beat()
    clocks.clock.stop()
    clocks.passes(60)
    assert clocks.clock() == 1120


def test_loop_clock_follows_a_clock_that_a_test_makes_jump() -> None:
    clocks = Clocks()
    clocks.clock.beat()
    clocks.now += 45
    assert clocks.clock() == 1045
    clocks.clock.beat()
    assert clocks.clock() == 1045


async def hold_until(monitor: LoopMonitor, enough: Callable[[], bool]) -> None:
    """Hold the event loop in a task of its own, again and again: a busy machine may hide one hold."""

    async def holder() -> None:
        set_holder(HOLDER)
        while not enough():
            time.sleep(3 * LIMIT_MS / 1000)  # noqa: ASYNC251 that is the fault
            await trio.sleep(LIMIT_MS / 1000)

    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(monitor.run)
            async with trio.open_nursery() as inner:
                inner.start_soon(holder)
            nursery.cancel_scope.cancel()


async def test_loop_monitor_names_the_task_the_plugin_and_the_line(caplog: pytest.LogCaptureFixture) -> None:
    monitor = LoopMonitor(LIMIT_MS, {"tests.kernel": "of_tests", "tests": "too_general"})
    with caplog.at_level(logging.WARNING):
        await hold_until(monitor, lambda: any(HOLDER in each for each in caplog.messages))
    line = next(each for each in caplog.messages if HOLDER in each)
    assert line.startswith("the event loop was held for ")
    assert f"of CPU, by {HOLDER}, plugin of_tests, at tests.kernel.test_loop_monitor:" in line
    found = monitor.statistics()
    assert found.stalls >= 1
    assert found.stalled_ms >= found.longest_ms >= LIMIT_MS
    assert found.last
    assert found.last in line or len(caplog.messages) > 1


async def test_loop_monitor_logs_the_same_place_once(caplog: pytest.LogCaptureFixture) -> None:
    monitor = LoopMonitor(LIMIT_MS, {})
    with caplog.at_level(logging.WARNING):
        await hold_until(monitor, lambda: monitor.statistics().stalls >= 4)
    assert len([each for each in caplog.messages if HOLDER in each]) <= 1


@pytest.mark.parametrize(
    ("held", "cpu", "sample", "line"),
    [
        (
            0.010,
            0.008,
            Sample("a task", "", "a:1 (f)"),
            "held for 10 ms, 8 of them of CPU, by a task, at a:1 (f)",
        ),
        # What was executed before the hold began does not count.
        (0.010, 0.012, Sample("", "", "a:1 (f)"), "held for 10 ms, 10 of them of CPU, by a:1 (f)"),
        (0.010, 0.006, Sample(), "by several tasks, each in its turn"),
        (0.010, 0.001, Sample(), "by no task: the process was stopped, or not scheduled"),
    ],
)
def test_loop_monitor_tells_tasks_from_other_programs(
    held: float, cpu: float, sample: Sample, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = LoopMonitor(LIMIT_MS, {})
    monitor.report(held, cpu, sample)
    assert line in caplog.text
    assert monitor.statistics().longest_cpu_ms == pytest.approx(min(held, cpu) * 1000)


def test_loop_monitor_logs_the_longest_that_it_left_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "RateLimit", partial(RateLimit, now=lambda: now))
    monitor, sample = LoopMonitor(LIMIT_MS, {}), Sample("a task", "", "a:1 (f)")
    for held, cpu in ((0.01, 0.01), (0.03, 0.002), (0.02, 0.019)):
        monitor.report(held, cpu, sample)
    now = module.LOG_INTERVAL_SECONDS
    monitor.report(0.005, 0.005, sample)
    monitor.report(0.005, 0.005, Sample("another", "", "b:1 (f)"))
    first, second, other = caplog.messages
    assert "times more" not in first + other
    assert second.endswith("(and 2 times more before, for up to 30 ms, up to 19 of CPU)")


async def test_loop_monitor_without_a_limit_counts_nothing() -> None:
    monitor = LoopMonitor(0, {})
    before = threading.active_count()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(monitor.run)
        await trio.lowlevel.checkpoint()
        assert threading.active_count() == before
        time.sleep(2 * LIMIT_MS / 1000)  # noqa: ASYNC251 that is the fault
        await trio.sleep(module.SLOWEST_BEAT_SECONDS)
        nursery.cancel_scope.cancel()
    assert monitor.statistics().stalls == 0


async def test_loop_monitor_ignores_the_clock_of_a_test(mock_clock: MockClock) -> None:
    monitor = LoopMonitor(LIMIT_MS, {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(monitor.run)
        for _ in range(10):
            time.sleep(LIMIT_MS / 1000)  # noqa: ASYNC251 that is no fault to this clock
            mock_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert monitor.statistics().stalls == 0


async def sampled(plugins: dict[str, str]) -> Sample:
    """Return what a thread sees of this task."""
    found: list[Sample] = []
    root = trio.lowlevel.current_root_task()
    look = partial(take_sample, threading.get_ident(), root, plugins)
    thread = threading.Thread(target=lambda: found.append(look()), daemon=True)
    thread.start()
    thread.join()
    return found[0]


async def test_take_sample_falls_back_on_the_name_of_the_task() -> None:
    found: list[Sample] = []

    async def unnamed() -> None:
        found.append(await sampled({}))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(unnamed, name="its name")
    assert found[0].holder == "task its name"
    assert found[0].plugin == ""
    assert found[0].place.startswith("threading:")


async def test_take_sample_finds_nothing_in_an_idle_loop() -> None:
    me, root = threading.get_ident(), trio.lowlevel.current_root_task()
    with trio.fail_after(DEADLINE_S):
        # The thread may be there before the event loop waits.
        while await trio.to_thread.run_sync(take_sample, me, root, {"tests": "x"}) != Sample():
            pass
