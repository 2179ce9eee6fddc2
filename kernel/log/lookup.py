"""Offsets by time: the record that a timestamp points to (ListOffsets). Blocking, for a thread.

The store finds the batch by its index and header; the record inside it is found by reading the batch's
records, which is the one place where the broker decodes records for a client. A header only bounds its
records: compaction leaves batches without any, and batches whose max timestamp no record has. Control records
count as others do, as in Kafka. Source: Kafka protocol guide, `ListOffsets`; KIP-734 for the largest
timestamp.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.log.memory_budget import MemoryBudget
from tidelog.kernel.log.storage_failure import storage_failure
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.records.batch import MAGIC_V2, BatchHeader
from tidelog.kernel.records.stored import iter_stored_timestamps, parse_stored, unpacking_memory
from tidelog.kernel.seams.partition import TimestampOffset
from tidelog.kernel.seams.storage import PartitionStore, SegmentView, region_bytes


class TimestampLookup:
    """Lookups by time in one log as it is now, from `log_start` on; records are decompressed in `memory`."""

    def __init__(self, name: str, store: PartitionStore, log_start: int, memory: MemoryBudget) -> None:
        """`name` of the partition is for messages."""
        self._name = name
        self._store = store
        self._start = log_start
        self._memory = memory

    def first_at(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is `timestamp_ms` or later, None without one.

        Raises:
            StorageError: the disk refused.
        """
        with self._disk_errors_as_storage_errors():
            batch = self._store.batch_at_timestamp(timestamp_ms)
            if batch is None:
                return None
            header = parse_stored(batch)
            found = _first_at(self._records_in(batch, header, self._start), timestamp_ms)
            # A compacted batch keeps its max timestamp though the record that had it may be gone.
            return found or self._search_from(timestamp_ms, max(header.next_offset, self._start))

    def of_max_timestamp(self) -> TimestampOffset | None:
        """Return the first record that has the largest timestamp of the log, None in a log without records.

        Raises:
            StorageError: the disk refused.
        """
        with self._disk_errors_as_storage_errors():
            batch = self._store.batch_of_max_timestamp()
            if batch is None:
                return None
            header = parse_stored(batch)
            found = _first_at(self._records_in(batch, header, self._start), header.max_timestamp)
            return found or self._search_newest()

    @contextmanager
    def _disk_errors_as_storage_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._name} cannot be read: {error}") from error
        except BrokerError:
            raise
        except Exception as error:
            raise storage_failure(self._name, self._store, "a lookup", error) from error

    def _search_from(self, timestamp_ms: int, start: int) -> TimestampOffset | None:
        """Search all batches from `start` on, where the one that the index led to has no such record."""
        for segment in self._store.segments():
            if segment.next_offset <= start or segment.max_timestamp < timestamp_ms:
                continue
            for header in self._headers_in(segment, start):
                if header.max_timestamp >= timestamp_ms and header.record_count:
                    batch = self._read_batch(header, start)
                    found = _first_at(self._records_in(batch, header, start), timestamp_ms)
                    if found is not None:
                        return found
        return None

    def _search_newest(self) -> TimestampOffset | None:
        """Search for the largest timestamp where no record has that of the largest header.

        Segments and batches with the largest header timestamp are read first: those with a smaller one than
        was found need not be.
        """
        start, newest = self._start, None
        # Among equal timestamps the lower offset comes first, which is the one that is asked for.
        for segment in sorted(self._store.segments(), key=_largest_timestamp_first):
            if newest is not None and segment.max_timestamp < newest.timestamp_ms:
                break
            headers = [header for header in self._headers_in(segment, start) if header.record_count]
            for header in sorted(headers, key=_largest_timestamp_first):
                if newest is not None and header.max_timestamp < newest.timestamp_ms:
                    break
                for record in self._records_in(self._read_batch(header, start), header, start):
                    if newest is None or _largest_timestamp_first(record) < _largest_timestamp_first(newest):
                        newest = record
        return newest

    def _headers_in(self, segment: SegmentView, start: int) -> Iterator[BatchHeader]:
        """Iterate over the headers of the segment's batches that hold `start` or a later offset."""
        for header in self._store.headers(max(segment.base_offset, start)):
            if header.base_offset >= segment.next_offset:
                return
            if header.last_offset >= start:
                yield header

    def _read_batch(self, header: BatchHeader, start: int) -> bytes:
        # At least one whole batch is returned, so one byte is this one; the log may start in the middle of
        # it.
        found = self._store.read_batches(max(header.base_offset, start), 1, header.next_offset, wait=True)
        return b"".join(map(region_bytes, found.regions))

    def _records_in(self, batch: bytes, header: BatchHeader, start: int) -> Generator[TimestampOffset]:
        """Iterate over the batch's records from `start` on, as far as they can be decoded.

        The first that cannot be decoded is returned with the header's timestamp, and is the last: a client
        that fetches there gets the error.
        """
        epoch = header.leader_epoch
        next_offset = max(header.base_offset, start)
        if (
            header.is_append_time
            and header.magic == MAGIC_V2
            and header.record_count == header.last_offset_delta + 1
        ):
            # None is missing, and all have the same time.
            if next_offset <= header.last_offset:
                yield TimestampOffset(header.max_timestamp, next_offset, epoch)
            return
        pace = ThreadPace()
        try:
            with self._memory.hold(len(batch) + unpacking_memory(batch, header)):
                for offset, timestamp in iter_stored_timestamps(batch, header):
                    pace.turn()
                    if offset >= start:
                        yield TimestampOffset(timestamp, offset, epoch)
                        next_offset = offset + 1
        except BrokerError:
            if next_offset <= header.last_offset:
                yield TimestampOffset(header.max_timestamp, next_offset, epoch)


def _largest_timestamp_first(of: SegmentView | BatchHeader | TimestampOffset) -> tuple[int, int]:
    if isinstance(of, TimestampOffset):
        return -of.timestamp_ms, of.offset
    return -of.max_timestamp, of.base_offset


def _first_at(records: Generator[TimestampOffset], timestamp_ms: int) -> TimestampOffset | None:
    # It may stop at the first record: closing gives the memory back that the generator holds.
    with closing(records):
        return next((record for record in records if record.timestamp_ms >= timestamp_ms), None)
