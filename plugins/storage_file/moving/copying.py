"""Copying a log into another one, batch by batch, as a follower would.

Memory is bounded by a chunk, or by one batch where that is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, parse_header
from tidelog.kernel.storage import LogSlice, region_bytes
from tidelog.plugins.storage_file.log.appending import begin_segment

if TYPE_CHECKING:
    from tidelog.plugins.storage_file.partition_store import FilePartitionStore

CHUNK_BYTES = 1024 * 1024
AT_ONCE_BYTES = 4 * CHUNK_BYTES
"""So much is copied on the event loop, to catch up with those who append there: a few milliseconds."""


class StartOver(Exception):
    """The log was cut, or its beginning deleted, so that the copy does not follow it any more."""


def first_offset(source: FilePartitionStore) -> int:
    """Blocking: the base offset that a copy begins with."""
    start = source.log_start_offset
    header = next(iter(source.headers(start)), None)
    return source.log_end_offset if header is None else min(start, header.base_offset)


def catch_up(source: FilePartitionStore, target: FilePartitionStore, wanted: Callable[[], bool]) -> int:
    """Blocking: copy until hardly anything is missing, or nobody wants it any more; how many bytes.

    Raises:
        StartOver: the copy does not follow the log any more.
        OSError, BrokerError: a disk refused, or the log is damaged.
    """
    copied = 0
    while wanted() and source.log_end_offset != target.log_end_offset:
        size = _copy_chunk(source, target, wait=True)
        copied += size
        if size < CHUNK_BYTES // 2:
            break
    return copied


def copy_the_rest(source: FilePartitionStore, target: FilePartitionStore) -> bool:
    """Copy what is missing, on the event loop, if it is not much; whether nothing is missing then.

    Raises:
        WouldBlock: a device would have to be waited for.
        StartOver, OSError, BrokerError: as for `catch_up`.
    """
    copied = 0
    while source.log_end_offset != target.log_end_offset:
        if copied > AT_ONCE_BYTES:
            return False
        copied += _copy_chunk(source, target, wait=False)
    return True


def _copy_chunk(source: FilePartitionStore, target: FilePartitionStore, *, wait: bool) -> int:
    start, end = target.log_end_offset, source.log_end_offset
    if start > end or (start < source.log_start_offset and target.size_bytes):
        raise StartOver
    if start == end:
        return 0
    found = source.read(max(start, source.log_start_offset), CHUNK_BYTES, end, wait=wait)
    copied = 0
    for header, batch in _whole_batches(found):
        if header.base_offset >= target.log_end_offset:
            target.append(batch, header.base_offset, header.last_offset, header.max_timestamp)
            copied += header.size
    if not found.size:
        # A loss of power may leave an empty segment behind a gap; its offsets are not given out again.
        begin_segment(target, end)
        return 0
    if not copied:
        raise CorruptBatch(f"{source.topic_partition} has no batch at offset {start}")
    reached = target.log_end_offset
    for aborted in source.aborted_transactions(start, reached, wait=wait):
        if start <= aborted.last_offset < reached:
            target.add_aborted(aborted)
    return copied


def _whole_batches(found: LogSlice) -> Iterator[tuple[BatchHeader, memoryview]]:
    data = memoryview(b"".join(map(region_bytes, found.regions)))
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if header.size > len(data) - position:
            return
        yield header, data[position : position + header.size]
        position += header.size


def is_prefix(copy: FilePartitionStore, source: FilePartitionStore) -> bool:
    """Blocking: whether what an earlier run copied is what the log has there, told by its last batch."""
    if copy.log_end_offset > source.log_end_offset:
        copy.truncate_to(source.log_end_offset)
    end = copy.log_end_offset
    last = _batch_before(copy, end)
    return last is not None and end >= source.log_start_offset and last == _batch_before(source, end)


def _batch_before(store: FilePartitionStore, end: int) -> BatchHeader | None:
    newest: BatchHeader | None = None
    for header in store.headers(max(end - 1, store.log_start_offset)):
        if header.next_offset > end:
            break
        newest = header
    return newest if newest is not None and newest.next_offset == end else None
