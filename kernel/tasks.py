"""Background work of one broker: periodic tasks, tasks that run as long as the broker does, and single jobs.

No error of theirs stops a broker that has started. See `tidelog.kernel.seams.tasks` for what each of them is.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from tidelog.kernel import disk
from tidelog.kernel.loop_monitor import set_holder
from tidelog.kernel.seams.tasks import BackgroundTask, LifespanTask, PeriodicTask

_log = logging.getLogger(__name__)

# Not the generator of the process: a program that has a broker or a client may have seeded that one.
_random = random.SystemRandom()

MAX_JOBS_IN_THREADS = 8
"""Jobs that run at once; the others wait, so that a burst of rolls cannot starve other users of threads."""
FIRST_ROOM_WAIT_S = 1.0
LONGEST_ROOM_WAIT_S = 30.0
"""A job that a full disk refused is tried again after these times: the first one doubles up to the other."""


@attrs.define
class TaskStatistics:
    """What a task did so far; a run of a `LifespanTask` counts when it ends."""

    runs: int = 0
    failures: int = 0
    last_error: str | None = None


class BackgroundTasks:
    """All background work of one broker, under one nursery."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._limiter: trio.CapacityLimiter | None = None
        self._statistics: dict[str, TaskStatistics] = {}
        self._waiting: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        self._lifespans = _Lifespans()
        self._unfinished_jobs = 0
        self._jobs_done = trio.Event()
        self._waiting_for_jobs = 0
        self._hurry = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run until the block ends: tasks are then cancelled, jobs in threads are waited for."""
        # The outer nursery: tasks are cancelled first, and the jobs that they have started are waited for
        # after that.
        async with trio.open_nursery() as jobs:
            self._limiter = trio.CapacityLimiter(MAX_JOBS_IN_THREADS)
            self._jobs = jobs
            # Jobs that were given before there was a nursery.
            for name, job in self._waiting:
                jobs.start_soon(self._run_job, name, job)
            self._waiting.clear()
            async with trio.open_nursery() as tasks:
                self._nursery = tasks
                try:
                    yield
                finally:
                    # Before the cancellation: a task that ends may not start another one.
                    self._nursery = None
                    tasks.cancel_scope.cancel()

    def start(self, task: BackgroundTask) -> None:
        """Start a task, whose name shows up in `statistics`."""
        nursery, statistics = self._running_nursery(task.name), self._statistics_of(task)
        if isinstance(task, LifespanTask):
            nursery.start_soon(self._lifespans.run_logged, task, statistics, name=task.name)
        else:
            nursery.start_soon(_repeat, task, statistics, name=task.name)

    async def start_ready(self, task: BackgroundTask) -> None:
        """Start a task as `start` does, and wait until it is ready if it is a `LifespanTask`.

        Raises:
            Exception: what the task raised before it was ready.
            RuntimeError: not running.
        """
        if isinstance(task, LifespanTask):
            nursery, statistics = self._running_nursery(task.name), self._statistics_of(task)
            await nursery.start(self._lifespans.run, task, statistics, name=task.name)
        else:
            self.start(task)

    async def finish(self) -> None:
        """Notify every `LifespanTask` that the broker stops, and wait until they have ended."""
        await self._lifespans.finish()

    def once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run `job` once on the event loop, soon; it is cancelled when the broker stops."""
        self._running_nursery(name).start_soon(_run_once, name, job, name=name)

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Run `job` in a thread, soon, and again while the disk is full; a stop waits for one more run."""
        self.run_shielded(name, lambda: self._run_in_thread(job))

    async def _run_in_thread(self, job: Callable[[], object]) -> None:
        wait_s = FIRST_ROOM_WAIT_S
        while True:
            # Before the run: one that began earlier does not count as the last, as it may have been refused
            # before room was made.
            last_run = self._waiting_for_jobs > 0
            try:
                await trio.to_thread.run_sync(job, limiter=self._limiter)
            except OSError as error:
                if last_run or not disk.is_full(error):
                    raise
            else:
                return
            # `wait_for_jobs` ends the wait, so that a stop does not last half a minute.
            with trio.move_on_after(wait_s):
                await self._hurry.wait()
            wait_s = min(2 * wait_s, LONGEST_ROOM_WAIT_S)

    def run_shielded(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Run `job` on the event loop, soon; it is never cancelled, and waited for when the broker stops."""
        # Counted now and not when it runs: `wait_for_jobs` must not miss what is about to begin.
        self._unfinished_jobs += 1
        if self._limiter is None:
            self._waiting.append((name, job))
        else:
            self._jobs.start_soon(self._run_job, name, job)

    async def wait_for_jobs(self) -> None:
        """Wait until no job is left that was given to `in_thread` or `run_shielded`.

        Those that wait for room on a disk run once more, and fail if there is none.
        """
        self._waiting_for_jobs += 1
        self._hurry.set()
        try:
            while self._unfinished_jobs:
                await self._jobs_done.wait()
        finally:
            self._waiting_for_jobs -= 1
            self._hurry = trio.Event()

    def statistics(self) -> dict[str, TaskStatistics]:
        """Name → what that task did so far."""
        return dict(self._statistics)

    def _running_nursery(self, name: str) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError(f"background work {name!r} was started while no broker runs")
        return self._nursery

    def _statistics_of(self, task: BackgroundTask) -> TaskStatistics:
        return self._statistics.setdefault(task.name, TaskStatistics())

    async def _run_job(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        _hold_as("job", name)
        with trio.CancelScope(shield=True):
            try:
                await job()
            except OSError as error:
                level = logging.WARNING if disk.is_full(error) else logging.ERROR
                _log.log(level, "background job %s failed: %s", name, error)
            except Exception:
                _log.exception("background job %s failed", name)
        self._unfinished_jobs -= 1
        if not self._unfinished_jobs:
            self._jobs_done.set()
            self._jobs_done = trio.Event()


class _Lifespans:
    """The tasks of one broker that run as long as it does."""

    def __init__(self) -> None:
        self._stopping = trio.Event()
        self._running = 0
        self._all_ended = trio.Event()

    async def run(
        self,
        task: LifespanTask,
        statistics: TaskStatistics,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run a task to its end; an error is raised until the task is ready, and logged afterwards."""
        _hold_as("task", task.name)
        lifespan = _Lifespan(self._stopping, task_status)
        self._running += 1
        try:
            await task.run(lifespan)
        except Exception as error:
            statistics.failures += 1
            statistics.last_error = repr(error)
            # Until then `start_ready` waits, and a broker whose task cannot begin does not start.
            if not lifespan.is_ready:
                raise
            _log.exception("background task %s failed; it does not run again", task.name)
        finally:
            self._running -= 1
            self._all_ended.set()
        statistics.runs += 1
        # A task that ended before it was ready counts as ready, as trio's `start` would raise otherwise.
        lifespan.ready()

    async def run_logged(self, task: LifespanTask, statistics: TaskStatistics) -> None:
        """Run a task without a caller that waits for it; an error before it is ready is logged."""
        try:
            await self.run(task, statistics)
        except Exception:
            _log.exception("background task %s failed before it was ready", task.name)

    async def finish(self) -> None:
        """Ask all to end, and wait until they have."""
        self._stopping.set()
        while self._running:
            self._all_ended = trio.Event()
            await self._all_ended.wait()


class _Lifespan:
    """Implements `Lifespan` by an event and the task status of trio."""

    def __init__(self, stopping: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        self._stopping = stopping
        self._task_status = task_status
        self.is_ready = False

    def ready(self) -> None:
        """Report that the task is ready; further calls do nothing."""
        if not self.is_ready:
            self.is_ready = True
            self._task_status.started()

    async def wait_stopping(self) -> None:
        """Wait until the broker stops."""
        await self._stopping.wait()


def _hold_as(kind: str, name: str) -> None:
    set_holder(f"the background {kind} {name}")


async def _run_once(name: str, job: Callable[[], Awaitable[None]]) -> None:
    _hold_as("job", name)
    try:
        await job()
    except Exception:
        _log.exception("background job %s failed", name)


async def _repeat(task: PeriodicTask, statistics: TaskStatistics) -> None:
    _hold_as("task", task.name)
    if task.after is not None:
        await task.after()
    await trio.sleep(_wait_seconds(task.initial_delay_ms, task.jitter_ms))
    while True:
        try:
            await task.run()
        except Exception as error:
            statistics.failures += 1
            statistics.last_error = repr(error)
            if disk.is_full(error):
                _log.warning("background task %s has no room: %s", task.name, error)
            else:
                _log.exception(
                    "background task %s failed; it runs again in %g ms", task.name, _interval_ms(task)
                )
        statistics.runs += 1
        await trio.sleep(_wait_seconds(_interval_ms(task), task.jitter_ms))


def _interval_ms(task: PeriodicTask) -> float:
    interval_ms = task.interval_ms
    return interval_ms() if callable(interval_ms) else interval_ms


def _wait_seconds(delay_ms: float, jitter_ms: float) -> float:
    return (delay_ms + _random.uniform(0, jitter_ms)) / 1000
