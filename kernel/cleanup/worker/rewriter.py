"""The rewriting of one log: a filter surveys it, then what stays is copied, group by group.

Source: seed 001, "Pass 1, build the offset map", "Pass 2, recopy segments keeping only survivors" and
"Interaction with transactions / markers".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, repeat
from typing import Protocol

import numpy as np

from tidelog.kernel.cleanup.worker.batches import KeptBatch, KeptRecords, without_records
from tidelog.kernel.cleanup.worker.messages import GroupDraft, GroupWritten, JobDone, RewriteJob
from tidelog.kernel.cleanup.worker.segments import Chunk, chosen_chunks, chunks, groups
from tidelog.kernel.cleanup.worker.surveyed import HeaderColumns, SurveyedHeaders
from tidelog.kernel.cleanup.worker.transactions import SeenTransactions
from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
)
from tidelog.kernel.records.block import PlacedBatch, RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.seams.cleanup import BatchFilter
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import SegmentSource, WrittenBatch

_NOT_PLAIN = CONTROL_BIT | TRANSACTIONAL_BIT
_MOST_UNPACKED_BYTES = 4 * 1024 * 1024
"""Records that are looked at together, unless those of one batch are more."""


class Broker(Protocol):
    """The broker as the rewriter sees it."""

    def begin(self, base_offsets: Sequence[int]) -> GroupDraft:
        """Return what to write a group of segments to."""
        ...

    def replace(self, written: GroupWritten) -> None:
        """Have the segments of the group replaced."""
        ...

    def spent(self, read_bytes: int, written_bytes: int) -> None:
        """Report progress, and wait as long as the limit of bytes per second demands."""
        ...


class Rewriter:
    """Does one `RewriteJob`."""

    def __init__(self, job: RewriteJob, broker: Broker) -> None:
        self._job = job
        self._broker = broker
        self._surveyed = SurveyedHeaders()
        self._records_read = self._records_kept = self._bytes_read = self._bytes_kept = 0

    def run(self) -> JobDone:
        """Do it.

        Raises:
            BrokerError: the log is damaged, or has batches that cannot be read.
            OSError: the disk refused.
        """
        until = self._survey()
        if until > self._job.survey_from or until == self._job.until:
            self._copy(until)
        return JobDone(
            until,
            self._records_read,
            self._records_kept,
            self._bytes_read,
            self._bytes_kept,
            self._job.filter.counts(),
        )

    # --- the survey

    def _survey(self) -> int:
        """Show the filter the records that it has to know; return the offset below which it knows them."""
        job = self._job
        ends = [*(source.base_offset for source in job.sources[1:]), job.until]
        surveyed = [each for each in zip(job.sources, ends, strict=True) if each[1] > job.survey_from]
        reached = job.survey_from
        if not surveyed:
            return reached
        # Those that ended before would seem to go on: their markers are not read.
        begin = surveyed[0][0].base_offset
        transactions = SeenTransactions([each for each in job.aborted if each.last_offset >= begin])
        for source, end in surveyed:
            for chunk in chunks(source, job.chunk_bytes):
                self._broker.spent(chunk.size, 0)
                self._surveyed.note(source, chunk)
                full_at = self._survey_chunk(chunk, transactions)
                if full_at is not None:
                    return max(full_at, job.survey_from)
            reached = end
        return reached

    def _survey_chunk(self, chunk: Chunk, transactions: SeenTransactions) -> int | None:
        since = self._job.survey_from
        batches = [
            placed
            for placed in _of_applications(chunk, transactions)
            if placed.header.last_offset >= since and placed.header.record_count
        ]
        for block in _blocks(chunk, batches):
            from_since = block.select(block.offset >= since) if block.offset[0] < since else block
            full_at = self._job.filter.survey(from_since)
            if full_at is not None:
                if full_at > from_since.offset[-1]:
                    raise ValueError(
                        f"the filter has no room from offset {full_at} on, which it has not seen"
                    )
                return full_at
        return None

    # --- the copy

    def _copy(self, until: int) -> None:
        job = self._job
        sources = [source for source in job.sources if source.base_offset < until]
        after = [source.base_offset for source in job.sources[len(sources) :]]
        transactions = SeenTransactions(job.aborted)
        for group in groups(sources, after[0] if after else job.until, job.segment_bytes, job.index_bytes):
            self._copy_group(group, until, transactions)

    def _copy_group(self, group: Sequence[SegmentSource], until: int, transactions: SeenTransactions) -> None:
        draft = self._broker.begin([source.base_offset for source in group])
        copier = _Copier(self._job, until, draft.last_batches, transactions)
        for source in group:
            for chunk in self._chunks(source, copier):
                content, batches = copier.copy(chunk)
                if batches:
                    draft.writer.append(content, batches)
                self._bytes_kept += len(content)
                self._broker.spent(chunk.size, len(content))
            self._bytes_read += source.size_bytes
        self._records_read += copier.records_read
        self._records_kept += copier.records_kept
        self._broker.replace(GroupWritten(draft.writer.finish(), transactions.take_left()))

    def _chunks(self, source: SegmentSource, copier: _Copier) -> Iterator[Chunk]:
        """Return the batches of a segment but those of which it is known that nothing stays."""
        headers = self._surveyed.take(source)
        if headers is None:
            return chunks(source, self._job.chunk_bytes)
        return chosen_chunks(source, headers.placed(copier.needs(headers)), self._job.chunk_bytes)


class _Copier:
    """Copies what stays of the batches of a group."""

    def __init__(
        self,
        job: RewriteJob,
        until: int,
        last_batches: Mapping[int, LastBatch],
        transactions: SeenTransactions,
    ) -> None:
        """`until`: the filter decides on records below this offset alone."""
        self._job = job
        self._until = until
        self._last_batches = last_batches
        self._transactions = transactions
        self.records_read = self.records_kept = 0

    def needs(self, headers: HeaderColumns) -> Mask:
        """Return which batches have to be read: those of which something may stay.

        Those of transactions are read to learn which transactions have ended, others if they may have to stay
        without records.
        """
        plain: Mask = (headers.of("attributes") & _NOT_PLAIN == 0) & (headers.of("record_count") > 0)
        last = [each.offset for each in self._last_batches.values() if each.offset is not None]
        needed: Mask = ~plain | np.isin(headers.last_offset, [*last, self._job.until - 1])
        needed[plain] |= ~self._drops(headers.base_offset[plain], headers.last_offset[plain])
        self.records_read += int(headers.of("record_count")[~needed].sum())
        return needed

    def copy(self, chunk: Chunk) -> tuple[Buffer, list[WrittenBatch]]:
        """Return what stays of some batches, as `DraftWriter.append` takes it."""
        surveyed: list[PlacedBatch] = []
        spent: dict[int, bool] = {}
        for placed in chunk.batches:
            header = placed.header
            self.records_read += header.record_count
            if header.is_control:
                spent[placed.position] = self._transactions.is_spent(_content(chunk, placed), header)
            elif not self._transactions.is_aborted(header) and header.record_count:
                surveyed.append(placed)
        chosen = _Chosen(chunk, self._not_dropped(surveyed), self._job, self._until)
        kept: list[tuple[BatchHeader, KeptBatch]] = []
        for placed in chunk.batches:
            if placed.position in spent:
                batch = self._marker(chunk, placed, spent=spent[placed.position])
            else:
                batch = chosen.pop(placed)
            if batch is None and self._stays_empty(placed.header):
                batch = without_records(placed.header)
            if batch is not None:
                kept.append((placed.header, batch))
        self.records_kept += chosen.count
        return _joined(kept)

    def _not_dropped(self, batches: Sequence[PlacedBatch]) -> Sequence[PlacedBatch]:
        """Return the batches of which the filter has to see the records."""
        base_offsets = np.array([placed.header.base_offset for placed in batches], np.int64)
        last_offsets = np.array([placed.header.last_offset for placed in batches], np.int64)
        return list(compress(batches, ~self._drops(base_offsets, last_offsets)))

    def _drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        record_filter = self._job.filter
        if not isinstance(record_filter, BatchFilter):
            return np.zeros(len(base_offsets), np.bool_)
        drops: Mask = np.asarray(record_filter.drops(base_offsets, last_offsets), np.bool_)
        if drops.shape != base_offsets.shape:
            raise TypeError(f"the filter answers for {drops.shape} batches of {len(base_offsets)}")
        return drops & (last_offsets < self._until)

    def _marker(self, chunk: Chunk, placed: PlacedBatch, *, spent: bool) -> KeptBatch | None:
        """Return what stays of a control batch, None if nothing does.

        One whose transaction is gone is needed for as long as tombstones are: a reader that is in the middle
        of the transaction would never learn of its end.
        """
        header = placed.header
        horizon_ms = header.delete_horizon_ms
        if not header.record_count or (spent and horizon_ms is not None and horizon_ms <= self._job.now_ms):
            return None
        self.records_kept += header.record_count
        content = _content(chunk, placed)
        if not spent or horizon_ms is not None:
            return KeptBatch(content, header.max_timestamp)
        block = RecordBlock(chunk.content, [placed])
        return KeptRecords(block, np.ones(len(block), np.bool_)).batch(content, 0, self._job.horizon_ms)

    def _stays_empty(self, header: BatchHeader) -> bool:
        """Return whether a batch stays without records.

        It does if it has the last sequence of an active producer, or the marker with its newest epoch, and if
        it is the last one below what cannot be rewritten yet.
        """
        if header.next_offset == self._job.until:
            return True
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_batches.get(header.producer_id)
        if last is None:
            return False
        if last.offset is not None:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch


class _Chosen:
    """What a filter keeps of the batches of applications in a chunk; `count` records so far.

    They are asked for in order, and decompressed a few at a time.
    """

    def __init__(self, chunk: Chunk, batches: Sequence[PlacedBatch], job: RewriteJob, until: int) -> None:
        self._chunk = chunk
        self._job = job
        self._until = until
        self._blocks = _blocks(chunk, batches)
        self._waiting = deque(placed.position for placed in batches)
        self._verdicts: deque[tuple[KeptRecords, int]] = deque()
        self.count = 0

    def pop(self, placed: PlacedBatch) -> KeptBatch | None:
        """Return what stays of a batch, None if nothing does."""
        if not self._waiting or self._waiting[0] != placed.position:
            return None
        self._waiting.popleft()
        if not self._verdicts:
            self._verdicts.extend(self._judge(next(self._blocks)))
        kept, index = self._verdicts.popleft()
        if not kept.counts[index]:
            return None
        header, content = placed.header, _content(self._chunk, placed)
        set_horizon = kept.tombstones[index] > 0 and header.delete_horizon_ms is None
        if kept.counts[index] == header.record_count and not set_horizon:
            return KeptBatch(content, header.max_timestamp)
        return kept.batch(content, index, self._job.horizon_ms if set_horizon else None)

    def _judge(self, block: RecordBlock) -> Iterator[tuple[KeptRecords, int]]:
        """Ask the filter about the records of some batches; iterate over what it keeps, and each batch."""
        keep: Mask = np.asarray(self._job.filter.keep(block), np.bool_)
        if keep.shape != block.offset.shape:
            raise TypeError(f"the filter answers for {keep.shape} records of {len(block)}")
        kept = KeptRecords(block, keep | (block.offset >= self._until))
        self.count += sum(kept.counts)
        return zip(repeat(kept), range(len(block.headers)), strict=False)


def _blocks(chunk: Chunk, batches: Sequence[PlacedBatch]) -> Iterator[RecordBlock]:
    """Iterate over the records of batches: a small chunk may decompress to gigabytes."""
    done = 0
    while done < len(batches):
        block = RecordBlock(chunk.content, batches[done:], _MOST_UNPACKED_BYTES)
        yield block
        done += len(block.headers)


def _of_applications(chunk: Chunk, transactions: SeenTransactions) -> Iterator[PlacedBatch]:
    """Iterate over the batches with records of applications whose transactions were not aborted."""
    for placed in chunk.batches:
        if placed.header.is_control:
            transactions.is_spent(_content(chunk, placed), placed.header)
        elif not transactions.is_aborted(placed.header):
            yield placed


def _content(chunk: Chunk, placed: PlacedBatch) -> memoryview:
    return memoryview(chunk.content)[placed.position : placed.position + placed.header.size]


def _joined(kept: Sequence[tuple[BatchHeader, KeptBatch]]) -> tuple[Buffer, list[WrittenBatch]]:
    content = b"".join([batch.content for _, batch in kept])
    batches = [
        WrittenBatch(header.base_offset, header.last_offset, len(batch.content), batch.max_timestamp)
        for header, batch in kept
    ]
    return content, batches
