"""The background work of a storage: periodic tasks, and closing the files of idle partitions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial

import trio

from tidelog.kernel import disk
from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.pace import Pace
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
    (
        keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
        "clean checkpoints",
        LogDirectory.write_owed,
    ),
)
"""An interval of 0 means that it is only done when the broker stops.

What a full disk refuses is written at the next time.
"""


class BackgroundWork:
    """The background work of one storage."""

    def __init__(
        self, context: StorageContext, directories: LogDirectories, failed: FailedDirectories
    ) -> None:
        self._context = context
        self._directories = directories
        self._failed = failed
        self._loop: trio.lowlevel.TrioToken | None = None

    def open(self) -> None:
        """Note the event loop; the storage is open."""
        self._loop = trio.lowlevel.current_trio_token()

    def tasks(self, moves: ReplicaMoves) -> Sequence[PeriodicTask]:
        """Return the periodic tasks of the open storage."""
        config = self._context.config
        # As in Apache Kafka: deleted partitions wait for it, files of deleted segments do not.
        initial_delay_ms = config[kernel_keys.LOG_INITIAL_TASK_DELAY_MS]
        deletion_ms, idle_ms = DELETION_INTERVAL_MS, IDLE_CHECK_INTERVAL_MS
        # The key has no lower bound, as in Apache Kafka, and a task without any interval would never pause.
        high_watermarks_ms = max(config[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], 1)
        checkpoints = [
            PeriodicTask(name, partial(self._in_each_directory, write), config[key], initial_delay_ms)
            for key, name, write in _CHECKPOINTS
            if config[key]
        ]
        return (
            # The first two wait for their work themselves, so they need no interval.
            PeriodicTask("log-dir-failure-handler", self._failed.take_next, 0),
            PeriodicTask("log-dir-moves", moves.run_next, 0),
            PeriodicTask("delete segment files", self._remove_files, deletion_ms, deletion_ms),
            PeriodicTask("close idle files", self._check_idle, idle_ms, idle_ms),
            PeriodicTask("delete partitions", self._remove_partitions, deletion_ms, initial_delay_ms),
            *checkpoints,
            PeriodicTask("checkpoint high watermarks", self._write_high_watermarks, high_watermarks_ms),
        )

    def release_idle(self) -> None:
        """Close files of partitions that were not used since the last time; any thread may call this.

        Only the event loop closes them: it appends through bare descriptors, and one that another thread
        closed in the middle of an append would be no file any more, or that of another one.
        """
        if not trio.lowlevel.in_trio_run():
            if self._loop is not None:
                with contextlib.suppress(trio.RunFinishedError):
                    # Many threads may reach the budget at once, and one run serves them all.
                    self._loop.run_sync_soon(self.release_idle, idempotent=True)
            return
        for directory in self._directories:
            # A copy, since partitions are deleted in a thread.
            for store in list(directory.stores.values()):
                store.release_idle()

    async def _remove_files(self) -> None:
        for directory in self._directories:
            await directory.deletions.remove_files()

    async def _remove_partitions(self) -> None:
        for directory in self._directories:
            await directory.deletions.remove_partitions()

    async def _check_idle(self) -> None:
        pace = Pace()
        for directory in self._directories:
            for name, store in list(directory.stores.items()):
                # It may have been deleted or moved meanwhile.
                if directory.stores.get(name) is store:
                    store.release_idle()
                await pace.turn()

    async def _write_high_watermarks(self) -> None:
        known = self._context.high_watermarks()
        await self._in_each_directory(lambda directory: directory.write_high_watermarks(known))

    async def _in_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in self._directories:
            try:
                await trio.to_thread.run_sync(write, directory)
            except OSError as error:
                if not disk.is_full(error):
                    _log.error("no checkpoint can be written in %s: %s", directory.path, error)
                self._failed.disk_failed(directory, error)
