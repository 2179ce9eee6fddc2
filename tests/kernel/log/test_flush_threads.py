"""Threads that flush: how many at once, in which order, and that the end of no flush is missed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tests.kernel.log.parts import run_in_a_task
from tidelog.kernel.log import flush_threads
from tidelog.kernel.log.flush_threads import THREADS_PER_DIRECTORY, FlushThreads
from tidelog.kernel.tasks import BackgroundTasks


@attrs.define
class Flushes:
    """Flushes that hang until the test ends them, one by one."""

    threads: FlushThreads = attrs.field(factory=lambda: FlushThreads(run_in_a_task))
    begun: list[str] = attrs.field(factory=list[str])
    ended: list[tuple[str, int | Exception]] = attrs.field(factory=list["tuple[str, int | Exception]"])
    may_end: dict[str, threading.Event] = attrs.field(factory=dict[str, threading.Event])
    failures: dict[str, Exception] = attrs.field(factory=dict[str, Exception])
    changed: threading.Condition = attrs.field(factory=threading.Condition)

    def begin(self, directory: str, name: str) -> None:
        self.may_end[name] = threading.Event()
        self.threads.begin(directory, partial(self._run, name), partial(self._end, name))

    def _run(self, name: str) -> int:
        with self.changed:
            self.begun.append(name)
            self.changed.notify_all()
        assert self.may_end[name].wait(DEADLINE_S)
        if name in self.failures:
            raise self.failures[name]
        return len(name)

    def _end(self, name: str, outcome: int | Exception) -> None:
        self.ended.append((name, outcome))

    async def wait_begun(self, count: int) -> None:
        """Wait until that many run or have run."""

        def wait() -> None:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.begun) >= count, DEADLINE_S)

        await trio.to_thread.run_sync(wait)

    async def wait_ended(self, count: int) -> None:
        """Wait until that many ends were delivered."""
        await until(lambda: len(self.ended) >= count)

    @property
    def names_ended(self) -> list[str]:
        return [name for name, _ in self.ended]


@pytest.fixture
async def flushes() -> AsyncGenerator[Flushes]:
    """Flushes that all end with the test, also with one that fails."""
    made = Flushes()
    yield made
    for event in made.may_end.values():
        event.set()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that threads bring about."""
    with trio.fail_after(DEADLINE_S):
        while not is_so():
            await wait_all_tasks_blocked(0.001)


async def test_begin_waits_for_the_end_of_the_turn(flushes: Flushes) -> None:
    flushes.begin("a", "1")
    assert flushes.begun == []
    flushes.may_end["1"].set()
    await flushes.wait_ended(1)
    assert flushes.ended == [("1", 1)]


async def test_a_directory_has_a_few_threads_and_serves_the_oldest_first(flushes: Flushes) -> None:
    names = [str(number) for number in range(THREADS_PER_DIRECTORY + 3)]
    for name in names:
        flushes.begin("a", name)
    await flushes.wait_begun(THREADS_PER_DIRECTORY)
    await wait_all_tasks_blocked(0.01)
    assert sorted(flushes.begun) == names[:THREADS_PER_DIRECTORY]
    flushes.may_end["2"].set()
    await flushes.wait_begun(THREADS_PER_DIRECTORY + 1)
    assert flushes.begun[-1] == str(THREADS_PER_DIRECTORY)
    for name in names:
        flushes.may_end[name].set()
    await flushes.wait_ended(len(names))
    assert sorted(flushes.names_ended) == names


async def test_a_directory_whose_device_hangs_holds_up_no_other(flushes: Flushes) -> None:
    hanging = [f"a{number}" for number in range(2 * THREADS_PER_DIRECTORY)]
    for name in hanging:
        flushes.begin("a", name)
    await flushes.wait_begun(THREADS_PER_DIRECTORY)
    flushes.begin("b", "b")
    flushes.may_end["b"].set()
    await flushes.wait_ended(1)
    assert flushes.names_ended == ["b"]
    for name in hanging:
        flushes.may_end[name].set()
    await flushes.wait_ended(1 + len(hanging))


async def test_a_failed_flush_is_delivered_to_its_own_end_alone(flushes: Flushes) -> None:
    failure = OSError(5, "Input/output error")
    flushes.failures["bad"] = failure
    for name in ("good", "bad", "fine"):
        flushes.begin("a", name)
        flushes.may_end[name].set()
    await flushes.wait_ended(3)
    assert dict(flushes.ended) == {"good": 4, "bad": failure, "fine": 4}


async def test_an_error_at_the_end_of_one_is_logged_and_costs_no_other(
    caplog: pytest.LogCaptureFixture, flushes: Flushes
) -> None:

    def fail(_: int | Exception) -> None:
        raise ValueError("a mistake of ours")

    flushes.threads.begin("a", lambda: 1, fail)
    flushes.begin("a", "other")
    flushes.may_end["other"].set()
    await flushes.wait_ended(1)
    await until(lambda: "a mistake of ours" in caplog.text)


async def test_one_turn_receives_all_that_ended_before_it() -> None:
    """Some flushes end while the event loop is held; a counter shows its turns."""
    threads, turn, names = FlushThreads(run_in_a_task), 0, range(THREADS_PER_DIRECTORY)
    ended_in: list[int] = []
    begun: list[int] = []
    may_end, moment = threading.Event(), threading.Event()

    def flush() -> int:
        begun.append(1)
        assert may_end.wait(DEADLINE_S)
        return 1

    for _ in names:
        threads.begin("a", flush, lambda _: ended_in.append(turn))
    await until(lambda: len(begun) == len(names))
    may_end.set()
    while len(threads._ended) < len(names):  # pyright: ignore[reportPrivateUsage]
        # Blocking: the loop takes no turn until they have ended.
        moment.wait(0.001)
    while len(ended_in) < len(names):
        turn += 1
        await trio.lowlevel.checkpoint()
    assert len(set(ended_in)) == 1


async def test_a_stop_waits_for_a_flush() -> None:
    tasks = BackgroundTasks()
    flushes = Flushes(FlushThreads(tasks.run_shielded))
    async with trio.open_nursery() as nursery, tasks.running():
        flushes.begin("a", "1")
        await flushes.wait_begun(1)
        waited = trio.Event()

        async def stop() -> None:
            await tasks.wait_for_jobs()
            waited.set()

        nursery.start_soon(stop)
        await wait_all_tasks_blocked()
        assert not waited.is_set()
        flushes.may_end["1"].set()
        with trio.fail_after(DEADLINE_S):
            await waited.wait()
        assert flushes.names_ended == ["1"]


class MeetingQueue(deque[Any]):
    """Is found empty, and just after that a flush ends; its thread has gone on before the finder does."""

    def __init__(self, meet: Callable[[], None]) -> None:
        super().__init__()
        self._meet = meet

    def __len__(self) -> int:
        found = super().__len__()
        if not found:
            self._meet()
        return found


async def test_a_flush_that_ends_just_after_the_look_at_what_has_ended_is_delivered(
    flushes: Flushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush_threads, "IDLE_SECONDS", 0.0)
    # The first gets a thread that ends with it; what the second has said is final once its thread ends too.
    flushes.begin("a", "1")
    flushes.begin("b", "late")
    await flushes.wait_begun(2)
    meetings: list[str] = []

    def meet() -> None:
        if flushes.ended and not meetings:
            meetings.append("late")
            flushes.may_end["late"].set()
            thread = next(each for each in threading.enumerate() if each.name == "flush b")
            thread.join(DEADLINE_S)

    flushes.threads._ended = MeetingQueue(meet)  # pyright: ignore[reportPrivateUsage]
    flushes.may_end["1"].set()
    await flushes.wait_ended(2)
    assert (flushes.names_ended, meetings) == (["1", "late"], ["late"])


async def test_threads_stay_for_the_next_flush_and_end_without_one(
    flushes: Flushes, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[threading.Thread] = []
    ended: list[int | Exception] = []

    def run() -> int:
        used.append(threading.current_thread())
        return 1

    async def flush() -> None:
        number = len(ended) + 1
        flushes.threads.begin("a", run, ended.append)
        await until(lambda: len(ended) == number)

    for _ in range(20):
        await flush()
        # Without this the next flush may find the thread before it is idle, and take another one.
        await until(lambda: bool(_idle(flushes.threads, "a")))
    assert len(set(used)) == 1
    monkeypatch.setattr(flush_threads, "IDLE_SECONDS", 0.0)
    for number in range(1, 2 * THREADS_PER_DIRECTORY):
        await flush()
        await until(lambda: not used[-1].is_alive())
        assert len(set(used)) == number


async def test_a_flush_that_comes_when_its_thread_stops_waiting_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time of an idle thread is over at about the moment of the next flush, many times."""
    monkeypatch.setattr(flush_threads, "IDLE_SECONDS", 0.0002)
    threads = FlushThreads(run_in_a_task)
    ended: list[int | Exception] = []
    begun = 0
    for number in range(1500):
        for _ in range(number % 7 + 1):
            threads.begin("a", lambda: 1, ended.append)
            begun += 1
        with trio.fail_after(DEADLINE_S):
            while len(ended) < begun:  # noqa: ASYNC110 - the length of the pause is the point
                await trio.sleep(0.00005 * (number % 5))


def _idle(threads: FlushThreads, directory: str) -> list[Any]:
    return threads._directories[directory]._idle  # pyright: ignore[reportPrivateUsage]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from("ab")),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("settle"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(STEPS, st.sampled_from([0.0, 0.0001, 1.0]))
def test_every_flush_ends_once_in_whatever_order_threads_and_turns_come(
    steps: list[tuple[str, str | int]], idle_seconds: float
) -> None:
    async def main() -> None:
        flushes = Flushes()
        names: list[str] = []
        for step, choice in steps:
            if step == "begin":
                names.append(f"{choice}{len(names)}")
                flushes.begin(str(choice), names[-1])
            elif step == "end" and names:
                flushes.may_end[names[int(choice) % len(names)]].set()
            elif step == "turn":
                await trio.lowlevel.checkpoint()
            else:
                await wait_all_tasks_blocked()
        for name in names:
            flushes.may_end[name].set()
        await flushes.wait_ended(len(names))
        assert sorted(flushes.names_ended) == sorted(names)
        # Nothing is left that would serve no later flush.
        flushes.begin("a", "last")
        flushes.may_end["last"].set()
        await flushes.wait_ended(len(names) + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush_threads, "IDLE_SECONDS", idle_seconds)
        trio.run(main)
