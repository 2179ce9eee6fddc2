"""Background work that happens when a test says so, in the test's own thread; shielded jobs run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from tidelog.kernel.seams.tasks import BackgroundTask, PeriodicTask
from tidelog.kernel.tasks import BackgroundTasks


class ManualTasks(BackgroundTasks):
    """Periodic tasks wait for `run`, jobs in threads for `run_jobs`; `wait_for_jobs` runs them.

    Shielded jobs run as soon as the test awaits something, unless they are dropped before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.periodic: dict[str, PeriodicTask] = {}
        self.jobs: deque[tuple[str, Callable[[], object]]] = deque()
        self._dropped = False

    def start(self, task: BackgroundTask) -> None:
        """Keep a periodic task, which replaces an earlier one of its name; others are not run."""
        if isinstance(task, PeriodicTask):
            self.periodic[task.name] = task

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Keep a job."""
        self.jobs.append((name, job))

    def run_shielded(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """See `BackgroundTasks.run_shielded`."""

        async def run() -> None:
            if not self._dropped:
                await self._run_job(name, job)

        self._unfinished_jobs += 1
        trio.lowlevel.spawn_system_task(run, name=name)

    def drop_jobs(self) -> None:
        """Never run what has not begun yet, as if the process had ended."""
        self._dropped = True
        self.jobs.clear()

    async def run(self, name: str) -> None:
        """Run a periodic task once."""
        await self.periodic[name].run()

    def run_jobs(self) -> None:
        """Do all jobs, oldest first. Raises what a job raises; those behind it wait on."""
        while self.jobs:
            self.jobs.popleft()[1]()

    async def wait_for_jobs(self) -> None:
        """See `BackgroundTasks.wait_for_jobs`."""
        self.run_jobs()
        await super().wait_for_jobs()
