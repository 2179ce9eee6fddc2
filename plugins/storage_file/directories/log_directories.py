"""All log directories of a broker, online and offline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tidelog.kernel.errors import LogDirNotFound, StorageError
from tidelog.kernel.ids import new_id
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.storage_file.directories.log_directory import DirectoryUnusable, LogDirectory

_log = logging.getLogger(__name__)


class LogDirectories:
    """The directories in service, in the order of `log.dirs`; `offline` says why others are not.

    `metadata_directory` is the one with the files of the metadata store, once it is known, None if that store
    has none; without it the broker cannot run. It may be apart from the others. `cluster_id` is in each
    `meta.properties` once they are identified.
    """

    def __init__(self) -> None:
        self.in_service: list[LogDirectory] = []
        self.offline: dict[Path, str] = {}
        self.cluster_id = ""
        self.metadata_directory: LogDirectory | None = None
        self._apart: list[LogDirectory] = []

    def __iter__(self) -> Iterator[LogDirectory]:
        """Iterate over those in service now, even if one fails meanwhile."""
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
        """Return whether the broker can run without it."""
        return directory is not self.metadata_directory and len(self.in_service) > 1

    def drop(self, directory: LogDirectory, reason: str) -> None:
        """Continue without one that failed while the broker starts; its lock is still held."""
        self.in_service.remove(directory)
        self._lose_at_start(directory.path, reason)

    def _lose_at_start(self, path: Path, reason: str) -> None:
        _log.error("log directory %s is offline until a restart finds it well: %s", path, reason)
        self.offline[path] = reason

    def at(self, path: str) -> LogDirectory:
        """Return the one in service at a path.

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
        """Return the one in which a partition is open, None without one."""
        return next((each for each in self.in_service if partition in each.stores), None)

    def containing(self, has_files: Callable[[Path], bool]) -> list[Path]:
        """Blocking: return the paths of those for which `has_files` returns true."""
        found: list[Path] = []

        def look(directory: LogDirectory) -> None:
            if has_files(directory.path):
                found.append(directory.path)

        self.each(look)
        return found

    def set_metadata_directory(self, path: Path) -> None:
        """Blocking: note the one with the files of the metadata store, and lock it if it is none of these.

        Raises:
            DirectoryUnusable: it cannot be used.
        """
        self.metadata_directory = next((each for each in self.in_service if each.path == path), None)
        if self.metadata_directory is None:
            self.metadata_directory = LogDirectory(path)
            self._apart = [self.metadata_directory]

    def identify(self, node_id: int, now_ms: int) -> None:
        """Blocking: check the ids in each `meta.properties`, and write those that are missing.

        Raises:
            ConfigError: a directory belongs to another cluster or node.
        """
        found: str | None = None

        def claim(directory: LogDirectory) -> None:
            nonlocal found
            found = directory.claim(found, node_id)

        # All are checked before any is written: a directory of another cluster must not leave the others with
        # ids of this one.
        for apart in self._apart:
            claim(apart)
        self.each(claim)
        self.cluster_id = found or new_id()
        for apart in self._apart:
            apart.identify(self.cluster_id, node_id, now_ms)
        self.each(lambda directory: directory.identify(self.cluster_id, node_id, now_ms))

    def all(self) -> list[LogDirectory]:
        """Return those in service, and that of the metadata store."""
        return [*self.in_service, *self._apart]

    def release(self) -> None:
        """Release all as they are, as the end of the process would."""
        for directory in self.all():
            directory.release()
        self.in_service = []
