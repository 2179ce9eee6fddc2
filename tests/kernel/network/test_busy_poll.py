"""For whom a server polls, on a clock and with a count of runnable tasks that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from tidelog.kernel.network.busy_poll import (
    CLOSED_LOOP_REQUESTS,
    FEW_RECORDS,
    FULL_TURNS,
    SMALL_BYTES,
    BusyPoll,
    ClosedLoop,
    Processors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 400e-6
SOON = SECONDS / 2
LATE = SECONDS * 2
IDLE, FULL = "2/97", "3/97"


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@attrs.define
class LoadAverage:
    """The load of two processors, whose `/proc/loadavg` the test writes."""

    path: Path

    def write(self, tasks: str) -> None:
        self.path.write_text(f"0.18 0.32 0.17 {tasks} 7746\n")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def load_average(tmp_path: Path) -> LoadAverage:
    load_average = LoadAverage(tmp_path / "loadavg")
    load_average.write(IDLE)
    return load_average


@pytest.fixture
def busy_poll(clock: Clock, load_average: LoadAverage) -> Iterator[BusyPoll]:
    with Processors(load_average.path, count=2) as processors:
        yield BusyPoll(SECONDS, processors, clock)


def serve(
    loop: ClosedLoop,
    clock: Clock,
    pause: float = SOON,
    size: int = 100,
    requests: int = 1,
    records: int = 0,
) -> bool:
    """Let `requests` arrive `pause` after the last answer; return whether the server polled for them."""
    polled = loop.should_poll()
    clock.now += pause
    if polled and not loop.should_poll():
        polled = False
    loop.received(size)
    loop.answered(requests, records)
    return polled


def in_closed_loop(shared: BusyPoll, clock: Clock) -> ClosedLoop:
    loop = ClosedLoop(shared)
    for _ in range(CLOSED_LOOP_REQUESTS + 1):  # the first one is the answer that the second one follows
        serve(loop, clock)
    return loop


def test_closed_loop_is_polled_for_once_it_has_shown_itself(busy_poll: BusyPoll, clock: Clock) -> None:
    loop = ClosedLoop(busy_poll)
    polled = [serve(loop, clock) for _ in range(CLOSED_LOOP_REQUESTS + 4)]
    assert polled == [False] * (CLOSED_LOOP_REQUESTS + 1) + [True] * 3


@pytest.mark.parametrize(
    ("pause", "size", "requests", "records"),
    [
        pytest.param(LATE, 100, 1, 1, id="slow"),
        pytest.param(SOON, SMALL_BYTES + 1, 1, 1, id="large"),
        pytest.param(SOON, 100, 2, 1, id="pipelined"),
        pytest.param(SOON, 100, 0, 0, id="in pieces"),
        pytest.param(SOON, 100, 1, FEW_RECORDS + 1, id="of many records"),
    ],
)
def test_closed_loop_ends_with_a_request_of_another_kind(
    busy_poll: BusyPoll, clock: Clock, pause: float, size: int, requests: int, records: int
) -> None:
    loop = in_closed_loop(busy_poll, clock)
    serve(loop, clock, pause, size, requests, records)
    assert not any(serve(loop, clock) for _ in range(CLOSED_LOOP_REQUESTS - 1))
    serve(loop, clock)
    assert serve(loop, clock)


def test_closed_loop_counts_a_request_of_small_bytes_just_before_the_time_limit(
    busy_poll: BusyPoll, clock: Clock
) -> None:
    loop = ClosedLoop(busy_poll)
    for _ in range(CLOSED_LOOP_REQUESTS + 1):
        serve(loop, clock, pause=SECONDS * 0.999, size=SMALL_BYTES, records=FEW_RECORDS)
    assert serve(loop, clock)


def test_should_poll_ends_after_the_time_limit_and_does_not_resume_at_once(
    busy_poll: BusyPoll, clock: Clock
) -> None:
    loop = in_closed_loop(busy_poll, clock)
    assert loop.should_poll()
    clock.now += LATE
    assert not loop.should_poll()
    serve(loop, clock)
    assert not serve(loop, clock)


def test_should_poll_ends_after_full_turns_without_an_idle_processor(
    busy_poll: BusyPoll, clock: Clock, load_average: LoadAverage
) -> None:
    loop = in_closed_loop(busy_poll, clock)
    assert loop.should_poll()
    load_average.write(FULL)
    for _ in range(2):
        assert [loop.should_poll() for _ in range(FULL_TURNS - 1)] == [True] * (FULL_TURNS - 1)
        load_average.write(IDLE)
        assert loop.should_poll()
        load_average.write(FULL)
    assert [loop.should_poll() for _ in range(FULL_TURNS)] == [True] * (FULL_TURNS - 1) + [False]
    assert busy_poll.polled is None


def test_closed_loop_is_polled_for_again_once_a_processor_is_idle(
    busy_poll: BusyPoll, clock: Clock, load_average: LoadAverage
) -> None:
    loop = in_closed_loop(busy_poll, clock)
    load_average.write(FULL)
    for _ in range(2):
        assert [loop.should_poll() for _ in range(FULL_TURNS)] == [True] * (FULL_TURNS - 1) + [False]
        loop.received(100)
        loop.answered(1, 0)
    load_average.write(IDLE)
    assert serve(loop, clock)


def test_closed_loop_stop_ends_polling(busy_poll: BusyPoll, clock: Clock) -> None:
    loop = in_closed_loop(busy_poll, clock)
    loop.stop()
    assert not loop.should_poll()


def test_should_poll_allows_one_connection_at_a_time(busy_poll: BusyPoll, clock: Clock) -> None:
    first, second = in_closed_loop(busy_poll, clock), in_closed_loop(busy_poll, clock)
    first.answered(1, 0)
    assert first.should_poll()
    assert not second.should_poll()
    first.received(100)  # its request is being served: the slot is free
    third = in_closed_loop(busy_poll, clock)
    assert third.should_poll()
    third.stop()
    assert busy_poll.polled is None


@pytest.mark.parametrize("count", [0, 1])
def test_one_is_idle_is_false_with_fewer_than_two_processors(load_average: LoadAverage, count: int) -> None:
    load_average.write("1/97")
    with Processors(load_average.path, count) as processors:
        assert not processors.one_is_idle()


def test_processors_count_tasks_that_run(load_average: LoadAverage) -> None:
    with Processors(load_average.path, count=2) as processors:
        assert processors.one_is_idle()
        load_average.write("13/97")
        assert not processors.one_is_idle()
    load_average.write(IDLE)
    assert not processors.one_is_idle()


def test_one_is_idle_is_false_without_proc_loadavg(tmp_path: Path) -> None:
    with Processors(tmp_path / "missing", count=2) as processors:
        assert not processors.one_is_idle()


def test_busy_poll_of_zero_seconds_never_polls(clock: Clock, load_average: LoadAverage) -> None:
    with Processors(load_average.path, count=2) as processors:
        loop = ClosedLoop(BusyPoll(0.0, processors, clock))
        assert not any(serve(loop, clock, pause=0.0) for _ in range(3 * CLOSED_LOOP_REQUESTS))
