"""What lies in a partition's directory; what an interrupted change left over is resolved."""

from __future__ import annotations

import logging
import os

import attrs

from tidelog.kernel.errors import StorageError
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    base_offset_of,
    segment_file,
)
from tidelog.plugins.storage_file.side_files import is_side_file

_log = logging.getLogger(__name__)

_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, CLEANED_SUFFIX, disk.TEMPORARY_SUFFIX)
_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@attrs.define
class SegmentFiles:
    """Base offsets of the segments in order, names of the side files, and all names."""

    base_offsets: list[int]
    side_files: list[str]
    names: set[str]


def list_segment_files(directory: str) -> SegmentFiles:
    """Blocking: read a partition's directory; what an interrupted deletion or replacement left is removed.

    Raises:
        StorageError: an interrupted compaction has to be finished first.
    """
    names: set[str] = set()
    with disk.scandir(directory) as entries:
        for entry in entries:
            names.add(entry.name)
    for name in [name for name in names if name.endswith(_LEFTOVER_SUFFIXES)]:
        disk.remove_if_there(f"{directory}/{name}")
        names.discard(name)
    if any(name.endswith(SWAP_SUFFIX) for name in names):
        raise StorageError(
            f"{directory} has {SWAP_SUFFIX} files of an interrupted compaction; start the broker that was "
            "compacting once and stop it properly"
        )
    bases = sorted(
        base for name in names if name.endswith(LOG_SUFFIX) and (base := base_offset_of(name)) is not None
    )
    _remove_orphans(directory, names, set(bases))
    return SegmentFiles(bases, [name for name in names if is_side_file(name)], names)


def _remove_orphans(directory: str, names: set[str], bases: set[int]) -> None:
    for name in list(names):
        if name.endswith(_INDEX_SUFFIXES) and base_offset_of(name) not in bases:
            _log.warning("%s/%s belongs to no segment and is removed", directory, name)
            disk.remove_if_there(f"{directory}/{name}")
            names.discard(name)


def was_never_written(directory: str) -> bool:
    """Blocking: whether a partition's directory has nothing but what its creation makes."""
    made = {PARTITION_METADATA, *(segment_file(0, suffix) for suffix in SEGMENT_SUFFIXES)}
    with disk.scandir(directory) as entries:
        names = {entry.name for entry in entries}
    return names <= made and not holds_batches(f"{directory}/{segment_file(0, LOG_SUFFIX)}")


def holds_batches(log_path: str) -> bool:
    """Blocking: whether anything was ever written to a segment; one that was preallocated is all zeros."""
    try:
        fd = disk.open_file(log_path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return any(disk.pread(fd, HEADER_BYTES, 0))
    finally:
        disk.close(fd)
