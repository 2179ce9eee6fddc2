"""Catching up: a log is copied into its future replica, batch by batch, as a follower would.

Memory is bounded by a chunk, or by one batch where that is larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import BatchHeader
from tidelog.kernel.records.stored import earliest_offset, iter_stored
from tidelog.kernel.seams.storage import region_bytes

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.partition_store import FilePartitionStore

CHUNK_BYTES = 1024 * 1024
AT_ONCE_BYTES = 4 * CHUNK_BYTES
"""The most that is copied on the event loop, between two appends: it takes a few milliseconds."""


class StartOver(Exception):
    """The log was truncated, or its oldest segments deleted, so that the copy does not fit it any more."""


def first_offset(source: FilePartitionStore) -> int:
    """Blocking: return the base offset that a copy begins with."""
    start = source.log_start_offset
    header = next(iter(source.headers(start)), None)
    return source.log_end_offset if header is None else min(start, header.base_offset)


class CatchUp:
    """The copying of the log `source` into `target`, by one thread at a time or by the event loop."""

    def __init__(self, source: FilePartitionStore, target: FilePartitionStore) -> None:
        """Continue where `target` ends, whose batches are those of `source`."""
        self.source = source
        self.target = target
        # A copy that was recovered has lost its transaction indexes, so these are copied from the beginning.
        self._aborted_from = 0

    def catch_up(self, wanted: Callable[[], bool], limit_bytes: float = math.inf) -> int:
        """Blocking: copy until hardly anything is missing, `wanted()` is false or `limit_bytes` are reached.

        Return the number of bytes.

        Raises:
            StartOver: the copy does not fit the log any more.
            OSError, BrokerError: a disk refused, or the log is damaged.
        """
        copied = 0
        # Unequal, not less: a log that was truncated below its copy has to end in `StartOver`, too.
        while wanted() and self.source.log_end_offset != self.target.log_end_offset:
            size = self._copy_chunk(wait=True)
            copied += size
            # A short chunk may also be the end of a segment with others behind it.
            in_last_segment = self.target.log_end_offset >= self.source.log.segments.active.base_offset
            if size < CHUNK_BYTES // 2 and in_last_segment:
                break
            if copied >= limit_bytes:
                break
        self._copy_aborted(wait=True)
        return copied

    def copy_the_rest(self) -> bool:
        """Copy what is missing, on the event loop, if it is not much; return whether nothing is missing.

        Raises:
            WouldBlock: a device would have to be waited for.
            StartOver, OSError, BrokerError: as for `catch_up`.
        """
        copied = 0
        while self.source.log_end_offset != self.target.log_end_offset:
            if copied > AT_ONCE_BYTES:
                return False
            copied += self._copy_chunk(wait=False)
        self._copy_aborted(wait=False)
        return True

    def _copy_chunk(self, *, wait: bool) -> int:
        source, target = self.source, self.target
        start, end = target.log_end_offset, source.log_end_offset
        if start > end or (start < source.log_start_offset and target.size_bytes):
            raise StartOver
        if start == end:
            return 0
        found = source.read_batches(max(start, source.log_start_offset), CHUNK_BYTES, end, wait=wait)
        copied = 0
        for header, batch in iter_stored(memoryview(b"".join(map(region_bytes, found.regions)))):
            if header.base_offset >= target.log_end_offset:
                first = earliest_offset(header, target.log_end_offset)
                target.append_batch(batch, first, header.last_offset, header.max_timestamp)
                copied += header.size
        if not found.size:
            # A loss of power may leave an empty segment behind a gap; its offsets are not assigned again.
            target.log.roll(end)
            return 0
        if not copied:
            raise CorruptBatch(f"{source.topic_partition} has no batch at offset {start}")
        self._copy_aborted(wait=wait)
        return copied

    def _copy_aborted(self, *, wait: bool) -> None:
        """Copy the entries of the transaction indexes whose markers were copied.

        While a thread copies, a marker may be in the log before its entry is in the index. So entries are
        searched from the last one that was copied on, and once more on the event loop.
        """
        start, reached = self._aborted_from, self.target.log_end_offset
        if start >= reached:
            return
        for aborted in self.source.aborted_transactions(start, reached, wait=wait):
            if start <= aborted.last_offset < reached:
                self.target.add_aborted(aborted)
                self._aborted_from = aborted.last_offset + 1


def is_prefix(copy: FilePartitionStore, source: FilePartitionStore) -> bool:
    """Blocking: return whether an earlier copy is a prefix of the log, by the headers of all batches.

    The log may have been truncated, or its segments replaced, while no copy followed it. False without any
    batch to compare.
    """
    if copy.log_end_offset > source.log_end_offset:
        copy.truncate_to(source.log_end_offset)
    start, end = source.log_start_offset, copy.log_end_offset
    count = 0
    for mine, its in zip_longest(_headers(copy, start, end), _headers(source, start, end)):
        if mine != its:
            return False
        count += 1
    return count > 0


def _headers(store: FilePartitionStore, start: int, end: int) -> Iterator[BatchHeader]:
    return takewhile(lambda header: header.base_offset < end, store.headers(start))
