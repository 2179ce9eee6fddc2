"""The rewriting of one log: a filter surveys it, then what stays is copied, group by group.

Source: seed 001, "Pass 1, build the offset map", "Pass 2, recopy segments keeping only survivors" and
"Interaction with transactions / markers".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tidelog.kernel.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
)
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column, Mask
from tidelog.kernel.records.placed import PlacedBatches
from tidelog.kernel.seams.cleanup import BatchFilter
from tidelog.kernel.seams.partition import LastBatch
from tidelog.kernel.seams.storage import SegmentSource, WrittenBatch
from tidelog.plugins.cleaner.worker.batches import (
    KeptBatch,
    RemainingRecords,
    behind,
    message_of,
    without_records,
)
from tidelog.plugins.cleaner.worker.messages import GroupDraft, GroupWritten, JobDone, RewriteJob
from tidelog.plugins.cleaner.worker.segments import (
    RECORDS_AT_ONCE,
    Chunk,
    SurveyedBatches,
    chosen_chunks,
    chunks,
    groups,
)
from tidelog.plugins.cleaner.worker.transactions import SeenTransactions

_NOT_PLAIN = CONTROL_BIT | TRANSACTIONAL_BIT
_MOST_UNPACKED_BYTES = 2 * 1024 * 1024
"""Bytes of records that are looked at together, unless those of one batch are more."""

_CHUNKS_SURVEYED = 2
"""So many are surveyed together: a survey has what it reads in memory, a copy also what it writes."""


class RewriterBroker(Protocol):
    """The broker as the rewriter sees it."""

    def begin(self, base_offsets: Sequence[int]) -> GroupDraft:
        """Return what to write a group of segments to."""
        ...

    def check(self) -> None:
        """Check that the broker is there, before anything is written for it.

        Raises:
            EOFError, OSError: it is gone.
        """
        ...

    def replace(self, written: GroupWritten) -> None:
        """Have the segments of the group replaced."""
        ...

    def spent(self, read_bytes: int, written_bytes: int) -> None:
        """Report progress, and wait as long as the limit of bytes per second demands."""
        ...


class Rewriter:
    """Does one `RewriteJob`."""

    def __init__(self, job: RewriteJob, broker: RewriterBroker) -> None:
        self._job = job
        self._broker = broker
        self._surveyed = SurveyedBatches()
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
        # Those that ended before would seem to continue: their markers are not read.
        begin = surveyed[0][0].base_offset
        transactions = SeenTransactions([each for each in job.aborted if each.last_offset >= begin])
        for source, end in surveyed:
            for chunk in chunks(source, _CHUNKS_SURVEYED * job.chunk_bytes):
                self._broker.spent(chunk.size, 0)
                self._surveyed.note(source, chunk)
                full_at = self._survey_chunk(chunk, transactions)
                if full_at is not None:
                    return max(full_at, job.survey_from)
                # The next one takes its memory.
                del chunk
            reached = end
        return reached

    def _survey_chunk(self, chunk: Chunk, transactions: SeenTransactions) -> int | None:
        since = self._job.survey_from
        taken = transactions.take(chunk)
        batches = chunk.batches.select(taken.of_applications & (chunk.batches.last_offset >= since))
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
                    self._broker.check()
                    draft.writer.append(content, batches)
                self._bytes_kept += len(content)
                self._broker.spent(chunk.size, len(content))
                # The next ones take their memory.
                del chunk, content
            self._bytes_read += source.size_bytes
        self._records_read += copier.records_read
        self._records_kept += copier.records_kept
        self._broker.replace(GroupWritten(draft.writer.finish(), transactions.take_left()))

    def _chunks(self, source: SegmentSource, copier: _Copier) -> Iterator[Chunk]:
        """Return the batches of a segment but those of which it is known that nothing stays."""
        chunk_bytes = self._job.chunk_bytes
        if not self._surveyed.is_complete(source):
            yield from chunks(source, chunk_bytes, self._job.message_horizon_ms(source))
            return
        for batches in self._surveyed.take(source):
            yield from chosen_chunks(source, batches.select(copier.needs(batches)), chunk_bytes)


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

    def needs(self, batches: PlacedBatches) -> Mask:
        """Return which batches have to be read: those of which something may stay.

        Those of transactions are read to learn which transactions have ended, others if they may have to stay
        without records.
        """
        plain: Mask = (batches.attributes & _NOT_PLAIN == 0) & (batches.record_count > 0)
        needed: Mask = ~plain | self._are_last(batches)
        needed[plain] |= ~self._drops(batches.base_offset[plain], batches.last_offset[plain])
        self.records_read += int(batches.record_count[~needed].sum())
        return needed

    def copy(self, chunk: Chunk) -> tuple[Buffer, list[WrittenBatch]]:
        """Return what stays of some batches, as `DraftWriter.append` takes it."""
        batches = chunk.batches
        self.records_read += int(batches.record_count.sum())
        taken = self._transactions.take(chunk)
        kept = self._of_applications(chunk, np.flatnonzero(taken.of_applications))
        for index in chunk.messages.keys() & kept.keys():
            count = int(batches.record_count[index])
            kept[index] = message_of(kept[index], chunk.messages[index], count)
        for index, spent in taken.markers.items():
            marker = self._marker(chunk, index, spent=spent)
            if marker is not None:
                kept[index] = marker
        may_stay_empty = self._are_last(batches)
        may_stay_empty[list(taken.markers)] = True
        for index in np.flatnonzero(may_stay_empty).tolist():
            header = batches.header(index)
            if index in kept and kept[index].last_offset == header.last_offset:
                continue
            if self._stays_empty(header):
                if index in chunk.messages:
                    header = header._replace(base_offset=header.last_offset, last_offset_delta=0)
                kept[index] = behind(kept.get(index), without_records(header))
        return _joined(batches, kept)

    def _of_applications(self, chunk: Chunk, indexes: Column) -> dict[int, KeptBatch]:
        """Return what stays of the batches of applications with these indexes, by their index."""
        batches = chunk.batches
        indexes = indexes[~self._drops(batches.base_offset[indexes], batches.last_offset[indexes])]
        kept: dict[int, KeptBatch] = {}
        done = 0
        for block in _blocks(chunk, batches.select(indexes)):
            of_block = indexes[done : done + len(block.batches)].tolist()
            kept.update((of_block[index], batch) for index, batch in self._chosen(chunk, block).items())
            done += len(of_block)
        return kept

    def _chosen(self, chunk: Chunk, block: RecordBlock) -> dict[int, KeptBatch]:
        """Return what the filter keeps of the batches of a block, by their index there."""
        keep: Mask = np.asarray(self._job.filter.keep(block), np.bool_)
        if keep.shape != block.offset.shape:
            raise TypeError(f"the filter answers for {keep.shape} records of {len(block)}")
        records = RemainingRecords(block, keep | (block.offset >= self._until))
        self.records_kept += int(records.counts.sum())
        no_horizon = (block.batches.attributes & DELETE_HORIZON_BIT) == 0
        return records.batches(chunk.content, (records.tombstones > 0) & no_horizon, self._job.horizon_ms)

    def _drops(self, base_offsets: Column, last_offsets: Column) -> Mask:
        record_filter = self._job.filter
        if not isinstance(record_filter, BatchFilter):
            return np.zeros(len(base_offsets), np.bool_)
        drops: Mask = np.asarray(record_filter.drops(base_offsets, last_offsets), np.bool_)
        if drops.shape != base_offsets.shape:
            raise TypeError(f"the filter answers for {drops.shape} batches of {len(base_offsets)}")
        return drops & (last_offsets < self._until)

    def _marker(self, chunk: Chunk, index: int, *, spent: bool) -> KeptBatch | None:
        """Return what stays of a control batch, None if nothing does.

        One whose transaction is gone is needed for as long as tombstones are: a reader that is in the middle
        of the transaction would never learn of its end.
        """
        header = chunk.batches.header(index)
        horizon_ms = header.delete_horizon_ms
        if not header.record_count or (spent and horizon_ms is not None and horizon_ms <= self._job.now_ms):
            return None
        self.records_kept += header.record_count
        if not spent or horizon_ms is not None:
            return KeptBatch(chunk.content_of(index), header.max_timestamp, header.last_offset)
        block = RecordBlock(chunk.content, chunk.batches[index : index + 1])
        records = RemainingRecords(block, np.ones(len(block), np.bool_))
        return records.batches(chunk.content, np.ones(1, np.bool_), self._job.horizon_ms)[0]

    def _are_last(self, batches: PlacedBatches) -> Mask:
        """Return which batches have the last sequence of an active producer, or are the last of all."""
        last = [each.offset for each in self._last_batches.values() if each.offset is not None]
        found: Mask = np.isin(batches.last_offset, [*last, self._job.until - 1])
        return found

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


def _blocks(chunk: Chunk, batches: PlacedBatches) -> Iterator[RecordBlock]:
    """Iterate over the records of batches: a small chunk may decompress to gigabytes."""
    ends = np.cumsum(batches.record_count)
    done = done_records = 0
    while done < len(batches):
        after = max(int(np.searchsorted(ends, done_records + RECORDS_AT_ONCE, "right")), done + 1)
        block = RecordBlock(chunk.content, batches[done:after], _MOST_UNPACKED_BYTES)
        yield block
        done += len(block.batches)
        done_records = int(ends[done - 1])


def _joined(batches: PlacedBatches, kept: dict[int, KeptBatch]) -> tuple[Buffer, list[WrittenBatch]]:
    """Return what stays of batches, taken out of `kept` by their index, in their order."""
    indexes = sorted(kept)
    joined = bytearray(sum([len(each.content) for each in kept.values()]))
    written: list[WrittenBatch] = []
    end = 0
    for index, base_offset in zip(indexes, batches.base_offset[indexes].tolist(), strict=True):
        # The memory of each one is free before the next one is copied.
        content, max_timestamp, last_offset = kept.pop(index)
        begin, end = end, end + len(content)
        joined[begin:end] = content
        written.append(WrittenBatch(base_offset, last_offset, len(content), max_timestamp))
    return joined, written
