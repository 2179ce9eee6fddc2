"""Background work that happens when a test says so, in the test's own thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidelog.kernel.tasks import BackgroundTasks, PeriodicTask


class ManualTasks(BackgroundTasks):
    """Periodic tasks wait for `run`, jobs for `run_jobs`; whoever waits for the jobs does them himself."""

    def __init__(self) -> None:
        super().__init__()
        self.periodic: dict[str, PeriodicTask] = {}
        self.jobs: deque[tuple[str, Callable[[], object]]] = deque()

    def start(self, task: PeriodicTask) -> None:
        """Keep a task; it takes the place of an earlier one of its name."""
        self.periodic[task.name] = task

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Keep a job."""
        self.jobs.append((name, job))

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
