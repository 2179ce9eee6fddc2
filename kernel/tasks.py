"""Background work of the broker: named periodic tasks, and single jobs that run in a thread.

A periodic task waits its initial delay, then runs again and again with its interval (and jitter) between the
end of one run and the start of the next. A run that raises is logged and the task goes on: background work
never takes the broker down. Time is trio's clock, so a test with a mock clock needs no sleeping.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_log = logging.getLogger(__name__)

MAX_JOBS_IN_THREADS = 8
"""Jobs that run at once; the rest wait, so that a burst of rolls cannot starve other users of threads."""


@attrs.frozen
class PeriodicTask:
    """A named piece of work with its rhythm, in milliseconds.

    `jitter_ms` adds up to that much to each wait, so that many tasks do not wake at once.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    interval_ms: float
    initial_delay_ms: float = 0
    jitter_ms: float = 0


@attrs.define
class TaskStatistics:
    """What a periodic task did so far."""

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
        self._unfinished_jobs = 0
        self._jobs_done = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run until the block ends: periodic tasks are then cancelled, jobs in threads are waited for."""
        async with trio.open_nursery() as jobs:
            self._limiter = trio.CapacityLimiter(MAX_JOBS_IN_THREADS)
            self._jobs = jobs
            for name, job in self._waiting:
                jobs.start_soon(self._run_job, name, job)
            self._waiting.clear()
            async with trio.open_nursery() as periodic:
                self._nursery = periodic
                try:
                    yield
                finally:
                    self._nursery = None
                    periodic.cancel_scope.cancel()

    def start(self, task: PeriodicTask) -> None:
        """Begin a periodic task; its name shows up in `statistics`.

        Raises:
            RuntimeError: not running.
        """
        if self._nursery is None:
            raise RuntimeError(f"background task {task.name!r} was started while no broker runs")
        statistics = self._statistics.setdefault(task.name, TaskStatistics())
        self._nursery.start_soon(_repeat, task, statistics, name=task.name)

    def once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run `job` once on the event loop, soon; it is cancelled when the broker stops. Its error is logged.

        Raises:
            RuntimeError: not running.
        """
        if self._nursery is None:
            raise RuntimeError(f"background job {name!r} was started while no broker runs")
        self._nursery.start_soon(_run_once, name, job, name=name)

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Run `job` once in a thread, soon; it is waited for when the broker stops. Its error is logged."""

        async def run() -> None:
            await trio.to_thread.run_sync(job, limiter=self._limiter)

        self.run_shielded(name, run)

    def run_shielded(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Run `job` on the event loop, soon; it is never cancelled, and waited for when the broker stops.

        For what has to be done whether or not the request that caused it is still there. Its error is
        logged.
        """
        self._unfinished_jobs += 1
        if self._limiter is None:
            self._waiting.append((name, job))
        else:
            self._jobs.start_soon(self._run_job, name, job)

    async def wait_for_jobs(self) -> None:
        """Wait until no job is left that was given to `in_thread` or `run_shielded`."""
        while self._unfinished_jobs:
            await self._jobs_done.wait()

    def statistics(self) -> dict[str, TaskStatistics]:
        """Name → what that task did so far."""
        return dict(self._statistics)

    async def _run_job(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        with trio.CancelScope(shield=True):
            try:
                await job()
            except OSError as error:
                _log.error("background job %s failed: %s", name, error)
            except Exception:
                _log.exception("background job %s failed", name)
        self._unfinished_jobs -= 1
        if not self._unfinished_jobs:
            self._jobs_done.set()
            self._jobs_done = trio.Event()


async def _run_once(name: str, job: Callable[[], Awaitable[None]]) -> None:
    try:
        await job()
    except Exception:
        _log.exception("background job %s failed", name)


async def _repeat(task: PeriodicTask, statistics: TaskStatistics) -> None:
    await trio.sleep(_wait_seconds(task.initial_delay_ms, task.jitter_ms))
    while True:
        try:
            await task.run()
        except Exception as error:
            statistics.failures += 1
            statistics.last_error = repr(error)
            _log.exception("background task %s failed; it runs again in %g ms", task.name, task.interval_ms)
        statistics.runs += 1
        await trio.sleep(_wait_seconds(task.interval_ms, task.jitter_ms))


def _wait_seconds(delay_ms: float, jitter_ms: float) -> float:
    return (delay_ms + random.uniform(0, jitter_ms)) / 1000
