"""What is told of log directories to those who ask."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidelog.kernel.seams.storage import LogDirectoryView, StoredPartition
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.moving.move import Move

_log = logging.getLogger(__name__)


def view_of(directory: LogDirectory, moves: Sequence[Move]) -> LogDirectoryView:
    """Blocking: a live directory's partitions, the copies in it, and the room on its file system."""
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
    total, usable = _room(directory)
    return LogDirectoryView(str(directory.path), partitions, total, usable)


def _room(directory: LogDirectory) -> tuple[int, int]:
    try:
        found = disk.statvfs(directory.path)
    except OSError as error:
        _log.warning("the file system of %s does not tell its size: %s", directory.path, error)
        return -1, -1
    return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
