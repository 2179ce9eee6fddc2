"""Taking log directories that fail out of service while the broker runs.

Source: seed 001, "Disk failure".
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.storage import StorageContext, TopicPartition
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.directories.failures import FailureChannel, tells_of_the_disk
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory

if TYPE_CHECKING:
    from tidelog.plugins.metadata_kraft.store import KraftMetadata

_log = logging.getLogger(__name__)


class Losses:
    """Whoever meets an error tells `disk_failed`; one task, `take_next`, does what follows from it.

    `partitions`: those that were lost, and why.
    """

    def __init__(
        self,
        context: StorageContext,
        directories: LogDirectories,
        metadata: Callable[[], KraftMetadata],
        give_up_moves: Callable[[LogDirectory], None],
    ) -> None:
        """For directories that are still to be opened, `metadata` and the moves are there once they are."""
        self.partitions: dict[TopicPartition, str] = {}
        self._context = context
        self._directories = directories
        self._metadata = metadata
        self._give_up_moves = give_up_moves
        self._channel: FailureChannel | None = None
        self._closing = False

    def listen(self, directories: int) -> None:
        """Begin to take what is told, on the event loop, of so many directories."""
        self._channel = FailureChannel(directories)

    def stop_listening(self) -> None:
        """What fails from now on concerns whoever closes it."""
        self._closing = True

    def disk_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Look, in any thread, at an error in a directory; if it is the disk's, the directory has failed."""
        if self._channel is not None and not self._closing and tells_of_the_disk(error, directory.path):
            self._channel.offer(directory, str(error))

    async def take_next(self) -> None:
        """Take the next directory that failed out of service."""
        if self._channel is None:
            return
        directory, reason = await self._channel.take()
        if self._closing:
            return
        if directory in self._directories:
            await self._lose(directory, reason)
        if directory is self._directories.home:
            self._context.halt(
                f"the log directory {directory.path}, which has the metadata log, failed: {reason}"
            )
        elif not self._directories:
            self._context.halt(f"all log directories have failed, at last {directory.path}: {reason}")
        else:
            await self._note(directory)

    async def _lose(self, directory: LogDirectory, reason: str) -> None:
        lost = sorted(directory.stores)
        _log.error(
            "log directory %s failed and is offline until a restart, with %d partitions: %s",
            directory.path, len(lost), reason,
        )  # fmt: skip
        self._directories.in_service.remove(directory)
        self._directories.offline[directory.path] = reason
        self._give_up_moves(directory)
        described = f"the log directory {directory.path} failed: {reason}"
        self.partitions.update(dict.fromkeys(lost, described))
        self._context.partitions_failed(lost, described)
        for store in directory.stores.values():
            store.fail(OSError(errno.EIO, described))
        # The lock of a file system that hangs may take its time.
        await trio.to_thread.run_sync(directory.release)

    async def _note(self, directory: LogDirectory) -> None:
        """Write the loss into the metadata log; a broker that cannot do so in time must end."""
        timeout_ms = self._context.config[keys.LOG_DIR_FAILURE_TIMEOUT_MS]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._halt_after, timeout_ms, directory)
            try:
                await self._metadata().lose_directory(directory.id_bytes, sorted(directory.stores))
            except (OSError, StorageError) as error:
                self._context.halt(f"the failure of {directory.path} cannot be noted: {error}")
            nursery.cancel_scope.cancel()

    async def _halt_after(self, timeout_ms: int, directory: LogDirectory) -> None:
        await trio.sleep(timeout_ms / 1000)
        self._context.halt(
            f"the failure of {directory.path} could not be noted within log.dir.failure.timeout.ms"
        )
