"""The log of one partition above its storage: the only way in and out of it, and the owner of its state.

    log start ≤ last stable ≤ high watermark ≤ log end

Offsets and waiters are in `Watermarks`, durability in `GroupCommit`, epochs in `LeaderEpochFileCache`,
producers and their snapshots in `ProducerStateManager`, work on files in the background in `SideWrites`.
Each change of a log changes several of these, so it is a method of the log: here appends, as the leader or as
a follower, and which of both it is; truncation and other changes of segments in `SegmentedLog`, reads and
lookups in `ReadableLog`. What is checked before a write is in `validation` and `record_checks`.
Source: Apache Kafka's `UnifiedLog`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel import disk
from tidelog.kernel.errors import (
    BrokerError,
    InvalidTransactionState,
    StorageError,
)
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.log.record_checks import (
    CheckedAppend,
    CheckedBatch,
    ChecksTakeLong,
    RecordChecks,
    check_for_a_turn,
    check_rest,
    check_whole_batch,
)
from tidelog.kernel.log.segmented_log import SegmentedLog
from tidelog.kernel.log.storage_failure import storage_failure
from tidelog.kernel.log.validation import (
    LOG_APPEND_TIME,
    PartitionConfig,
    validate_batch,
    validate_leaders_batches,
)
from tidelog.kernel.records.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
    parse_header,
    stamp_append_time,
    stamp_create_time,
    stamp_offset,
)
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.seams.coordination.transactions import FIRST_TRANSACTION_VERSION, NO_TRANSACTION
from tidelog.kernel.seams.partition import (
    AppendOrigin,
    AppendResult,
)

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.log.flush_threads import FlushThreads
    from tidelog.kernel.log.producers import SentBatch
    from tidelog.kernel.seams.storage import PartitionStore, TopicPartition

_log = logging.getLogger(__name__)


class UnifiedLog(SegmentedLog):
    """One open log: `append_as_leader` and `append_as_follower`, and which of both its partition is."""

    __slots__ = ("_clock",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        store: PartitionStore,
        config: TopicConfig,
        clock: Clock,
        in_thread: Callable[[str, Callable[[], object]], None],
        flush_threads: FlushThreads,
        unpacking: Unpacking | None = None,
    ) -> None:
        """Take over an opened store; `load` is to be called before anything else.

        `in_thread(name, job)` runs a blocking job soon, off the event loop. `flush_threads` and `unpacking`
        are shared by all logs.
        """
        super().__init__(topic_partition, topic_id, store, config, in_thread, flush_threads, unpacking)
        self._clock = clock

    def append_as_leader(
        self, batch: bytearray | memoryview, verify: Callable[[], int] | None = None
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append one batch that a client sent; the header is stamped in place, so `batch` must be writable.

        A retry of one of the producer's last five batches is answered with the offsets that it got then.
        Nearly always the batch is in the log when this returns. If its records take long to check, it is
        appended by awaiting what is returned; nothing is done before, and others are served meanwhile.

        `verify`, of a transactional request, returns the version of the producer's transaction if the
        coordinator has the partition in it, -1 for a batch without a transaction, or raises why it has not
        (KIP-890). It is called before any other check, and once more after checks that were awaited: no
        checkpoint lies between it and the write.

        Raises:
            InvalidTransactionState: a transactional batch that is not verified, or a batch outside of the
                transaction that its producer has open.
            BrokerError: the batch is refused.
            StorageError: the disk refused; the log is as before.
        """
        try:
            return self._append_next(batch, RecordChecks.QUICK, verify() if verify else NO_TRANSACTION)
        except ChecksTakeLong as checks:
            # With `verify` itself and not its answer: the transaction may end or time out while the records
            # are checked.
            return CheckedAppend(partial(self._check_and_append, batch, checks, verify))

    def append_nowait(
        self,
        batch: bytearray | memoryview,
        *,
        in_transaction: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append one batch as `append_as_leader` does, at once, however long its records take to check.

        `in_transaction`: the partition is part of the producer's transaction. A coordinator's batches have no
        sequence, and their records are not checked.

        Raises:
            BrokerError: see `append_as_leader`.
        """
        transaction_version = FIRST_TRANSACTION_VERSION if in_transaction else NO_TRANSACTION
        if origin is AppendOrigin.COORDINATOR:
            return self._append_next(batch, RecordChecks.DONE, transaction_version, sequenced=False)
        return self._append_next(batch, RecordChecks.ALL, transaction_version)

    def append_message_set(self, messages: bytearray | memoryview) -> AppendResult | Awaitable[AppendResult]:
        """Append the messages of formats 0 and 1 that a client before Kafka 0.11 sent, as one record batch.

        As with `append_as_leader`, converting them may take long; then what is returned has to be awaited.

        Raises:
            BrokerError: the messages are refused, all together.
            StorageError: the disk refused; the log is as before.
        """
        # Not at the top: its tables take time and memory, and clients of today never need it.
        from tidelog.kernel.log import message_sets

        if not message_sets.is_quick(messages, self.config):
            convert = partial(message_sets.convert_in_steps, messages, unpacking=self.unpacking)
            return CheckedAppend(partial(self._convert_and_append, convert))
        return self._append_converted(message_sets.convert(messages, self.config, self._clock()))

    async def batch_of_message_set(self, messages: bytearray | memoryview) -> bytearray:
        """Return the batch that `append_message_set` would append, as a client of today sends it.

        Raises:
            BrokerError: the messages are refused, all together.
        """
        from tidelog.kernel.log import message_sets

        return await message_sets.convert_in_steps(
            messages, self.config, self._clock(), unpacking=self.unpacking
        )

    def append_placeholder(self, header: BatchHeader) -> AppendResult:
        """Append a batch without records that takes the offsets and sequence of one that is stored elsewhere.

        It is as compaction leaves a batch of which no record stays. The producer's next batch follows it, and
        a retry of the one that it stands for is answered with its offsets.

        Raises:
            BrokerError: see `append_as_leader`.
        """
        batch = pack_batch(header._replace(attributes=0, record_count=0), b"")
        checked = CheckedBatch(parse_header(batch), header.max_timestamp)
        return self._append_next(batch, RecordChecks.DONE, NO_TRANSACTION, checked=checked)

    async def _convert_and_append(
        self, convert: Callable[[PartitionConfig, int], Awaitable[bytearray]]
    ) -> AppendResult:
        # By the time at which the conversion begins: it may run in a thread for long, but all its messages
        # are checked against the same time.
        return self._append_converted(await convert(self.config, self._clock()))

    def _append_converted(self, batch: bytearray) -> AppendResult:
        header = parse_header(batch)
        # The conversion has made the header from the messages, so it needs none of `validate_batch`, and the
        # timestamp is that of the records.
        checked = CheckedBatch(header, header.max_timestamp)
        return self._append_next(batch, RecordChecks.DONE, NO_TRANSACTION, checked=checked)

    async def _check_and_append(
        self, batch: bytearray | memoryview, checks: ChecksTakeLong, verify: Callable[[], int] | None
    ) -> AppendResult:
        """Check the records step by step, and append the batch."""
        # By the configuration of this moment. Role, sequence and timestamp type are looked at after the wait.
        batch, checked = await check_rest(batch, checks, self.config, self._clock(), self.unpacking)
        # Again, since the coordinator may have ended the transaction during the wait: a batch that came after
        # its marker would open one that nothing ends (KIP-890).
        transaction_version = verify() if verify else NO_TRANSACTION
        return self._append_next(batch, RecordChecks.DONE, transaction_version, checked=checked)

    def _append_next(
        self,
        batch: bytearray | memoryview,
        checks: RecordChecks,
        transaction_version: int,
        *,
        sequenced: bool = True,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Append one batch with the next offsets; its header and records were perhaps checked before.

        `transaction_version` is that of the transaction which includes the partition, or NO_TRANSACTION.
        There is no checkpoint in here: on one event loop that makes reading the log end offset and writing
        the batch atomic without a lock.

        Raises:
            ChecksTakeLong: with `RecordChecks.QUICK`; nothing was appended.
            BrokerError: see `append_as_leader`.
        """
        # Looked at here, since it is nearly always None, and this is done for each batch.
        if self.availability.append_refusal is not None:
            self.availability.check_leads()
        config = self.config
        header = checked.header if checked else validate_batch(batch, config, sequenced=sequenced)
        if header.attributes & TRANSACTIONAL_BIT and transaction_version == NO_TRANSACTION:
            raise InvalidTransactionState(
                f"{self._name} was not added to a transaction of producer {header.producer_id}"
            )
        # Before the records are checked: a retry is in the log, whatever its records would be called now.
        if header.producer_id > NO_PRODUCER_ID:
            sent = self.producers.check(header, transaction_version, sequenced=sequenced)
            if sent is not None:
                return self._as_answered_then(sent)
        now_ms, append_time = self._clock(), NO_TIMESTAMP
        max_timestamp = checked.max_timestamp if checked else header.max_timestamp
        if checks is RecordChecks.QUICK:
            max_timestamp = check_for_a_turn(batch, header, config, now_ms)
        elif checks is RecordChecks.ALL:
            batch, (header, max_timestamp) = check_whole_batch(batch, header, config, now_ms)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
            stamp_append_time(batch, header, append_time)
            header = header._replace(max_timestamp=append_time)
        # Only if something differs, as it costs another CRC over the batch. A client's LogAppendTime is
        # cleared, and a wrong maximum corrected: lookups by time and retention rely on the header alone.
        elif header.attributes & TIMESTAMP_TYPE_BIT or max_timestamp != header.max_timestamp:
            header = stamp_create_time(batch, header, max_timestamp)
        # No checkpoint may come between this and the write: another append would take the same offsets.
        base_offset = self.watermarks.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp_offset(batch, base_offset, self._leader_epoch)
        self._write(batch, header, base_offset, last_offset, self._leader_epoch, None)
        return AppendResult(base_offset, last_offset, append_time, self.commit.appended(last_offset + 1))

    def _as_answered_then(self, sent: SentBatch) -> AppendResult:
        stamped = self.config.message_timestamp_type == LOG_APPEND_TIME
        time = sent.timestamp if stamped else NO_TIMESTAMP
        # The first try may not be durable yet: then its producer has to wait for the flush as it did.
        return AppendResult(sent.base_offset, sent.last_offset, time, flush_due=self.commit.is_due)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        commit: bool,
        transaction_version: int = 1,
    ) -> AppendResult:
        """End the producer's transaction in this partition with a control batch.

        Without an open transaction the marker is written all the same, as in Kafka when a coordinator repeats
        it; it then only fences older epochs. `flush_due` holds as for `append_as_leader`.

        Raises:
            InvalidProducerEpoch, TransactionCoordinatorFenced: a newer epoch was here.
            StorageError: the disk refused.
        """
        # Before the marker is checked: another leader's producers may be ahead of those known here, and the
        # coordinator has to ask that one.
        self.availability.check_leads()
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker, now_ms = EndMarker(commit, coordinator_epoch), self._clock()
        batch, header = marker_batch(producer_id, producer_epoch, marker, now_ms)
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
            stamp_append_time(batch, header, append_time)
        offset = self.watermarks.log_end_offset
        stamp_offset(batch, offset, self._leader_epoch)
        self._write(batch, header, offset, offset, self._leader_epoch, marker)
        return AppendResult(offset, offset, append_time, self.commit.appended(offset + 1))

    def append_as_follower(self, batches: bytearray | memoryview) -> None:
        """Append batches of the leader with their offsets and epochs, but for an incomplete one at the end.

        A log of an older broker has messages of the formats 0 and 1, which are appended as they are.

        Nothing is appended unless all of them are valid. Readers see them after `advance_high_watermark`.

        Raises:
            CorruptBatch: a CRC or a length is wrong.
            InvalidRecord: offsets do not grow, or are in the log already.
            StorageError: the disk refused; the batches before the one it refused are in the log.
            BrokerError: the log was taken offline; says why.
        """
        # Not `check_leads`: that another broker leads is why it is called.
        self.availability.check()
        # All of them are validated before the first is written: the list is complete when the loop begins.
        for header, data, marker in validate_leaders_batches(memoryview(batches), self.log_end_offset):
            epoch = header.leader_epoch
            self._write(data, header, header.base_offset, header.last_offset, epoch, marker)
            # While it catches up the batches are of epochs before the present one, which must not fall.
            self.leader_epoch = max(self._leader_epoch, epoch)

    def _write(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        base_offset: int,
        last_offset: int,
        leader_epoch: int,
        marker: EndMarker | None,
    ) -> None:
        """Write a batch that was checked and stamped at the log's end, and update the state derived from it.

        Readers do not see it yet.

        Raises:
            StorageError: the disk refused the batch, and the log is as before; or the transaction index took
                no entry, or the storage raised what it may not, and the log is offline.
        """
        try:
            # No record may get an epoch that is not durable: after a crash the next start would lead in the
            # same one.
            if self.epochs.is_owed:
                self.epochs.check_paid()
            rolled = self.store.append_batch(batch, base_offset, last_offset, header.max_timestamp)
        except OSError as error:
            if not disk.is_full(error):
                _log.error("%s: append failed: %s", self._name, error)
            raise StorageError(f"{self._name}: the disk refused the batch: {error}") from error
        # The storage refuses in the words of the protocol, as with a batch larger than a segment: nothing was
        # appended.
        except BrokerError:
            raise
        except Exception as error:
            # What the log has now is unknown, so the next batch may not follow.
            failure = storage_failure(self._name, self.store, "append_batch", error)
            raise self._taken_offline(failure) from error
        if rolled:
            # Of the state below the new segment, so before this batch changes it.
            self.producers.snapshot_soon(base_offset)
        # After the batch is in the log: `load` learns an epoch from the log whose checkpoint a crash came
        # before.
        if leader_epoch > self.epochs.latest:
            self.epochs.begin(leader_epoch, base_offset)
        if marker is not None:
            self._apply_marker(header, base_offset, marker)
        elif header.producer_id > NO_PRODUCER_ID:
            self.producers.update(header, base_offset)
        watermarks = self.watermarks
        watermarks.log_end_offset = last_offset + 1
        watermarks.unseen_bytes += len(batch)
        traffic = self.traffic
        traffic.bytes_in += len(batch)
        # By its offsets, as Kafka does: those that compaction has removed from a copied batch count, too.
        traffic.messages_in += last_offset - base_offset + 1

    def _apply_marker(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
        try:
            self.producers.apply_marker(header, base_offset, marker)
        except OSError as error:
            # The log has the marker and the index does not. No state is written that includes the marker
            # then, so the next start finds it in the log and adds the entry.
            failure = StorageError(f"{self._name}: no entry in the transaction index: {error}")
            raise self._taken_offline(failure) from error
        except Exception as error:
            failure = storage_failure(self._name, self.store, "add_aborted", error)
            raise self._taken_offline(failure) from error

    def _taken_offline(self, failure: StorageError) -> StorageError:
        self.availability.take_offline(failure)
        return failure

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark of a follower to that of its leader; it never falls."""
        watermarks = self.watermarks
        # The leader may be ahead of what was fetched of it: never beyond the end of this log.
        if offset < watermarks.log_end_offset:
            watermarks.advance_partly(offset)
        else:
            watermarks.advance(watermarks.log_end_offset)

    def lead(self, epoch: int) -> None:
        """Take appends of clients from now on, in that leader epoch.

        All of the log is committed then, as far as `flush.messages` allows: no other replica has to have it.
        """
        self.watermarks.follows = False
        self.availability.refuse_appends(None)
        self.leader_epoch = epoch
        # An offline log shows no more than it did, and must begin no flush.
        if self.offline is None:
            self.commit.show_durable()

    def follow(self, epoch: int, refusal: BrokerError) -> None:
        """Let another broker lead in that epoch; only `advance_high_watermark` moves the high watermark then.

        Clients that append, or wait for what they appended, get `refusal`. Waiting fetches read again.
        """
        self.watermarks.follows = True
        self.availability.refuse_appends(refusal)
        self.leader_epoch = epoch
        # After appends are refused: what these two wake up asks for the log again, and must not find it as
        # before.
        self.commit.abandon_waits(refusal)
        self.watermarks.abandon_waiters()

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`; readers see it then.

        Cancelling this wait cancels nothing else: the append has begun the flush.

        Raises:
            StorageError: the disk refused to flush; the record may be lost and must not be acknowledged.
            NotLeaderOrFollower: another broker leads, whose log may not have it.
        """
        # `follow` ended the waits that were there. One that begins later would end with a flush of this log,
        # which says nothing of the new leader's.
        if self.watermarks.follows:
            self.availability.check_leads()
        await self.commit.wait_flushed(offset)
