"""The committed part of a partition's log, read without a socket: `CommittedLog` of the sink seam."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from tidelog.kernel.errors import (
    CorruptBatch,
    OffsetBelowLogStart,
    OffsetOutOfRange,
    UnsupportedCompression,
)
from tidelog.kernel.records.batch import MAGIC_V2, BatchHeader
from tidelog.kernel.records.stored import as_batch, iter_verified, unpacking_memory
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.sinks import CHUNK_BYTES, CommittedBatch, CommittedChunk
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    FileRegion,
    LogSlice,
    Region,
    TopicPartition,
    WouldBlock,
    region_bytes,
)
from tidelog.kernel.sinks.statistics import SinkStatistics

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog

BYTES_ON_THE_LOOP = 64 * 1024
"""What is read on the event loop at most, if it is in memory: copying and checking it takes 20 µs."""


class PartitionLog:
    """The log of one partition up to its high watermark or last stable offset, for one run of a sink."""

    def __init__(
        self,
        partition: UnifiedLog,
        isolation: Isolation,
        threads: trio.CapacityLimiter,
        statistics: SinkStatistics,
    ) -> None:
        """Count in `statistics` what is read; `threads` bounds the reads of all sinks that take a thread."""
        self.delivered_offset: int | None = None
        self._partition = partition
        self._isolation = isolation
        self._threads = threads
        self._statistics = statistics

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return self._partition.topic_partition

    @property
    def topic_id(self) -> UUID:
        """The id of its topic."""
        return self._partition.topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._partition.log_start_offset

    @property
    def end_offset(self) -> int:
        """The first offset that is not committed, by the sink's isolation level."""
        return self._partition.readable_end(self._isolation)

    @property
    def high_watermark(self) -> int:
        """The offset below which no change of leader loses a record."""
        return self._partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""
        return self._partition.last_stable_offset

    def delivered(self, next_offset: int) -> None:
        """Note that the sink has delivered everything below `next_offset`."""
        self.delivered_offset = next_offset

    def read(self, offset: int, until: int | None = None, *, max_bytes: int = CHUNK_BYTES) -> ChunkReader:
        """Iterate over the chunks from `offset` on, below `until` or the present end of the log."""
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}, but at least one batch is read")
        return ChunkReader(self, offset, self.end_offset if until is None else until, max_bytes)

    def check_offset(self, offset: int) -> None:
        """Raise why nothing can be read from `offset` on: see `CommittedLog.read`."""
        if self._partition.offline is not None:
            raise self._partition.offline.with_traceback(None)
        start, end = self.log_start_offset, self.end_offset
        if offset < start:
            raise OffsetBelowLogStart(
                f"{self.topic_partition}: records from offset {offset} on were deleted, the log starts at "
                f"{start}",
                start,
            )
        if offset > end:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: offset {offset} is above {end}, where what is committed ends"
            )

    async def read_chunk(self, offset: int, until: int, max_bytes: int) -> CommittedChunk:
        """Return the chunk that begins at `offset`, which is below `until` and valid."""
        try:
            chunk, size = self._read(offset, until, max_bytes, wait=False)
            await trio.lowlevel.checkpoint()
        except WouldBlock:
            in_thread = partial(self._read, offset, until, max_bytes, wait=True)
            chunk, size = await trio.to_thread.run_sync(in_thread, limiter=self._threads)
        self._statistics.count_read(chunk, size)
        return chunk

    def _read(self, offset: int, until: int, max_bytes: int, *, wait: bool) -> tuple[CommittedChunk, int]:
        """Read a chunk; return it and how many bytes were read.

        Raises:
            WouldBlock: it is large, or the disk has to be waited for; never with `wait`.
        """
        partition, end = self._partition, min(until, self.end_offset)
        try:
            found = partition.read(offset, max_bytes, self._isolation, wait=wait)
        except OffsetOutOfRange:
            self.check_offset(offset)  # the log start was raised meanwhile
            raise
        if not found.size:
            return CommittedChunk(offset, end, ()), 0
        if not (wait or _is_quick(found)):
            raise WouldBlock
        aborted: Sequence[AbortedTransaction] = ()
        if self._isolation is Isolation.READ_COMMITTED:
            aborted = partition.aborted_transactions(offset, found, wait=wait)
        try:
            batches = iter_verified(_content(found.regions))
            return _chunk(self._converted(batches, wait=wait), offset, end, aborted), found.size
        except (CorruptBatch, UnsupportedCompression) as error:
            raise type(error)(f"{self.topic_partition}: {error}") from error

    def _converted(
        self, batches: Iterable[tuple[BatchHeader, memoryview]], *, wait: bool
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Return what is given, with messages of the formats 0 and 1 as batches of their own.

        Raises:
            WouldBlock: one has to be converted; never with `wait`.
        """
        for header, data in batches:
            if header.magic == MAGIC_V2:
                yield header, data
                continue
            if not wait:
                raise WouldBlock
            with self._partition.unpacking.memory.hold(unpacking_memory(data, header)):
                converted = as_batch(header, data)
            yield converted


class ChunkReader:
    """Iterates over the chunks of a log, `[offset, until)`."""

    def __init__(self, log: PartitionLog, offset: int, until: int, max_bytes: int) -> None:
        self._log = log
        self._offset = offset
        self._until = until
        self._max_bytes = max_bytes

    def __aiter__(self) -> ChunkReader:
        return self

    async def __anext__(self) -> CommittedChunk:
        self._log.check_offset(self._offset)
        if self._offset >= min(self._until, self._log.end_offset):
            raise StopAsyncIteration
        chunk = await self._log.read_chunk(self._offset, self._until, self._max_bytes)
        self._offset = chunk.next_offset
        return chunk


def _is_quick(found: LogSlice) -> bool:
    return found.size <= BYTES_ON_THE_LOOP and all(
        region.file.resident(region.position, region.size)
        for region in found.regions
        if isinstance(region, FileRegion)
    )


def _content(regions: Sequence[Region]) -> memoryview:
    parts = [region_bytes(region) for region in regions]
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))


def _chunk(
    stored: Iterable[tuple[BatchHeader, memoryview]],
    offset: int,
    end: int,
    aborted: Sequence[AbortedTransaction],
) -> CommittedChunk:
    """Return the batches in `stored` that begin below `end`, without markers and `aborted` transactions."""
    batches: list[CommittedBatch] = []
    next_offset = offset
    for header, data in stored:
        # A batch that begins at the end or beyond is not in the range; gaps that compaction left before it
        # are.
        if header.base_offset >= end:
            return CommittedChunk(offset, max(next_offset, end), batches)
        next_offset = header.next_offset
        if not (header.is_control or (header.is_transactional and _is_aborted(header, aborted))):
            batches.append(CommittedBatch(header, data))
    # Without progress the reader would ask for the same chunk forever.
    if next_offset <= offset:
        raise CorruptBatch(f"there is no whole batch that holds offset {offset} or a later one")
    return CommittedChunk(offset, next_offset, batches)


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
        for each in aborted
    )
