"""Looking for something in all segments of a log, while others may be taken away.

A segment may go between the look at the list and the opening of its file; then it is looked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.seams.storage import AbortedTransaction, WouldBlock
from tidelog.plugins.storage_file.disk_errors import telling

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.plugins.storage_file.log.open_log import OpenLog
    from tidelog.plugins.storage_file.segments.segment import Segment


@telling
def aborted_transactions(
    log: OpenLog, from_offset: int, to_offset: int, *, wait: bool
) -> Sequence[AbortedTransaction]:
    """See `PartitionStore.aborted_transactions`."""
    changes = log.changes
    found: list[AbortedTransaction] = []
    try:
        for segment in log.segment_list.from_offset(from_offset):
            if segment.aborted.last_offset < from_offset:
                continue
            more = segment.aborted.search(from_offset, to_offset, found, wait=wait)
            segment.check_there()
            if not more:
                break
    except FileNotFoundError:
        if not wait:
            raise WouldBlock from None
        if not log.changed_since(changes):
            raise
        return aborted_transactions(log, from_offset, to_offset, wait=wait)
    return found


def batch_at_timestamp(log: OpenLog, timestamp_ms: int) -> bytes | None:
    """See `PartitionStore.batch_at_timestamp`."""

    def look(segments: Sequence[Segment]) -> bytes | None:
        for segment in segments:
            place = segment.find_timestamp(timestamp_ms)
            if place is not None:
                return segment.read_batch(place)
        return None

    return _look_at_what_is_left(log, look)


def batch_of_max_timestamp(log: OpenLog) -> bytes | None:
    """See `PartitionStore.batch_of_max_timestamp`."""

    def look(segments: Sequence[Segment]) -> bytes | None:
        segment = max(segments, key=_max_timestamp_if_filled)
        place = segment.find(segment.max_timestamp_offset, segment.size, wait=True)
        return None if place is None else segment.read_batch(place)

    return _look_at_what_is_left(log, look)


def _max_timestamp_if_filled(segment: Segment) -> tuple[bool, int]:
    return segment.size > 0, segment.max_timestamp


@telling
def _look_at_what_is_left(log: OpenLog, look: Callable[[Sequence[Segment]], bytes | None]) -> bytes | None:
    while True:
        changes = log.changes
        try:
            return look(log.segment_list.all)
        except FileNotFoundError:
            if not log.changed_since(changes):
                raise


def headers(log: OpenLog, from_offset: int) -> Iterator[BatchHeader]:
    """See `PartitionStore.headers`."""
    while True:
        changes = log.changes
        try:
            for segment in log.segment_list.from_offset(from_offset):
                for header in segment.headers(max(from_offset, segment.base_offset)):
                    yield header
                    from_offset = header.next_offset
            return
        except FileNotFoundError:
            if not log.changed_since(changes):
                raise
