"""Log directories that fail: whoever sees it offers the directory, one task takes it from there.

Each directory is taken once, so the channel never fills up. Source: seed 001, "Disk failure".
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from tidelog.plugins.storage_file import disk

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.directories.log_directory import LogDirectory

_NOT_THE_DISK = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        # A file that somebody has cut while it was read.
        errno.ENODATA,
    }
)


def tells_of_the_disk(error: OSError, root: Path) -> bool:
    """Whether an error of a file operation below `root` means that the log directory has failed.

    What the process ran out of does not, nor does what somebody else has put there. A file that is not there
    is somebody's deletion, unless the directory itself is gone.
    """
    if error.errno in _NOT_THE_DISK:
        return False
    if error.errno == errno.ENOENT:
        return _is_gone(root)
    return True


def _is_gone(root: Path) -> bool:
    try:
        disk.stat(root)
    except OSError:
        return True
    return False


class FailureChannel:
    """From any thread to the one task that takes directories out of service."""

    def __init__(self, directories: int) -> None:
        """For so many directories, made on the event loop."""
        self._token = trio.lowlevel.current_trio_token()
        self._sender, self._receiver = trio.open_memory_channel["tuple[LogDirectory, str]"](directories)
        self._offered: set[LogDirectory] = set()
        self._offering = threading.Lock()

    def offer(self, directory: LogDirectory, reason: str) -> None:
        """Note that a directory failed; any thread may call this, however often."""
        with self._offering:
            if directory in self._offered:
                return
            self._offered.add(directory)
        try:
            self._token.run_sync_soon(self._sender.send_nowait, (directory, reason))
        except trio.RunFinishedError:
            return

    async def take(self) -> tuple[LogDirectory, str]:
        """Wait for the next directory that failed, and why."""
        return await self._receiver.receive()
