"""Log directories that fail while the broker runs, and are taken offline.

Any thread that gets a disk error offers the directory to one task, which takes it offline. Each directory is
taken once, so the channel never fills up. Source: KIP-112, KIP-858.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.storage import StorageContext, TopicPartition
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.disk_errors import means_failed_directory

_log = logging.getLogger(__name__)

FULL_INTERVAL_SECONDS = 60.0
"""A full directory is refused many operations a second; it is logged this often."""


class FailureChannel:
    """Channel from any thread to the task that takes directories offline."""

    def __init__(self, directories: int) -> None:
        """Create a channel for that many directories, on the event loop."""
        self._token = trio.lowlevel.current_trio_token()
        self._sender, self._receiver = trio.open_memory_channel[tuple[LogDirectory, str]](directories)
        self._offered: set[LogDirectory] = set()
        self._offering = threading.Lock()

    def offer(self, directory: LogDirectory, reason: str) -> None:
        """Report that a directory failed; any thread may call this, repeatedly."""
        with self._offering:
            if directory in self._offered:
                return
            self._offered.add(directory)
        try:
            # Only the event loop may use the channel. It has room: each directory is offered once.
            self._token.run_sync_soon(self._sender.send_nowait, (directory, reason))
        except trio.RunFinishedError:
            return

    async def take(self) -> tuple[LogDirectory, str]:
        """Wait for the next directory that failed, and why."""
        return await self._receiver.receive()


class FailedDirectories:
    """Takes directories offline: errors are reported to `disk_failed` and handled by the task `take_next`.

    `partitions` are those of failed directories, with the reason.
    """

    def __init__(
        self,
        context: StorageContext,
        directories: LogDirectories,
        give_up_moves: Callable[[LogDirectory], None],
    ) -> None:
        """`give_up_moves` is called with a directory that failed, the directories are still to be opened."""
        self.partitions: dict[TopicPartition, str] = {}
        self._context = context
        self._directories = directories
        self._give_up_moves = give_up_moves
        self._channel: FailureChannel | None = None
        self._closing = False
        self._full = RateLimit(FULL_INTERVAL_SECONDS)

    def listen(self, directories: int) -> None:
        """Accept reports from now on, of at most that many directories; called on the event loop."""
        self._channel = FailureChannel(directories)

    def stop_listening(self) -> None:
        """Ignore further reports: the storage closes, and handles errors itself."""
        self._closing = True

    def disk_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline if an error in it is the disk's; any thread may call this.

        A full one stays in service: appends are refused, other writes are tried again.
        """
        if disk.is_full(error) and self._full.admit(str(directory.path)) is not None:
            _log.warning(
                "log directory %s is full: appends are refused, other writes wait until there is room: %s",
                directory.path, error,
            )  # fmt: skip
        if self._channel is not None and not self._closing and means_failed_directory(error, directory.path):
            self._channel.offer(directory, str(error))

    async def take_next(self) -> None:
        """Take the next directory that failed offline."""
        if self._channel is None:
            return
        directory, reason = await self._channel.take()
        if not self._closing:
            await self._handle(directory, reason)

    async def _handle(self, directory: LogDirectory, reason: str) -> None:
        if directory in self._directories:
            await self._take_out(directory, reason)
        if self._closing:
            # The storage has taken the other directories out of service meanwhile.
            return
        if directory is self._directories.metadata_directory:
            self._context.halt(
                f"the log directory {directory.path}, which has the metadata log, failed: {reason}"
            )
        elif not self._directories:
            self._context.halt(f"all log directories have failed, at last {directory.path}: {reason}")
        else:
            await self._record(directory)

    async def _take_out(self, directory: LogDirectory, reason: str) -> None:
        lost = sorted(directory.stores)
        _log.error(
            "log directory %s failed and is offline until a restart, with %d partitions: %s",
            directory.path, len(lost), reason,
        )  # fmt: skip
        # First: what the calls below start (new partitions, moves, checkpoints) must not choose it. There is
        # no trio checkpoint up to the thread, so no request meets a directory that is half offline.
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

    async def _record(self, directory: LogDirectory) -> None:
        """Have the failure recorded durably; a broker that cannot do so in time must end."""
        timeout_ms = self._context.config[keys.LOG_DIR_FAILURE_TIMEOUT_MS]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._halt_after, timeout_ms, directory)
            try:
                await self._context.directory_failed(directory.id_bytes, sorted(directory.stores))
            except (OSError, StorageError) as error:
                self._context.halt(f"the failure of {directory.path} cannot be noted: {error}")
            nursery.cancel_scope.cancel()

    async def _halt_after(self, timeout_ms: int, directory: LogDirectory) -> None:
        await trio.sleep(timeout_ms / 1000)
        self._context.halt(
            f"the failure of {directory.path} could not be noted within log.dir.failure.timeout.ms"
        )
