"""Work in steps: others have their turn, and not at every small piece."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import trio.testing

from tests.turns import turns_of_another_task
from tidelog.kernel import pace
from tidelog.kernel.pace import Pace, ThreadPace, run_in_steps


async def turns_of_others(steps: int) -> int:
    """How often another task ran meanwhile."""

    def work() -> Generator[None, None, str]:
        for _ in range(steps):
            yield
        return "done"

    async with turns_of_another_task() as turns:
        assert await run_in_steps(work()) == "done"
    return turns.count


async def test_others_have_their_turn_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(10_000))
    monkeypatch.setattr(pace, "perf_counter", lambda: float(next(times)))
    assert await turns_of_others(100) > 90


async def test_run_in_steps_does_short_steps_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "perf_counter", lambda: 0.0)
    assert await turns_of_others(100) <= 1


def test_is_over_after_step_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pace, "perf_counter", lambda: now)
    step = Pace()
    now = pace.STEP_SECONDS - 0.0001
    assert not step.is_over()
    now = pace.STEP_SECONDS
    assert step.is_over()


async def test_a_turn_that_is_not_due_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "perf_counter", lambda: 0.0)
    with trio.testing.assert_no_checkpoints():
        await Pace().turn()


def releases(
    monkeypatch: pytest.MonkeyPatch, turns: int, seconds_each: float, hold_seconds: float = pace.HOLD_SECONDS
) -> int:
    """How often a thread releases the interpreter's lock in so many turns."""
    count = 0
    now = 0.0

    def release() -> None:
        nonlocal count
        count += 1

    monkeypatch.setattr(pace, "yield_interpreter", release)
    monkeypatch.setattr(pace, "perf_counter", lambda: now)
    thread = ThreadPace(hold_seconds)
    for _ in range(turns):
        now += seconds_each
        thread.turn()
    return count


def test_thread_pace_releases_the_interpreter_when_it_held_it_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert releases(monkeypatch, turns=100, seconds_each=pace.HOLD_SECONDS) == 100


def test_thread_pace_does_small_pieces_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert releases(monkeypatch, turns=100, seconds_each=pace.HOLD_SECONDS / 10) in (9, 10)


def test_thread_pace_releases_the_interpreter_sooner_for_work_that_others_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert releases(monkeypatch, turns=100, seconds_each=50e-6, hold_seconds=50e-6) == 100
