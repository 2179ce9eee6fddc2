"""Description of log directories, and replica moves between them (KIP-113)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import trio

from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.storage import LogDirectoryView, PartitionSpec, StoredPartition, TopicPartition
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.moving.replica_moves import ReplicaMoves
from tidelog.plugins.storage_file.names import future_directory

_log = logging.getLogger(__name__)


class FileLogDirectoryAdmin:
    """`LogDirectoryAdmin` of the storage in files."""

    def __init__(
        self,
        directories: LogDirectories,
        moves: ReplicaMoves,
        failed_partitions: Mapping[TopicPartition, str],
        spec_of: Callable[[TopicPartition], PartitionSpec],
    ) -> None:
        """`failed_partitions` and why they failed, and `spec_of` an open partition, are those of now."""
        self._directories = directories
        self._moves = moves
        self._failed_partitions = failed_partitions
        self._spec_of = spec_of

    async def describe(self) -> Sequence[LogDirectoryView]:
        """Return the partitions and sizes of every directory, online or offline."""
        moves = self._moves.under_way()
        directories = tuple(self._directories)
        views = await trio.to_thread.run_sync(lambda: [_view_of(each, moves) for each in directories])
        offline = [
            LogDirectoryView(str(path), (), failure=why) for path, why in self._directories.offline.items()
        ]
        return sorted([*views, *offline], key=lambda view: view.path)

    async def move(self, partition: TopicPartition, path: str) -> None:
        """Begin a replica move to the directory at `path`."""
        target = self._directories.at(path)
        failure = self._failed_partitions.get(partition)
        if failure is not None:
            raise StorageError(f"{partition} is offline: {failure}")
        source = self._directories.of(partition)
        if source is None:
            raise StorageError(f"{partition} is not open")
        if source is target:
            self._moves.cancel([partition])
            return
        store = source.stores[partition]
        # With the configuration of now: the specification has the one that the partition was opened with.
        spec = self._spec_of(partition)._replace(config=TopicConfig(store.config.topic_values))
        self._moves.begin(ReplicaMove(spec, store, source, target, future_directory(partition)))


def _view_of(directory: LogDirectory, moves: Sequence[ReplicaMove]) -> LogDirectoryView:
    """Blocking: return a live directory's partitions, the copies in it, and the size of its file system."""
    # A copy of the stores: the event loop changes them while this thread iterates.
    partitions = [
        StoredPartition(key, store.size_bytes) for key, store in sorted(dict(directory.stores).items())
    ]
    partitions += [
        StoredPartition(
            move.partition,
            0 if (copy := move.copy) is None else copy.size_bytes,
            max(move.offset_lag, 0),
            is_future=True,
        )
        for move in moves
        if move.target is directory and move.partition in directory.futures
    ]
    total, usable = _file_system_size(directory)
    return LogDirectoryView(str(directory.path), partitions, total, usable)


def _file_system_size(directory: LogDirectory) -> tuple[int, int]:
    try:
        found = disk.statvfs(directory.path)
    except OSError as error:
        _log.warning("the file system of %s does not tell its size: %s", directory.path, error)
        return -1, -1
    return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
