"""Background work: rhythm, failures, and jobs in threads that are waited for."""

from __future__ import annotations

import errno
import logging
import threading

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tidelog.kernel.seams.tasks import Lifespan, LifespanTask, PeriodicTask
from tidelog.kernel.tasks import MAX_JOBS_IN_THREADS, BackgroundTasks


class Recorder:
    """Work that notes when it runs, and may fail or take its time."""

    def __init__(self, *, fails: bool = False, takes_ms: float = 0) -> None:
        self.times: list[float] = []
        self._fails = fails
        self._takes_ms = takes_ms

    async def run(self) -> None:
        """Note the time in milliseconds since the start."""
        self.times.append(round(trio.current_time() * 1000, 6))
        await trio.sleep(self._takes_ms / 1000)
        if self._fails:
            raise OSError("no luck")


async def times_of(task: PeriodicTask, recorder: Recorder, for_ms: float) -> list[float]:
    """When the task ran, relative to its start."""
    tasks = BackgroundTasks()
    async with tasks.running():
        start = round(trio.current_time() * 1000, 6)
        tasks.start(task)
        await trio.sleep(for_ms / 1000)
    return [round(time - start, 6) for time in recorder.times]


@pytest.mark.parametrize(
    ("interval", "initial", "takes", "expected"),
    [
        (100, 0, 0, [0, 100, 200, 300, 400]),
        (100, 250, 0, [250, 350, 450]),
        (100, 0, 50, [0, 150, 300, 450]),
        (1000, 0, 0, [0]),
        (100, 1000, 0, []),
    ],
    ids=["at once", "after a delay", "interval between end and start", "rare", "not yet"],
)
async def test_start_runs_a_periodic_task_at_its_interval_after_its_initial_delay(
    autojump_clock: MockClock, interval: float, initial: float, takes: float, expected: list[float]
) -> None:
    recorder = Recorder(takes_ms=takes)
    task = PeriodicTask("work", recorder.run, interval, initial)
    assert await times_of(task, recorder, 490) == expected


async def test_periodic_task_asks_for_an_interval_that_may_change(autojump_clock: MockClock) -> None:
    intervals = [50.0, 200.0, 1000.0]
    recorder = Recorder()
    task = PeriodicTask("work", recorder.run, lambda: intervals.pop(0))
    assert await times_of(task, recorder, 490) == [0, 50, 250]


async def test_periodic_task_jitter_ms_stays_within_its_bounds(autojump_clock: MockClock) -> None:
    recorder = Recorder()
    task = PeriodicTask("work", recorder.run, 100, 1000, jitter_ms=30)
    times = await times_of(task, recorder, 30_000)
    waits = [later - earlier for earlier, later in zip([900.0, *times], times, strict=False)]
    assert len(waits) > 200
    assert all(100 <= wait <= 130.001 for wait in waits)
    assert max(waits) - min(waits) > 10


async def test_periodic_task_runs_nothing_before_its_after_returns(autojump_clock: MockClock) -> None:
    recorder, created, tasks = Recorder(), trio.Event(), BackgroundTasks()
    async with tasks.running():
        started_ms = trio.current_time() * 1000
        tasks.start(PeriodicTask("work", recorder.run, 100, 50, after=created.wait))
        await trio.sleep(1)
        assert recorder.times == []
        created.set()
        await trio.sleep(0.2)
    assert [round(time_ms - started_ms) for time_ms in recorder.times] == [1050, 1150]


async def test_many_tasks_with_jitter_do_not_wake_together(autojump_clock: MockClock) -> None:
    tasks, recorders = BackgroundTasks(), [Recorder() for _ in range(50)]
    async with tasks.running():
        for index, recorder in enumerate(recorders):
            tasks.start(PeriodicTask(f"work {index}", recorder.run, 10_000, 0, jitter_ms=1000))
        await trio.sleep(2)
    assert len({recorder.times[0] for recorder in recorders}) > 40


async def test_periodic_task_that_fails_is_logged_and_counted_and_runs_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, tasks = Recorder(fails=True), BackgroundTasks()
    async with tasks.running():
        tasks.start(PeriodicTask("retention", recorder.run, 100))
        await trio.sleep(0.25)
    statistics = tasks.statistics()["retention"]
    assert (statistics.runs, statistics.failures) == (3, 3)
    assert statistics.last_error == "OSError('no luck')"
    assert caplog.text.count("background task retention failed; it runs again in 100 ms") == 3


async def test_periodic_task_with_a_failing_nursery_is_counted_as_failed(autojump_clock: MockClock) -> None:
    async def fail_inside() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Recorder(fails=True).run)

    tasks = BackgroundTasks()
    async with tasks.running():
        tasks.start(PeriodicTask("nested", fail_inside, 100))
        await trio.sleep(0.15)
    assert tasks.statistics()["nested"].failures == 2


async def test_periodic_task_that_fails_does_not_affect_others(autojump_clock: MockClock) -> None:
    tasks, well = BackgroundTasks(), Recorder()
    async with tasks.running():
        tasks.start(PeriodicTask("ill", Recorder(fails=True).run, 10))
        tasks.start(PeriodicTask("well", well.run, 100))
        await trio.sleep(0.45)
    assert len(well.times) == 5
    assert tasks.statistics()["well"].failures == 0


async def test_running_cancels_a_periodic_task_in_progress_when_it_ends(autojump_clock: MockClock) -> None:
    tasks = BackgroundTasks()
    with trio.fail_after(DEADLINE_S):
        async with tasks.running():
            tasks.start(PeriodicTask("endless", trio.sleep_forever, 100))
            await trio.sleep(0.1)


async def test_no_task_starts_before_and_after() -> None:
    tasks = BackgroundTasks()
    task = PeriodicTask("late", Recorder().run, 100)
    with pytest.raises(RuntimeError, match="'late' was started while no broker runs"):
        tasks.start(task)
    async with tasks.running():
        pass
    with pytest.raises(RuntimeError, match="'late'"):
        tasks.start(task)
    assert tasks.statistics() == {}


async def test_in_thread_runs_jobs_off_the_event_loop() -> None:
    tasks, threads = BackgroundTasks(), list[threading.Thread]()
    async with tasks.running():
        tasks.in_thread("job", lambda: threads.append(threading.current_thread()))
    assert threads
    assert threads[0] is not threading.current_thread()


async def test_jobs_given_before_the_start_run_then() -> None:
    tasks, done = BackgroundTasks(), list[str]()
    tasks.in_thread("job", lambda: done.append("job"))
    assert done == []
    async with tasks.running():
        await tasks.wait_for_jobs()
        assert done == ["job"]


async def test_running_waits_for_in_thread_jobs_when_it_ends() -> None:
    tasks, done = BackgroundTasks(), list[int]()
    async with tasks.running():
        for index in range(50):
            tasks.in_thread(f"job {index}", lambda index=index: done.append(index))  # type: ignore[misc]
    assert sorted(done) == list(range(50))


async def test_running_waits_for_in_thread_jobs_even_when_it_is_cancelled() -> None:
    tasks, released, done = BackgroundTasks(), threading.Event(), list[bool]()

    def job() -> None:
        done.append(released.wait(DEADLINE_S))

    async with trio.open_nursery() as nursery:

        async def run() -> None:
            async with tasks.running():
                tasks.in_thread("job", job)
                await trio.sleep_forever()

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        released.set()
    assert done == [True]


async def test_in_thread_logs_a_job_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    tasks, done = BackgroundTasks(), list[str]()

    def fail() -> None:
        raise OSError("no space")

    async with tasks.running():
        tasks.in_thread("snapshot flights-0", fail)
        tasks.in_thread("other", lambda: done.append("other"))
    assert done == ["other"]
    assert "background job snapshot flights-0 failed" in caplog.text
    assert all(record.levelno == logging.ERROR for record in caplog.records)


async def test_in_thread_runs_at_most_max_jobs_in_threads_at_the_same_time() -> None:
    tasks, release, started = BackgroundTasks(), threading.Event(), threading.Semaphore(0)
    running, most = list[int](), list[int]()
    lock = threading.Lock()

    def job() -> None:
        with lock:
            running.append(1)
            most.append(len(running))
        started.release()
        release.wait(DEADLINE_S)
        with lock:
            running.pop()

    async with tasks.running():
        for index in range(3 * MAX_JOBS_IN_THREADS):
            tasks.in_thread(f"job {index}", job)
        for _ in range(MAX_JOBS_IN_THREADS):
            await trio.to_thread.run_sync(started.acquire)
        assert await trio.to_thread.run_sync(lambda: "served") == "served"
        release.set()
    assert max(most) == MAX_JOBS_IN_THREADS


async def test_wait_for_jobs_returns_when_all_jobs_are_done() -> None:
    tasks, release, done = BackgroundTasks(), threading.Event(), list[str]()

    def slow() -> None:
        release.wait(DEADLINE_S)
        done.append("slow")

    async with tasks.running():
        await tasks.wait_for_jobs()
        tasks.in_thread("slow", slow)
        with trio.move_on_after(0.01) as scope:
            await tasks.wait_for_jobs()
        assert scope.cancelled_caught
        assert done == []
        release.set()
        await tasks.wait_for_jobs()
        assert done == ["slow"]


class Service:
    """A lifespan task that notes what it comes to; what it does is chosen by the test."""

    def __init__(self, *, ready_after: float = 0, finish_takes: float = 0) -> None:
        self.log: list[str] = []
        self._ready_after = ready_after
        self._finish_takes = finish_takes

    async def run(self, lifespan: Lifespan) -> None:
        """Become ready, wait for the end, finish."""
        try:
            await trio.sleep(self._ready_after)
            self.log.append("ready")
            lifespan.ready()
            lifespan.ready()
            await lifespan.wait_stopping()
            self.log.append("stopping")
            await trio.sleep(self._finish_takes)
            self.log.append("finished")
        except trio.Cancelled:
            self.log.append("cancelled")
            raise


async def test_start_ready_waits_until_a_lifespan_task_is_ready(autojump_clock: MockClock) -> None:
    tasks, service = BackgroundTasks(), Service(ready_after=5)
    async with tasks.running():
        began = trio.current_time()
        await tasks.start_ready(LifespanTask("service", service.run))
        assert trio.current_time() - began == 5
        assert service.log == ["ready"]


async def test_wait_stopping_and_finish_wait_until_lifespan_tasks_have_finished(
    autojump_clock: MockClock,
) -> None:
    tasks, services = BackgroundTasks(), [Service(finish_takes=takes) for takes in (0, 3, 1)]
    async with tasks.running():
        for service in services:
            tasks.start(LifespanTask("service", service.run))
        await wait_all_tasks_blocked()
        await tasks.finish()
        assert [service.log for service in services] == [["ready", "stopping", "finished"]] * 3


async def test_a_lifespan_task_that_does_not_end_is_cancelled(autojump_clock: MockClock) -> None:
    tasks, service = BackgroundTasks(), Service(finish_takes=1000)
    async with tasks.running():
        await tasks.start_ready(LifespanTask("service", service.run))
        with trio.move_on_after(2) as patience:
            await tasks.finish()
        assert patience.cancelled_caught
    assert service.log == ["ready", "stopping", "cancelled"]


async def test_a_lifespan_task_that_fails_before_it_is_ready_stops_the_start() -> None:
    async def fail(lifespan: Lifespan) -> None:
        raise OSError("no luck")

    tasks, well = BackgroundTasks(), Service()
    async with tasks.running():
        await tasks.start_ready(LifespanTask("well", well.run))
        with pytest.raises(OSError, match="no luck"):
            await tasks.start_ready(LifespanTask("ill", fail))
        assert tasks.statistics()["ill"].failures == 1
        await tasks.finish()
    assert well.log == ["ready", "stopping", "finished"]


@pytest.mark.parametrize("ready", [False, True])
async def test_a_lifespan_task_that_no_one_waits_for_logs_its_failure(
    ready: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(lifespan: Lifespan) -> None:
        if ready:
            lifespan.ready()
        raise OSError("no luck")

    tasks = BackgroundTasks()
    async with tasks.running():
        tasks.start(LifespanTask("ill", fail))
        await wait_all_tasks_blocked()
        await tasks.finish()
    assert tasks.statistics()["ill"].last_error == "OSError('no luck')"
    assert "background task ill failed" in caplog.text


async def test_a_lifespan_task_that_returns_at_once_counts_as_ready() -> None:
    async def nothing(lifespan: Lifespan) -> None:
        await trio.lowlevel.checkpoint()

    tasks = BackgroundTasks()
    async with tasks.running():
        await tasks.start_ready(LifespanTask("short", nothing))
        await tasks.finish()
    assert tasks.statistics()["short"].runs == 1


async def test_a_lifespan_task_that_is_started_while_the_broker_stops_ends_too() -> None:
    tasks, service = BackgroundTasks(), Service()
    async with tasks.running():
        await tasks.finish()
        tasks.start(LifespanTask("late", service.run))
        await tasks.finish()
        await wait_all_tasks_blocked()
    assert service.log == ["ready", "stopping", "finished"]


class FullDisk:
    """A job that finds the disk full a number of times."""

    def __init__(self, refusals: float) -> None:
        self.runs = 0
        self._refusals = refusals

    def run(self) -> None:
        """Be refused or not."""
        self.runs += 1
        if self.runs <= self._refusals:
            raise OSError(errno.ENOSPC, "No space left on device")


async def test_in_thread_runs_a_job_again_while_the_disk_is_full(autojump_clock: MockClock) -> None:
    tasks, job = BackgroundTasks(), FullDisk(6)
    async with tasks.running():
        begun = trio.current_time()
        tasks.in_thread("work", job.run)
        while job.runs < 7:  # noqa: ASYNC110
            await trio.sleep(0.5)
        assert 1 + 2 + 4 + 8 + 16 + 30 <= trio.current_time() - begun < 65


async def test_wait_for_jobs_runs_one_that_waits_for_room_once_more(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    tasks, job = BackgroundTasks(), FullDisk(float("inf"))
    async with tasks.running():
        tasks.in_thread("work", job.run)
        while not job.runs:
            await wait_all_tasks_blocked()
        await tasks.wait_for_jobs()
        assert job.runs == 2
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "background job work failed" in record.message


async def test_a_periodic_task_that_finds_the_disk_full_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def run() -> None:
        FullDisk(1).run()

    tasks = BackgroundTasks()
    async with tasks.running():
        tasks.start(PeriodicTask("work", run, 1000))
        await trio.sleep(0.5)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
