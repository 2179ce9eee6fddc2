"""The log of one partition above its storage: the only way in and out of it, and the owner of its state.

    log start ≤ last stable ≤ high watermark ≤ log end

Offsets and waiters are in `Watermarks`, durability in `GroupCommit`, epochs in `LeaderEpochFileCache`,
producers and their snapshots in `ProducerStateManager`, work on files in the background in `SideWrites`.
Every change of the log is made here, since each changes several of these: appends as the leader and as a
follower, markers, truncation, log start, rolls, segments that are deleted or replaced. What is checked before
a write is in `validation` and `record_checks`. Source: Apache Kafka's `UnifiedLog`.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import (
    BrokerError,
    InvalidTransactionState,
    LogBusy,
    OffsetOutOfRange,
    StorageError,
)
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME
from tidelog.kernel.log.availability import Availability
from tidelog.kernel.log.epochs import LeaderEpochFileCache
from tidelog.kernel.log.group_commit import GroupCommit
from tidelog.kernel.log.lookup import TimestampLookup
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.log.producer_state_manager import ProducerStateManager
from tidelog.kernel.log.record_checks import (
    CheckedAppend,
    CheckedBatch,
    ChecksTakeLong,
    RecordChecks,
    check_for_a_turn,
    check_rest,
    check_whole_batch,
)
from tidelog.kernel.log.side_writes import SideWrites
from tidelog.kernel.log.storage_failure import storage_failure
from tidelog.kernel.log.validation import (
    LOG_APPEND_TIME,
    PartitionConfig,
    validate_batch,
    validate_leaders_batches,
)
from tidelog.kernel.log.watermarks import Watermarks
from tidelog.kernel.records.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
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
    Isolation,
    LastBatch,
)
from tidelog.kernel.seams.storage import EMPTY_SLICE, WouldBlock

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.kernel.clock import Clock
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.log.flush_threads import FlushThreads
    from tidelog.kernel.log.producers import SentBatch
    from tidelog.kernel.seams.partition import AppendWaiter, LogWatcher, TimestampOffset
    from tidelog.kernel.seams.storage import (
        AbortedTransaction,
        LogSlice,
        PartitionStore,
        SegmentDraft,
        SegmentView,
        TopicPartition,
    )

_log = logging.getLogger(__name__)


class UnifiedLog:
    """One open log.

    Attributes:
        config: the topic's configuration as appends and flushes use it
        revision: a number that changes whenever the segments have changed otherwise than by appends
    """

    __slots__ = (
        "_clock",
        "_leader_epoch",
        "_name",
        "_revisions",
        "availability",
        "commit",
        "config",
        "epochs",
        "producers",
        "revision",
        "side_writes",
        "store",
        "topic_id",
        "topic_partition",
        "unpacking",
        "watermarks",
    )

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
        """Take over an opened store; `load_log` is to be called before anything else.

        `in_thread(name, job)` runs a blocking job soon, off the event loop. `flush_threads` and `unpacking`
        are shared by all logs.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.store = store
        self.config = config.derive(PartitionConfig.of)
        self.unpacking = unpacking or Unpacking()
        self._clock = clock
        self._name = name = str(topic_partition)
        self.side_writes = SideWrites(store, in_thread)
        self.epochs = LeaderEpochFileCache(name, store, self.side_writes)
        self.producers = ProducerStateManager(name, store, self.side_writes)
        self.watermarks = Watermarks(
            store.log_start_offset, store.log_end_offset, self.producers.transactions
        )
        self.availability = Availability(topic_partition, self.side_writes, self.watermarks)
        self.commit = GroupCommit(
            name,
            store,
            self.watermarks,
            self.config.flush_messages,
            flush_threads,
            self.availability.take_offline,
        )
        self._leader_epoch = 0
        # Each number is drawn once, so that two threads never leave the same one behind.
        self._revisions = itertools.count(1)
        self.revision = 0

    @property
    def offline(self) -> BrokerError | None:
        """Why it is offline, None while it is not."""
        return self.availability.reason

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self.watermarks.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        return self.watermarks.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed: no change of leader loses it."""
        return self.watermarks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is undecided, and up to which committed readers see."""
        return self.watermarks.last_stable_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the partition is led; batches that are appended as leader get it."""
        return self._leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self._leader_epoch = epoch
        self.watermarks.notify()

    @property
    def has_unflushed(self) -> bool:
        """Whether something was appended that no flush has made durable."""
        return self.commit.has_unflushed

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed configuration, from the next append on."""
        self.config = config.derive(PartitionConfig.of)
        self.commit.flush_messages = self.config.flush_messages
        self.store.configure(config)

    # --- appending

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

    async def _convert_and_append(
        self, convert: Callable[[PartitionConfig, int], Awaitable[bytearray]]
    ) -> AppendResult:
        return self._append_converted(await convert(self.config, self._clock()))

    def _append_converted(self, batch: bytearray) -> AppendResult:
        header = parse_header(batch)
        checked = CheckedBatch(header, header.max_timestamp)
        return self._append_next(batch, RecordChecks.DONE, NO_TRANSACTION, checked=checked)

    async def _check_and_append(
        self, batch: bytearray | memoryview, checks: ChecksTakeLong, verify: Callable[[], int] | None
    ) -> AppendResult:
        """Check the records step by step, and append the batch."""
        batch, checked = await check_rest(batch, checks, self.config, self._clock(), self.unpacking)
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
        elif header.attributes & TIMESTAMP_TYPE_BIT or max_timestamp != header.max_timestamp:
            header = stamp_create_time(batch, header, max_timestamp)
        base_offset = self.watermarks.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp_offset(batch, base_offset, self._leader_epoch)
        self._write(batch, header, base_offset, last_offset, self._leader_epoch, None)
        return AppendResult(base_offset, last_offset, append_time, self.commit.appended(last_offset + 1))

    def _as_answered_then(self, sent: SentBatch) -> AppendResult:
        stamped = self.config.message_timestamp_type == LOG_APPEND_TIME
        time = sent.timestamp if stamped else NO_TIMESTAMP
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
        self.availability.check()
        for header, data, marker in validate_leaders_batches(memoryview(batches), self.log_end_offset):
            epoch = header.leader_epoch
            self._write(data, header, header.base_offset, header.last_offset, epoch, marker)
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
            if self.epochs.is_owed:
                self.epochs.check_paid()
            rolled = self.store.append(batch, base_offset, last_offset, header.max_timestamp)
        except OSError as error:
            if not disk.is_full(error):
                _log.error("%s: append failed: %s", self._name, error)
            raise StorageError(f"{self._name}: the disk refused the batch: {error}") from error
        except BrokerError:
            raise
        except Exception as error:
            # What the log has now is unknown, so the next batch may not follow.
            raise self._taken_offline(storage_failure(self._name, self.store, "append", error)) from error
        if rolled:
            # Of the state below the new segment, so before this batch changes it.
            self.producers.snapshot_soon(base_offset)
        if leader_epoch > self.epochs.latest:
            self.epochs.begin(leader_epoch, base_offset)
        if marker is not None:
            self._apply_marker(header, base_offset, marker)
        elif header.producer_id > NO_PRODUCER_ID:
            self.producers.update(header, base_offset)
        watermarks = self.watermarks
        watermarks.log_end_offset = last_offset + 1
        watermarks.unseen_bytes += len(batch)

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
        if self.offline is None:
            self.commit.show_durable()

    def follow(self, epoch: int, refusal: BrokerError) -> None:
        """Let another broker lead in that epoch; only `advance_high_watermark` moves the high watermark then.

        Clients that append, or wait for what they appended, get `refusal`. Waiting fetches read again.
        """
        self.watermarks.follows = True
        self.availability.refuse_appends(refusal)
        self.leader_epoch = epoch
        self.commit.abandon_waits(refusal)
        self.watermarks.abandon_waiters()

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`; readers see it then.

        Cancelling this wait cancels nothing else: the append has begun the flush.

        Raises:
            StorageError: the disk refused to flush; the record may be lost and must not be acknowledged.
            NotLeaderOrFollower: another broker leads, whose log may not have it.
        """
        if self.watermarks.follows:
            self.availability.check_leads()
        await self.commit.wait_flushed(offset)

    async def flush(self) -> None:
        """Make everything appended so far durable.

        Raises:
            StorageError: the disk refused.
        """
        await self.commit.flush_all()

    # --- reading

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on, up to `max_bytes` but at least one whole batch.

        Raises:
            OffsetOutOfRange: below the log start offset or above the log end offset.
            BrokerError: the log is offline; says why.
            WouldBlock: the read would wait for the disk; repeat it in a thread with `wait=True`.
        """
        if self.availability.reason is not None:
            self.availability.check()
        watermarks, store = self.watermarks, self.store
        limit = watermarks.last_stable_offset if isolation else watermarks.high_watermark
        if offset == limit:
            return EMPTY_SLICE
        if not watermarks.log_start_offset <= offset <= watermarks.log_end_offset:
            raise OffsetOutOfRange(
                f"{self._name}: offset {offset} is not between log start "
                f"{watermarks.log_start_offset} and log end {watermarks.log_end_offset}"
            )
        if offset > limit:
            return EMPTY_SLICE
        try:
            return store.read(offset, max_bytes, limit, wait=wait)
        except OSError as error:
            _log.error("%s: read failed: %s", self._name, error)
            raise StorageError(f"{self._name} cannot be read: {error}") from error
        except (BrokerError, WouldBlock):
            raise
        except Exception as error:
            raise storage_failure(self._name, store, "read", error) from error

    def aborted_transactions(
        self, offset: int, found: LogSlice, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return what a reader of committed records has to leave out of the slice read at `offset`.

        Raises:
            WouldBlock: as for `read`.
        """
        if not found.size:
            return ()
        try:
            return self.store.aborted_transactions(offset, found.end_offset, wait=wait)
        except OSError as error:
            raise StorageError(f"{self._name} cannot be read: {error}") from error
        except (BrokerError, WouldBlock):
            raise
        except Exception as error:
            raise storage_failure(self._name, self.store, "aborted_transactions", error) from error

    def readable_end(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of that isolation may not see yet."""
        return self.watermarks.last_stable_offset if isolation else self.watermarks.high_watermark

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Blocking, for `unpacking.read`: return the first record at or after that time, None without one.

        Raises:
            StorageError: the disk refused.
        """
        return self._lookup().first_at(timestamp_ms)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Blocking, for `unpacking.read`: return the first record of the largest timestamp, None if empty.

        Raises:
            StorageError: the disk refused.
        """
        return self._lookup().of_max_timestamp()

    def _lookup(self) -> TimestampLookup:
        return TimestampLookup(self._name, self.store, self.log_start_offset, self.unpacking.memory)

    def last_batches(self) -> Mapping[int, LastBatch]:
        """Return what is known last of each active producer, by producer id."""
        return {
            producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for producer_id, entry in self.producers.entries.items()
        }

    def add_waiter(self, waiter: AppendWaiter, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """Notify `waiter` of bytes that readers of that isolation can see from now on."""
        self.watermarks.add_waiter(waiter, committed=isolation is Isolation.READ_COMMITTED)

    def remove_waiter(self, waiter: AppendWaiter) -> None:
        """Notify `waiter` no longer."""
        self.watermarks.remove_waiter(waiter)

    def add_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` of all that changes for readers from now on."""
        self.watermarks.add_watcher(watcher)

    def remove_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` no longer."""
        self.watermarks.remove_watcher(watcher)

    def abandon_waiters(self) -> None:
        """Wake all waiters: there is nothing to wait for any more."""
        self.watermarks.abandon_waiters()

    def take_offline(self, reason: BrokerError | None = None) -> None:
        """Refuse every append and read from now on (by default: it was deleted), and wake the waiters."""
        self.availability.take_offline(reason)

    # --- other changes; the coroutines run on the event loop, and their work on files in a thread

    def truncate_to(self, offset: int) -> None:
        """Blocking, for a thread: drop every batch that holds `offset` or a later one, and what it caused.

        Producers are restored from the newest remaining snapshot and the log above it; open transactions,
        epochs and watermarks are those of the truncated log. Nothing is appended meanwhile.

        Raises:
            OSError: the disk refused.
        """
        store, watermarks = self.store, self.watermarks
        if offset >= watermarks.log_end_offset:
            return
        # Before anything goes, so that no reader is shown what is about to.
        high_watermark = min(watermarks.high_watermark, offset)
        watermarks.hold_back(high_watermark)
        dropped_writes = self.side_writes.forget()
        try:
            store.truncate_to(offset)
        finally:
            self.revise()
        end = watermarks.log_end_offset = store.log_end_offset
        self.commit.truncated(end)
        self.producers.remove_snapshots(above=end)
        self.epochs.truncate_to(end, rewrite=CHECKPOINT_NAME in dropped_writes)
        # Transactions that end above the high watermark hold readers back: no snapshot has these.
        self.producers.reload(self.epochs, newest_snapshot=min(high_watermark, end), whole_log=False)
        watermarks.reset(store.log_start_offset, min(high_watermark, end), end)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset (DeleteRecords); do nothing if it is at `offset` or above it.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        watermarks = self.watermarks
        if not 0 <= offset <= watermarks.high_watermark:
            raise OffsetOutOfRange(
                f"{self._name}: the log cannot begin at {offset}, its high watermark is "
                f"{watermarks.high_watermark}"
            )
        if offset <= watermarks.log_start_offset:
            return
        self.store.raise_log_start(offset)
        watermarks.raise_log_start(offset)
        self.epochs.raise_log_start(offset)
        self.producers.remove_snapshots_soon(below=offset)

    async def roll(self) -> bool:
        """Begin a new segment at the log end; return False if the active one has no batch.

        Raises:
            BrokerError: the log is offline; says why.
            StorageError: the disk refused; the log is as before.
        """
        self.availability.check()
        try:
            await trio.to_thread.run_sync(self.side_writes.run, self.store.prepare_roll)
            # It may have gone offline meanwhile.
            self.availability.check()
            rolled = self.store.roll()
        except OSError as error:
            raise StorageError(f"{self._name}: no new segment: {error}") from error
        if rolled:
            self.revise()
            self.producers.snapshot_soon(self.watermarks.log_end_offset)
        return rolled

    async def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Raise the log start offset, delete the segments below it except the active one, and return those.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
            BrokerError: the log is offline; says why.
            StorageError: the disk refused; some segments may be deleted.
        """
        self.availability.check()
        self.raise_log_start(offset)
        delete = partial(self._delete_segments_before, self.watermarks.log_start_offset)
        try:
            return await trio.to_thread.run_sync(self.side_writes.run, delete) or ()
        except OSError as error:
            raise StorageError(f"{self._name}: segments are not deleted: {error}") from error

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, and delete the segments below it in the background.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        self.raise_log_start(offset)
        self.side_writes.run_soon(
            f"delete {self._name}", partial(self._delete_segments_before, self.watermarks.log_start_offset)
        )

    def _delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        try:
            return self.store.delete_segments_before(offset)
        finally:
            self.revise()

    async def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Replace segments by drafts, as `PartitionStore.replace_segments` does.

        Raises:
            BrokerError: the log is offline or gone; says why.
            StaleDraft, ValueError, OSError: see there.
        """
        self.availability.check()
        replace = partial(self._replace_segments, drafts, replaced)
        if not await trio.to_thread.run_sync(self.side_writes.run, replace):
            raise LogBusy(f"{self._name}: the partition was deleted")

    def _replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> bool:
        try:
            self.store.replace_segments(drafts, replaced)
        finally:
            self.revise()
        self.producers.remove_stray_snapshots()
        return True

    def revise(self) -> None:
        """Note that segments are others than before, also after a change that failed.

        That is after a truncation, a roll that was asked for, a deletion or a replacement of segments, and a
        move to another log directory.
        """
        self.revision = next(self._revisions)

    def close(self) -> None:
        """Blocking: write the producer snapshot of the log end, as a clean stop does, and close the store.

        Raises:
            OSError, StorageError: the store could not be closed properly.
        """
        failed = isinstance(self.offline, StorageError)
        self.availability.take_offline()
        if not failed and (self.producers.entries or self.log_end_offset > 0):
            self.producers.write_snapshot(self.log_end_offset)
        self.store.close()
