"""Writing to the target: the open transaction, with the appends of it that are in flight, and its commit."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.mirror.offset_translation import CopiedRun
from tidelog.plugins.mirror.transactional_writes import (
    append_in_transaction,
    commit_with_ledger,
    prepare_append,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.client.batches import NewRecord
    from tidelog.plugins.client.producers import TransactionalProducer
    from tidelog.plugins.mirror.cluster_client import MirrorClient
    from tidelog.plugins.mirror.failing_partitions import FailingPartitions
    from tidelog.plugins.mirror.ledger_reading import LedgerReader
    from tidelog.plugins.mirror.settings import MirrorSettings
    from tidelog.plugins.mirror.source_batches import OutgoingBatch
    from tidelog.plugins.mirror.source_fetching import CopiedPart
    from tidelog.plugins.mirror.statistics import MirrorStatistics

_APPENDS_IN_FLIGHT: Final = 3
"""So that the target has the next chunk while the acknowledgement of the one before is under way."""


@attrs.define
class _Append:
    """A chunk that was sent, and when it is acknowledged the base offsets of its batches."""

    parts: Sequence[CopiedPart]
    offsets: Mapping[TopicPartition, Sequence[int]] | None = None


@attrs.define
class OpenTransaction:
    """The open transaction: what it has copied, and when it is committed.

    Several appends are in flight, and the tasks that wait for them continue in any order, also on one
    connection. So an append counts only when all that were sent before it do: otherwise the position could
    be set back to that of an earlier chunk, and the runs of a partition would not be in the order of offsets.
    """

    commit_at: float
    notes_runs: bool
    positions: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int])
    epochs: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int])
    runs: dict[TopicPartition, list[CopiedRun]] = attrs.field(factory=dict[TopicPartition, list[CopiedRun]])
    behind: dict[TopicPartition, int] = attrs.field(factory=dict[TopicPartition, int])
    records: int = 0
    batches: int = 0
    copied_bytes: int = 0
    _sent: deque[_Append] = attrs.field(factory=deque[_Append])

    def sending(self, parts: Sequence[CopiedPart]) -> _Append:
        """Add a chunk behind all before it; it has to be acknowledged."""
        append = _Append(parts)
        self._sent.append(append)
        return append

    def acknowledged(self, append: _Append, offsets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Count an append, unless one before is not acknowledged yet: then that one counts both."""
        append.offsets = offsets
        while self._sent and self._sent[0].offsets is not None:
            counted = self._sent.popleft()
            self._count(counted.parts, counted.offsets or {})

    def _count(self, parts: Sequence[CopiedPart], offsets: Mapping[TopicPartition, Sequence[int]]) -> None:
        # Several partitions of the source may have gone into one of the target, in their order.
        found = {target: iter(each) for target, each in offsets.items()}
        for part in parts:
            self.positions[part.partition] = part.next_offset
            self.epochs[part.partition] = part.last_epoch
            self.behind[part.partition] = part.behind
            for target, each in part.batches.items():
                bases = islice(found[target], len(each))
                runs = [
                    CopiedRun(batch.first_offset, batch.consecutive, base)
                    for batch, base in zip(each, bases, strict=True)
                ]
                if self.notes_runs:
                    self.runs.setdefault(part.partition, []).extend(runs)
                self.records += sum(batch.record_count for batch in each)
                self.copied_bytes += sum(len(batch.data) for batch in each)
                self.batches += len(each)


class TargetWriter:
    """Appends chunks at the target in transactions, each with what it has copied in the ledger.

    All of it is between `begin` and `end`: after any error the transaction can only be aborted, which the
    next producer of the same transactional id does.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        target: MirrorClient,
        reader: LedgerReader,
        failing: FailingPartitions,
        statistics: MirrorStatistics,
    ) -> None:
        self._settings = settings
        self._target = target
        self._ledger_partition, self._ledger = reader.partition, reader.ledger
        self._failing = failing
        self._statistics = statistics
        self._producer: TransactionalProducer | None = None
        self._transaction: OpenTransaction | None = None

    @property
    def has_producer(self) -> bool:
        """Whether it can write."""
        return self._producer is not None

    def begin(self, producer: TransactionalProducer) -> None:
        """Write with a producer that has no open transaction."""
        self._producer, self._transaction = producer, None

    def end(self) -> None:
        """Drop the producer, and what is in memory of a transaction that is aborted."""
        self._producer, self._transaction = None, None

    async def commit_records(self, records: Sequence[NewRecord]) -> None:
        """Commit records of the ledger in a transaction of their own, and apply them; raises ClientError."""
        self._open_producer().begin_transaction()
        await self._commit_with(records)

    async def append_all(self, receive: trio.MemoryReceiveChannel[list[CopiedPart]]) -> None:
        """Append what is fetched, and commit in time, until no more is fetched; raises ClientError."""
        async with receive, trio.open_nursery() as appends:
            slots = trio.Semaphore(_APPENDS_IN_FLIGHT)
            while True:
                parts: list[CopiedPart] | None = None
                is_end = False
                commit_at = float("inf") if self._transaction is None else self._transaction.commit_at
                with trio.move_on_at(commit_at):
                    try:
                        parts = await receive.receive()
                    except trio.EndOfChannel:
                        is_end = True
                if parts is not None:
                    await self._begin_append(parts, appends, slots)
                transaction = self._transaction
                if is_end or (transaction is not None and trio.current_time() >= transaction.commit_at):
                    await _all_ended(slots)
                    await self._commit()
                if is_end:
                    return

    async def _begin_append(
        self, parts: Sequence[CopiedPart], appends: trio.Nursery, slots: trio.Semaphore
    ) -> None:
        """Send the batches, behind those of the appends before, which need not be acknowledged yet."""
        producer = self._open_producer()
        transaction = self._transaction
        if transaction is None:
            commit_at = trio.current_time() + self._settings.commit_interval_s
            transaction = self._transaction = OpenTransaction(commit_at, self._settings.keeps_partitions)
            producer.begin_transaction()
        batches: dict[TopicPartition, list[OutgoingBatch]] = {}
        for part in parts:
            for target, each in part.batches.items():
                batches.setdefault(target, []).extend(each)
        if producer.missing_partitions(batches):
            await self._target.run(prepare_append, producer, list(batches))
        await slots.acquire()
        await appends.start(self._append, transaction, transaction.sending(parts), batches, slots)

    async def _append(
        self,
        transaction: OpenTransaction,
        append: _Append,
        batches: dict[TopicPartition, list[OutgoingBatch]],
        slots: trio.Semaphore,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        offsets: dict[TopicPartition, list[int]] = {}
        if batches:
            offsets = await self._target.run(
                append_in_transaction, self._open_producer(), batches, task_status.started
            )
        else:
            task_status.started()
        transaction.acknowledged(append, offsets)
        slots.release()

    async def _commit(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        records: list[NewRecord] = []
        for partition, next_offset in transaction.positions.items():
            epoch, runs = transaction.epochs[partition], transaction.runs.get(partition, ())
            records += self._ledger.copied(partition, next_offset, epoch, runs)
        await self._commit_with(records)
        self._transaction = None
        self._statistics.committed(
            trio.current_time(), transaction.records, transaction.batches, transaction.copied_bytes
        )
        for partition, behind in transaction.behind.items():
            self._statistics.note_lag(partition, behind)
            self._failing.copied(partition)

    async def _commit_with(self, records: Sequence[NewRecord]) -> None:
        await self._target.run(commit_with_ledger, self._open_producer(), self._ledger_partition, records)
        for record in records:
            self._ledger.apply(record)

    def _open_producer(self) -> TransactionalProducer:
        if self._producer is None:
            raise AssertionError("`begin` has set it")
        return self._producer


async def _all_ended(slots: trio.Semaphore) -> None:
    """Wait until no append is in flight."""
    for _ in range(_APPENDS_IN_FLIGHT):
        await slots.acquire()
    for _ in range(_APPENDS_IN_FLIGHT):
        slots.release()
