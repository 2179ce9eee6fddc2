"""All log directories of a broker: those in service, and those that are offline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidelog.kernel.errors import LogDirNotFound, StorageError
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.storage_file.directories.log_directory import DirectoryUnusable, LogDirectory

_log = logging.getLogger(__name__)


class LogDirectories:
    """The directories in service, in the order of `log.dirs`; `offline` says why others are not.

    `home` is the one with the metadata log, once it is known; without it the broker cannot go on. It may be
    apart from the others.
    """

    def __init__(self) -> None:
        self.in_service: list[LogDirectory] = []
        self.offline: dict[Path, str] = {}
        self.home: LogDirectory | None = None
        self._apart: list[LogDirectory] = []

    def __iter__(self) -> Iterator[LogDirectory]:
        """Those in service now, whatever becomes of them meanwhile."""
        return iter(tuple(self.in_service))

    def __len__(self) -> int:
        return len(self.in_service)

    def open(self, paths: Sequence[Path]) -> None:
        """Blocking: lock each; one that cannot be used is offline, unless none can.

        Raises:
            DirectoryUnusable: none can be used.
        """
        for path in paths:
            try:
                self.in_service.append(LogDirectory(path))
            except DirectoryUnusable as error:
                if len(self.offline) == len(paths) - 1:
                    raise
                self._lose_at_start(path, str(error))

    def each(self, step: Callable[[LogDirectory], object]) -> None:
        """Blocking: do something with every one; those that fail are offline, unless all do.

        Raises:
            OSError: the last one failed, or the one with the metadata log.
        """
        for directory in self:
            try:
                step(directory)
            except OSError as error:
                if not self.is_dispensable(directory):
                    raise
                self.drop(directory, str(error))
                directory.release()

    def is_dispensable(self, directory: LogDirectory) -> bool:
        """Whether the broker can go on without it."""
        return directory is not self.home and len(self.in_service) > 1

    def drop(self, directory: LogDirectory, reason: str) -> None:
        """Go on without one that failed while the broker starts; its lock is still held."""
        self.in_service.remove(directory)
        self._lose_at_start(directory.path, reason)

    def _lose_at_start(self, path: Path, reason: str) -> None:
        _log.error("log directory %s is offline until a restart finds it well: %s", path, reason)
        self.offline[path] = reason

    def at(self, path: str) -> LogDirectory:
        """The one in service at a path.

        Raises:
            StorageError: it is offline.
            LogDirNotFound: the broker has none there.
        """
        wanted = Path(path).absolute()
        for directory in self.in_service:
            if directory.path == wanted:
                return directory
        if wanted in self.offline:
            raise StorageError(f"log directory {wanted} is offline: {self.offline[wanted]}")
        raise LogDirNotFound(f"{path} is none of the log directories of this broker")

    def of(self, partition: TopicPartition) -> LogDirectory | None:
        """The one in which a partition is open."""
        return next((each for each in self.in_service if partition in each.stores), None)

    def know_home(self, home: LogDirectory, *, apart: bool) -> None:
        """Say which one has the metadata log, and whether it has no partitions."""
        self.home = home
        self._apart = [home] if apart else []

    def with_home(self) -> list[LogDirectory]:
        """Those in service, and that of the metadata log."""
        return [*self.in_service, *self._apart]

    def release(self) -> None:
        """Let go of all as they are, as the end of the process would."""
        for directory in self.with_home():
            directory.release()
        self.in_service = []
