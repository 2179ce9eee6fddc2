"""Splitting of a segment whose last offsets are too far from its base offset for its indexes.

Such segments were written by brokers older than the limit. The pieces replace it as compacted segments do, so
a crash leaves the one or the others. Source: Apache Kafka's `splitOverflowedSegment`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tidelog.kernel import disk
from tidelog.kernel.seams.indexes import MAX_RELATIVE_OFFSET, IndexPlace
from tidelog.plugins.storage_file.log_file import LogFile, iter_headers
from tidelog.plugins.storage_file.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
)
from tidelog.plugins.storage_file.segments.swap_files import decide, finish

COPY_BYTES = 1024 * 1024


def split_segment(place: IndexPlace, log: LogFile, size: int, index_suffixes: Sequence[str]) -> list[int]:
    """Blocking: replace a segment of `size` valid bytes by pieces; return their base offsets.

    The pieces have no indexes yet. An empty one is left only where the log begins.

    Raises:
        OSError: the disk refused; the segment is as it was, or the next start finishes.
    """
    pieces = list(_pieces(place.base_offset, log, size))
    for base, start, end in pieces:
        _copy(log, start, end, IndexPlace(place.directory, base, CLEANED_SUFFIX).path(LOG_SUFFIX))
    bases = [base for base, _, _ in pieces]

    def retire() -> None:
        for suffix in dict.fromkeys((*SEGMENT_SUFFIXES, *index_suffixes)):
            path = place.path(suffix)
            try:
                disk.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue

    decide(place.directory, bases)
    retire()
    finish(place.directory, bases)
    for suffix in dict.fromkeys((*SEGMENT_SUFFIXES, *index_suffixes)):
        disk.remove_if_there(place.path(suffix) + DELETED_SUFFIX)
    return [base for base in bases if _is_there(IndexPlace(place.directory, base).path(LOG_SUFFIX))]


def _is_there(path: str) -> bool:
    try:
        disk.stat(path)
    except FileNotFoundError:
        return False
    return True


def _pieces(base_offset: int, log: LogFile, size: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over base offset, first and end byte of each piece."""
    base, start = base_offset, 0
    for position, header in iter_headers(log, 0, size):
        if header.last_offset - base > MAX_RELATIVE_OFFSET:
            yield base, start, position
            base, start = header.base_offset, position
    yield base, start, size


def _copy(log: LogFile, start: int, end: int, path: str) -> None:
    fd = disk.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for at in range(start, end, COPY_BYTES):
            disk.write_all(fd, log.read_exactly(at, min(COPY_BYTES, end - at)), at - start)
        disk.fsync(fd)
    finally:
        disk.close(fd)
