"""Files of a partition's directory; interrupted deletions and replacements are undone or finished."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.plugins.storage_file.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    TXN_INDEX_SUFFIX,
    base_offset_of,
    is_side_file,
    segment_file,
)
from tidelog.plugins.storage_file.segments.swap_files import resolve

_log = logging.getLogger(__name__)

_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, disk.TEMPORARY_SUFFIX)


class SegmentFiles(NamedTuple):
    """Base offsets of the segments in order, names of the side files, and all names."""

    base_offsets: list[int]
    side_files: list[str]
    names: set[str]


def list_segment_files(
    directory: str, index_suffixes: Collection[str], foreign_suffixes: Collection[str]
) -> SegmentFiles:
    """Blocking: list a partition's directory; finish or undo interrupted deletions and replacements.

    `index_suffixes` are those of the partition's index format. Files with `foreign_suffixes` are of another
    one, which it had before; they are removed, since they would be stale when it is changed back.
    """
    names: set[str] = set()
    with disk.scandir(directory) as entries:
        for entry in entries:
            names.add(entry.name)
    for name in [name for name in names if name.endswith(_LEFTOVER_SUFFIXES)]:
        disk.remove_if_there(f"{directory}/{name}")
        names.discard(name)
    resolve(directory, names)
    _remove_foreign(directory, names, foreign_suffixes)
    bases = sorted(
        base for name in names if name.endswith(LOG_SUFFIX) and (base := base_offset_of(name)) is not None
    )
    _remove_orphans(directory, names, set(bases), (*index_suffixes, TXN_INDEX_SUFFIX))
    return SegmentFiles(bases, [name for name in names if is_side_file(name)], names)


def _remove_foreign(directory: str, names: set[str], suffixes: Collection[str]) -> None:
    foreign = [name for name in names if name.endswith(tuple(suffixes)) and base_offset_of(name) is not None]
    if foreign:
        _log.info("%s: %d index files of another format are removed", directory, len(foreign))
        for name in foreign:
            disk.remove_if_there(f"{directory}/{name}")
            names.discard(name)
        # Or else a loss of power could bring them back, stale.
        disk.sync_directory(directory)


def _remove_orphans(
    directory: str, names: set[str], bases: Collection[int], suffixes: tuple[str, ...]
) -> None:
    for name in list(names):
        if name.endswith(suffixes) and base_offset_of(name) not in bases:
            _log.warning("%s/%s belongs to no segment and is removed", directory, name)
            disk.remove_if_there(f"{directory}/{name}")
            names.discard(name)


def was_never_written(directory: str) -> bool:
    """Blocking: return whether a partition's directory has only what its creation makes."""
    made = {PARTITION_METADATA, *(segment_file(0, suffix) for suffix in SEGMENT_SUFFIXES)}
    with disk.scandir(directory) as entries:
        names = {entry.name for entry in entries}
    return names <= made and not holds_batches(f"{directory}/{segment_file(0, LOG_SUFFIX)}")


def holds_batches(log_path: str) -> bool:
    """Blocking: return whether a segment has any batch; one that was preallocated is all zeros."""
    try:
        fd = disk.open_file(log_path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return any(disk.read_up_to(fd, HEADER_BYTES, 0))
    finally:
        disk.close(fd)
