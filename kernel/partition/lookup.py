"""Offsets by time: the record that a timestamp points to (ListOffsets). Blocking, for a thread.

The store finds the batch by its index and header; the record inside it is found by reading the batch's
records, which is the one place where the broker decodes records for a client.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.record import iter_timestamps
from tidelog.kernel.storage import SegmentView, region_bytes


class TimestampOffset(NamedTuple):
    """A record's timestamp, its offset and the leader epoch that wrote it."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(partition: Partition, timestamp_ms: int) -> TimestampOffset | None:
    """The first record whose timestamp is `timestamp_ms` or later, None without one.

    Raises:
        StorageError: the disk refused.
    """
    with _told_as_storage_error(partition):
        batch = partition.store.batch_at_timestamp(timestamp_ms)
        if batch is None:
            return None
        start = partition.log_start_offset
        return _record_in(batch, timestamp_ms, start) or _search_from(partition, timestamp_ms, start)


def offset_of_max_timestamp(partition: Partition) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log, None in an empty log.

    Raises:
        StorageError: the disk refused.
    """
    with _told_as_storage_error(partition):
        store, start = partition.store, partition.log_start_offset
        batch = store.batch_of_max_timestamp()
        if batch is None:
            return None
        found = _record_in(batch, parse_header(batch).max_timestamp, start)
        if found is not None:
            return found
        newest = max((header.max_timestamp for header in store.headers(start)), default=None)
        return None if newest is None else _search_from(partition, newest, start)


@contextmanager
def _told_as_storage_error(partition: Partition) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{partition.topic_partition} cannot be read: {error}") from error


def segment_offsets_before(partition: Partition, timestamp_ms: int, max_offsets: int) -> list[int]:
    """Base offsets of segments last changed by `timestamp_ms`, newest first (ListOffsets version 0)."""
    segments = partition.store.segments()
    offsets = [segment.base_offset for segment in segments if _changed_ms(segment) <= timestamp_ms]
    return offsets[::-1][:max_offsets]


def _changed_ms(segment: SegmentView) -> int:
    return segment.last_modified_ms


def _search_from(partition: Partition, timestamp_ms: int, start: int) -> TimestampOffset | None:
    """The same without the index: for when what the index led to lies below the log's start."""
    store = partition.store
    for header in store.headers(start):
        if header.max_timestamp >= timestamp_ms:
            log = store.read(max(header.base_offset, start), 1, header.next_offset, wait=True)
            found = _record_in(b"".join(map(region_bytes, log.regions)), timestamp_ms, start)
            if found is not None:
                return found
    return None


def _record_in(batch: bytes, timestamp_ms: int, start: int) -> TimestampOffset | None:
    """The batch's first record from `start` on that is of that time or later, None without one there."""
    header = parse_header(batch)
    if header.last_offset < start:
        return None
    as_a_whole = TimestampOffset(header.max_timestamp, max(header.base_offset, start), header.leader_epoch)
    if header.is_append_time:
        return as_a_whole
    try:
        for offset, timestamp in iter_timestamps(batch, header):
            if offset >= start and timestamp >= timestamp_ms:
                return TimestampOffset(timestamp, offset, header.leader_epoch)
    except BrokerError:
        # Records that cannot be decoded are still addressed by their batch: the reader will be told why.
        return as_a_whole
    return None if header.base_offset < start else as_a_whole
