"""The worker processes of a broker: how many there are, and for how long they are kept."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.config import Config
from tidelog.kernel.importing import import_in_thread
from tidelog.kernel.seams.tasks import Lifespan
from tidelog.plugins.cleaner import keys

if TYPE_CHECKING:
    from tidelog.plugins.cleaner.execution.rewriting import Worker
    from tidelog.plugins.cleaner.worker.process import WorkerProcess

_STANDSTILL: Final = 1e-6
"""Bytes per second with which a worker waits until the rate is changed: it divides by it."""
REWRITING: Final = "tidelog.plugins.cleaner.execution.rewriting"
KEPT_S: Final = 60.0
"""For so long, and up to twice as long, a worker waits for its next log."""


class Workers:
    """The worker processes of a broker, `log.cleaner.threads` of them at most.

    While `keep` runs, one without work waits for the next rewrite: to start a process takes longer than to
    rewrite a small log.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._busy: list[WorkerProcess] = []
        self._free = trio.Condition()
        self._idle: dict[WorkerProcess, float] = {}
        """Those without work, and since when."""
        self._keeps = False
        # Linux kills a worker when the thread that started it ends, and trio ends its threads when they idle.
        self._starter = ThreadPoolExecutor(1, "start of cleanup workers")

    @property
    def most(self) -> int:
        """How many may work at once."""
        return self._config[keys.LOG_CLEANER_THREADS]

    async def keep(self, lifespan: Lifespan) -> None:
        """Keep workers for some time when they have no work, until the broker stops."""
        lifespan.ready()
        self._keeps = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_idle)
                await lifespan.wait_stopping()
                nursery.cancel_scope.cancel()
        finally:
            self._keeps = False
            await self._end(tuple(self._idle))

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[Worker]:
        """Wait until one more may work, and have it work until the block ends.

        Raises:
            OSError: the process cannot be started.
        """
        # Not at the top: most brokers have nothing to rewrite for long.
        rewriting = await import_in_thread(partial(import_module, REWRITING))
        async with self._free:
            while len(self._busy) >= max(self.most, 1):
                await self._free.wait()
            process = await self._idle_or_new()
            self._busy.append(process)
        worker: Worker = rewriting.Worker(process, self._config, self.bytes_per_second)
        try:
            yield worker
        finally:
            with trio.CancelScope(shield=True):
                # `_end` kills idle ones only. One in the middle of a job must not be used again: its messages
                # would be taken for answers to the next job.
                self._idle[process] = trio.current_time()
                if worker.works or not self._keeps:
                    await self._end([process])
                async with self._free:
                    self._busy.remove(process)
                    self._free.notify_all()

    async def _idle_or_new(self) -> WorkerProcess:
        while self._idle:
            process, _ = self._idle.popitem()
            if not process.has_ended:
                return process
        return await trio.to_thread.run_sync(lambda: self._starter.submit(_new_process).result())

    async def _end_idle(self) -> None:
        while True:
            await trio.sleep(KEPT_S)
            now = trio.current_time()
            await self._end([process for process, since in self._idle.items() if now - since >= KEPT_S])

    async def _end(self, processes: Iterable[WorkerProcess]) -> None:
        """Kill those of these processes that are idle."""
        with trio.CancelScope(shield=True):
            for process in processes:
                # While another one was killed, it may have got work.
                if self._idle.pop(process, None) is not None:
                    await trio.to_thread.run_sync(process.kill)

    def bytes_per_second(self) -> float:
        """Return the share of each busy worker in `log.cleaner.io.max.bytes.per.second`."""
        rate = self._config[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND]
        if rate < 0:
            return sys.float_info.max
        return max(rate / max(len(self._busy), 1), _STANDSTILL)


def _new_process() -> WorkerProcess:
    """Blocking: start a process, and import what that needs, which would hold up the event loop."""
    from tidelog.plugins.cleaner.worker.process import WorkerProcess

    return WorkerProcess()
