"""Copies that moves left in `-future` directories when the broker stopped in the middle of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.stray_partitions import KnownTopics, move_aside
from tidelog.plugins.storage_file.names import delete_directory, stray_directory

_log = logging.getLogger(__name__)


def resolve_copies(directories: Sequence[LogDirectory], known: KnownTopics) -> None:
    """Blocking: finish moves that were decided, and drop copies that are of no use.

    Those that are left in `LogDirectory.futures` afterwards are to be gone on with.
    """
    resumed: set[TopicPartition] = set()
    for directory in directories:
        for partition in sorted(directory.futures):
            homes = [home for home in directories if partition in home.folders]
            if not known.has(partition):
                _rename(directory, partition, stray_directory(partition))
            elif known.assigned(partition) == directory.id_bytes and directory not in homes:
                _finish(directory, partition, homes)
            elif directory in homes or partition in resumed:
                path = _rename(directory, partition, delete_directory(partition))
                directory.leftovers.append(path)
            elif not homes:
                name = directory.futures.pop(partition)
                _log.warning("%s/%s is left alone: what it is a copy of is offline", directory.path, name)
            else:
                resumed.add(partition)


def _finish(directory: LogDirectory, partition: TopicPartition, homes: Sequence[LogDirectory]) -> None:
    """The copy has everything, and the metadata names its directory: it takes its place."""
    _log.warning("%s has moved to %s: a crash came before the last step", partition, directory.path)
    disk.rename(f"{directory.path}/{directory.futures.pop(partition)}", directory.partition_path(partition))
    disk.sync_directory(directory.path)
    directory.found(partition)
    for home in homes:
        path = move_aside(home, partition, stray_directory(partition))
        _log.warning("what was left of %s in its old place is %s; it can be removed", partition, path)


def _rename(directory: LogDirectory, partition: TopicPartition, name: str) -> str:
    target = f"{directory.path}/{name}"
    disk.rename(f"{directory.path}/{directory.futures.pop(partition)}", target)
    return target
