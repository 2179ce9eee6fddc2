"""The records of a partition's log, read as a fetch reads them, while its segments are replaced, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import iter_batches
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.seams.storage import region_bytes

_MOST_BYTES: Final = 1 << 30


def stored_records(partition: UnifiedLog) -> Iterator[Record]:
    """Yield all records above the log start.

    A slice stays readable when its segment is replaced; a header that was read before may say nothing about
    the batch that is read next.
    """
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        found = partition.store.read_batches(offset, _MOST_BYTES, partition.log_end_offset, wait=True)
        content = b"".join(map(region_bytes, found.regions))
        if not content:
            return
        for header, batch in iter_batches(memoryview(content)):
            yield from iter_records(batch, header)
            offset = header.next_offset
