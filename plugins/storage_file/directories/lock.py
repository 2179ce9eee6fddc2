"""`.lock`, the lock of a log directory: one broker at a time uses it, tidelog or Apache Kafka."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError

LOCK_FILE = ".lock"

# The system's record locks belong to a process, so they cannot exclude two brokers in one process.
_locked_here: set[Path] = set()


class DirectoryLock:
    """Exclusive lock, held until `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        """Take the lock.

        Raises:
            ConfigError: another broker holds it.
        """
        self._directory = directory.resolve()
        # Before the file is opened: closing any descriptor of it would release the lock that this process
        # holds.
        if self._directory in _locked_here:
            raise _in_use(directory)
        self._fd = disk.open_file(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            # Record locks, not flock: they are what Java takes.
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            disk.close(self._fd)
            if isinstance(error, BlockingIOError | PermissionError):
                raise _in_use(directory) from None
            raise
        _locked_here.add(self._directory)

    def release(self) -> None:
        """Release the lock; the file stays, as in Apache Kafka."""
        # Another broker of this process would get a lock in between that this close releases.
        disk.close(self._fd)
        _locked_here.discard(self._directory)


def _in_use(directory: Path) -> ConfigError:
    return ConfigError(
        f"log directory {directory} is in use by another broker (its {LOCK_FILE} is locked); stop that "
        "broker, or set log.dirs to another directory"
    )
