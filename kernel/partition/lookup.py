"""Offsets by time: the record that a timestamp points to (ListOffsets). Blocking, for a thread.

The store finds the batch by its index and header; the record inside it is found by reading the batch's
records, which is the one place where the broker decodes records for a client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.records.batch import BatchHeader, parse_header
from tidelog.kernel.records.record import iter_timestamps
from tidelog.kernel.storage import SegmentView


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
    batch = _found(partition, lambda: partition.store.batch_at_timestamp(timestamp_ms))
    return None if batch is None else _first_record_from(batch, timestamp_ms)


def offset_of_max_timestamp(partition: Partition) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log, None in an empty log.

    Raises:
        StorageError: the disk refused.
    """
    batch = _found(partition, partition.store.batch_of_max_timestamp)
    return None if batch is None else _first_record_from(batch, parse_header(batch).max_timestamp)


def _found(partition: Partition, find: Callable[[], bytes | None]) -> bytes | None:
    try:
        return find()
    except OSError as error:
        raise StorageError(f"{partition.topic_partition} cannot be read: {error}") from error


def segment_offsets_before(partition: Partition, timestamp_ms: int, max_offsets: int) -> list[int]:
    """Base offsets of segments last changed by `timestamp_ms`, newest first (ListOffsets version 0)."""
    segments = partition.store.segments()
    offsets = [segment.base_offset for segment in segments if _changed_ms(segment) <= timestamp_ms]
    return offsets[::-1][:max_offsets]


def _changed_ms(segment: SegmentView) -> int:
    return segment.last_modified_ms


def _first_record_from(batch: bytes, timestamp_ms: int) -> TimestampOffset:
    header = parse_header(batch)
    if header.is_append_time:
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
    try:
        return _search_records(batch, header, timestamp_ms)
    except BrokerError:
        # Records that cannot be decoded are still addressed by their batch: the reader will be told why.
        return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)


def _search_records(batch: bytes, header: BatchHeader, timestamp_ms: int) -> TimestampOffset:
    for offset, timestamp in iter_timestamps(batch, header):
        if timestamp >= timestamp_ms:
            return TimestampOffset(timestamp, offset, header.leader_epoch)
    return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
