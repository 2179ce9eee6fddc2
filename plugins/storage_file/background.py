"""The periodic tasks of a storage."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.seams.storage import StorageContext
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.directories.deletion import INTERVAL_MS as DELETION_INTERVAL_MS
from tidelog.plugins.storage_file.directories.failed_directories import FailedDirectories
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.moving.replica_moves import ReplicaMoves

_log = logging.getLogger(__name__)

IDLE_CHECK_INTERVAL_MS = 60_000
"""Files of partitions that were used in neither of two such intervals are closed."""

_CHECKPOINTS = (
    (
        keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
        "checkpoint recovery points",
        LogDirectory.write_recovery_points,
    ),
    (
        keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
        "checkpoint log starts",
        LogDirectory.write_log_starts,
    ),
)
"""An interval of 0 means that it is only done when the broker stops."""


class BackgroundWork:
    """The periodic tasks of an open storage."""

    def __init__(
        self, context: StorageContext, directories: LogDirectories, failed: FailedDirectories
    ) -> None:
        self._context = context
        self._directories = directories
        self._failed = failed
        self._loop: trio.lowlevel.TrioToken | None = None

    def start(self, moves: ReplicaMoves) -> None:
        """Start them all, on the event loop."""
        self._loop = trio.lowlevel.current_trio_token()
        self._start("log-dir-failure-handler", self._failed.take_next, 0)
        self._start("log-dir-moves", moves.run_next, 0)
        self._every(DELETION_INTERVAL_MS, "delete segment files", self._remove_files)
        self._every(IDLE_CHECK_INTERVAL_MS, "close idle files", self._check_idle)
        config = self._context.config
        # As in Apache Kafka: deleted partitions wait for it, files of deleted segments do not.
        initial_delay_ms = config[kernel_keys.LOG_INITIAL_TASK_DELAY_MS]
        self._start("delete partitions", self._remove_partitions, DELETION_INTERVAL_MS, initial_delay_ms)
        for key, name, write in _CHECKPOINTS:
            if config[key]:
                task = partial(self._in_each_directory, write)
                self._start(name, task, config[key], initial_delay_ms)
        interval_ms = max(config[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], 1)
        self._start("checkpoint high watermarks", self._write_high_watermarks, interval_ms)

    def release_idle(self) -> None:
        """Close files of partitions that were not used since the last time; any thread may call this.

        Only the event loop closes them: it appends through bare descriptors, and one that another thread
        closed in the middle of an append would be no file any more, or that of another one.
        """
        if not trio.lowlevel.in_trio_run():
            if self._loop is not None:
                with contextlib.suppress(trio.RunFinishedError):
                    self._loop.run_sync_soon(self.release_idle, idempotent=True)
            return
        for directory in self._directories:
            # A copy, since partitions are deleted in a thread.
            for store in list(directory.stores.values()):
                store.release_idle()

    def _start(
        self, name: str, run: Callable[[], Awaitable[None]], interval_ms: int, delay_ms: int = 0
    ) -> None:
        self._context.tasks.start(PeriodicTask(name, run, interval_ms, delay_ms))

    def _every(self, interval_ms: int, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._start(name, run, interval_ms, interval_ms)

    async def _remove_files(self) -> None:
        for directory in self._directories:
            await directory.deletions.remove_files()

    async def _remove_partitions(self) -> None:
        for directory in self._directories:
            await directory.deletions.remove_partitions()

    async def _check_idle(self) -> None:
        self.release_idle()

    async def _write_high_watermarks(self) -> None:
        known = self._context.high_watermarks()
        await self._in_each_directory(lambda directory: directory.write_high_watermarks(known))

    async def _in_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in self._directories:
            try:
                await trio.to_thread.run_sync(write, directory)
            except OSError as error:
                _log.error("no checkpoint can be written in %s: %s", directory.path, error)
                self._failed.disk_failed(directory, error)
