"""A log with keys and transactions: how it is written, and what consumers of committed records have of it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tests.crash.checks import is_abort
from tests.crash.compacting import CompactingCore
from tests.kernel.records.message_sets import Row, plain_set, wrapper
from tests.metadata_changes import allocate_producer_ids
from tidelog.kernel.errors import NotLeaderOrFollower
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, Buffer
from tidelog.kernel.records.message_set import MessageContent
from tidelog.kernel.records.stored import iter_stored, iter_stored_contents
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.batches import NO_PRODUCER_EPOCH
from tidelog.kernel.testing.storage.harness import slice_bytes

VALUE_BYTES = 120

FETCH_BYTES = 900


@attrs.define
class Producer:
    """An idempotent producer of the log; `last` is its newest batch as it was sent, and its first offset."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = 0
    last: tuple[bytes, int] | None = None


@attrs.define
class Writer:
    """Writes segments from words. Each batch is a second younger than the one before.

    `key=value` is a record, `key` a tombstone. A batch `name: ...` is in a transaction of that producer,
    `name commit` and `name abort` end it, and `name, ...` is a batch of an idempotent producer.
    """

    core: CompactingCore
    producers: dict[str, Producer] = attrs.field(factory=dict[str, Producer])

    async def segments(self, *segments: Sequence[str]) -> None:
        """Write batches, each sequence to a segment of its own; the active segment is empty afterwards."""
        for batches in segments:
            for batch in batches:
                await self.batch(batch)
            await self.core.partition.roll()
            self.core.tasks.run_jobs()

    async def batch(self, text: str) -> None:
        """Write one batch, or end a transaction."""
        self.core.clock.advance(1000)
        name, _, end = text.partition(" ")
        if end in ("commit", "abort"):
            producer_id = (await self._producer(name)).producer_id
            self.core.partition.append_marker(producer_id, 0, 0, commit=end == "commit")
            return
        head, colon, words = text.partition(": ")
        if colon:
            self._append(words, await self._producer(head), in_transaction=True)
            return
        head, comma, words = text.partition(", ")
        if comma:
            self._append(words, await self._producer(head))
        else:
            self._append(text, Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE))

    async def messages(self, *segments: Sequence[str]) -> None:
        """Write messages of old formats, each sequence to a segment of its own, as `segments` does.

        `format codec: ...` is a compressed message of that format with records, or without a codec (0) one
        for each of them.
        """
        partition = self.core.partition
        partition.follow(partition.leader_epoch, NotLeaderOrFollower("another broker leads"))
        for messages in segments:
            for text in messages:
                self.core.clock.advance(1000)
                partition.append_as_follower(self._messages(text, partition.log_end_offset))
            partition.advance_high_watermark(partition.log_end_offset)
            await partition.roll()
            self.core.tasks.run_jobs()
        partition.lead(partition.leader_epoch)

    def _messages(self, text: str, offset: int) -> bytearray:
        head, _, words = text.partition(": ")
        magic, codec = map(int, head.split())
        pairs = [word.partition("=") for word in words.split()]
        now = self.core.clock()
        rows: list[Row] = [
            (now, key.encode(), value.encode().ljust(VALUE_BYTES, b".") if sign else None)
            for key, sign, value in pairs
        ]
        if not codec:
            return bytearray(plain_set(rows, magic, offset))
        inner = plain_set(rows, magic, 0 if magic else offset)
        return bytearray(wrapper(inner, magic, codec, offset + len(rows) - 1, now))

    async def _producer(self, name: str) -> Producer:
        if name not in self.producers:
            (producer_id,) = await allocate_producer_ids(self.core.metadata, 1)
            self.producers[name] = Producer(producer_id)
        return self.producers[name]

    def _append(self, words: str, producer: Producer, *, in_transaction: bool = False) -> None:
        pairs = [word.partition("=") for word in words.split()]
        batch = make_batch(
            [value.encode().ljust(VALUE_BYTES, b".") if sign else None for _, sign, value in pairs],
            keys=[key.encode() for key, _, _ in pairs],
            timestamps=self.core.clock(),
            transactional=in_transaction,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.next_sequence,
        )
        sent = bytes(batch)
        result = self.core.partition.append_nowait(batch, in_transaction=in_transaction)
        producer.next_sequence += len(pairs)
        producer.last = sent, result.base_offset


def committed_records(partition: UnifiedLog, offset: int) -> list[MessageContent]:
    """What a consumer of committed records reads from `offset` on, in fetches of `FETCH_BYTES`."""
    records: list[MessageContent] = []
    while offset < partition.last_stable_offset:
        found = partition.read(offset, FETCH_BYTES, Isolation.READ_COMMITTED, wait=True)
        if not found.size:
            break
        waiting = sorted(
            partition.aborted_transactions(offset, found, wait=True), key=lambda each: each.first_offset
        )
        aborted: set[int] = set()
        begin = offset
        for header, batch in iter_stored(memoryview(slice_bytes(found))):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if header.is_control:
                aborted -= {header.producer_id} if is_abort(bytes(batch), header) else set()
            elif not (header.is_transactional and header.producer_id in aborted):
                records += [each for each in records_in(batch, header) if each.offset >= begin]
            offset = header.next_offset
    return records


def records_in(batch: Buffer, header: BatchHeader) -> Sequence[MessageContent]:
    """The records of a batch, or of a message of format 0 or 1."""
    return list(iter_stored_contents(batch, header, VALUE_BYTES * 100))


def final_values(partition: UnifiedLog, offset: int) -> dict[bytes | None, bytes]:
    """The table that a consumer of committed records has, who begins at `offset`."""
    table: dict[bytes | None, bytes] = {}
    for record in committed_records(partition, offset):
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def newest_offsets(partition: UnifiedLog, end: int | None) -> dict[bytes | None, int]:
    """Key → the offset of its newest record, of those below `end` if that is given."""
    records = committed_records(partition, partition.log_start_offset)
    return {each.key: each.offset for each in records if end is None or each.offset < end}
