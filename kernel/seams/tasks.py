"""The seam of background work, which runs beside the requests.

Time is trio's clock, so a test with a mock clock needs no sleeping. Everything here runs on the broker's
event loop: work that waits for a device goes to a thread (`Tasks.in_thread`, `trio.to_thread.run_sync`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import attrs


@attrs.frozen
class PeriodicTask:
    """Work that is repeated: a name, an async function, and times in milliseconds.

    An interval that may be configured while the broker runs is a function.
    The first run comes after `initial_delay_ms`, each other one `interval_ms` after the end of the run
    before. `jitter_ms` adds up to that much to each wait, so that many tasks do not wake at once. An error of
    a run is logged, and the next run follows as usual. With `after`, nothing runs before
    `after()` returns: for work on something that is created on demand.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    interval_ms: float | Callable[[], float]
    initial_delay_ms: float = 0
    jitter_ms: float = 0
    after: Callable[[], Awaitable[object]] | None = None


class Lifespan(Protocol):
    """What a `LifespanTask` is handed: it reports that it is ready, and learns that the broker stops."""

    def ready(self) -> None:
        """Report that the task is ready; the broker serves no client before all tasks of its start are."""
        ...

    async def wait_stopping(self) -> None:
        """Wait until the broker stops: the last request is answered, partitions are still open."""
        ...


@attrs.frozen
class LifespanTask:
    """Work that runs for as long as the broker does: a name and an async function.

    `run(lifespan)` calls `lifespan.ready()` once it can be relied on, and returns soon after
    `lifespan.wait_stopping()` does: it has the rest of `shutdown.timeout.ms`, then it is
    cancelled. An error before it is ready stops the broker's start; a later one is logged, and the broker
    keeps running.
    """

    name: str
    run: Callable[[Lifespan], Awaitable[None]]


BackgroundTask: TypeAlias = PeriodicTask | LifespanTask


class Tasks(Protocol):
    """The jobs of one broker: work that is done once. Tasks go by the hook `tidelog_background_tasks`.

    The name of a job is that of its log lines.
    """

    def once(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run `job` once on the event loop, soon; it is cancelled when the broker stops. Its error is logged.

        Raises:
            RuntimeError: the broker does not run.
        """
        ...

    def in_thread(self, name: str, job: Callable[[], object]) -> None:
        """Run `job` in a thread, soon; it is waited for when the broker stops. Its error is logged.

        A job that raises an `OSError` of a full disk is run again, with growing pauses, until it does not or
        the broker stops.
        """
        ...

    def run_shielded(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Run `job` on the event loop, soon; it is never cancelled, and waited for when the broker stops.

        For what has to be done whether or not the request that caused it is still there. Its error is
        logged.
        """
        ...
