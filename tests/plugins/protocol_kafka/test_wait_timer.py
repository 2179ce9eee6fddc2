"""Waits that end together when their time is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tidelog.kernel.seams.partition import AppendWaiter
from tidelog.plugins.protocol_kafka.wait_timer import TICKS_PER_S, WaitTimer


def started_in(nursery: trio.Nursery) -> WaitTimer:
    """A timer whose task runs in a nursery."""

    def start(_: str, job: Callable[[], Awaitable[None]]) -> None:
        nursery.start_soon(job)

    return WaitTimer(start)


class Ended:
    """Which waits have ended, and when."""

    def __init__(self) -> None:
        self.at: list[tuple[str, float]] = []

    def waiter(self, name: str) -> AppendWaiter:
        """A waiter that is noted when it is woken."""
        return AppendWaiter(1, partial(self._end, name))

    def _end(self, name: str) -> None:
        self.at.append((name, round(trio.current_time(), 6)))


async def test_wait_timer_ends_each_wait_in_time(autojump_clock: MockClock) -> None:
    ended, began = Ended(), trio.current_time()
    async with trio.open_nursery() as nursery:
        timer = started_in(nursery)
        for name, seconds in (("late", 0.5), ("early", 0.1), ("now", 0.0), ("same", 0.5), ("latest", 60.0)):
            timer.add(ended.waiter(name), began + seconds)
            await wait_all_tasks_blocked()
    names = [name for name, _ in ended.at]
    assert names[:2] == ["now", "early"]
    assert sorted(names[2:4]) == ["late", "same"]
    assert names[4:] == ["latest"]
    for (_, at), seconds in zip(ended.at, (0.0, 0.1, 0.5, 0.5, 60.0), strict=True):
        assert seconds <= round(at - began, 6) <= seconds + 1 / TICKS_PER_S


async def test_wait_timer_forgets_a_wait_that_has_ended(autojump_clock: MockClock) -> None:
    ended, began = Ended(), trio.current_time()
    async with trio.open_nursery() as nursery:
        timer = started_in(nursery)
        waiters = [ended.waiter(name) for name in ("first", "second")]
        ticks = [timer.add(waiter, began + 0.2) for waiter in waiters]
        timer.discard(waiters[0], ticks[0])
        timer.discard(waiters[0], ticks[0])
    assert [name for name, _ in ended.at] == ["second"]
    timer.discard(waiters[1], ticks[1])


async def test_wait_timer_runs_only_while_there_are_waits(autojump_clock: MockClock) -> None:
    ended = Ended()
    for name in ("first", "second"):
        # The nursery ends with the task.
        async with trio.open_nursery() as nursery:
            timer = started_in(nursery)
            timer.add(ended.waiter(name), trio.current_time() + 1)
    assert [name for name, _ in ended.at] == ["first", "second"]


@pytest.mark.parametrize("deadline", [0.5, 0.6, 0.7, 1.005, 123456.785])
async def test_wait_timer_rounds_no_tick_up(deadline: float) -> None:
    timer = WaitTimer(lambda *_: None)
    assert timer.add(AppendWaiter(1, lambda: None), deadline) == round(deadline * TICKS_PER_S)
