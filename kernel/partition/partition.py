"""A partition: the owner of its offsets and the only way into its log.

    log start ≤ last stable ≤ high watermark ≤ log end

`append` has no checkpoint between reading the log end offset and the bytes reaching the page cache: on one
event loop that makes it atomic without a lock. Each other concern has an owner: offsets and waiters
`Watermarks`, durability `GroupCommit`, epochs `LeaderEpochFileCache`, producers and their snapshots
`ProducerStateManager`. Sources: Apache Kafka's `UnifiedLog`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    BrokerError,
    FencedLeaderEpoch,
    InvalidTransactionState,
    LogBusy,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME
from tidelog.kernel.partition import lookup
from tidelog.kernel.partition.epochs import LeaderEpochFileCache
from tidelog.kernel.partition.group_commit import GroupCommit
from tidelog.kernel.partition.producer_state_manager import ProducerStateManager
from tidelog.kernel.partition.producers import SentBatch
from tidelog.kernel.partition.record_checks import (
    CheckedAppend,
    CheckedBatch,
    RecordChecks,
    check_records,
    finish,
    recompress,
    up_convert,
)
from tidelog.kernel.partition.side_writes import SideWrites
from tidelog.kernel.partition.unpacking import Unpacking
from tidelog.kernel.partition.validation import (
    LOG_APPEND_TIME,
    QUICK_SET_BYTES,
    ChecksTakeLong,
    PartitionConfig,
    needs_record_checks,
    recompressed_in_steps,
    up_conversion,
    validate_batch,
    validate_records,
)
from tidelog.kernel.partition.watermarks import Watermarks
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
from tidelog.kernel.records.up_conversion import source_codec, up_convert_in_steps
from tidelog.kernel.seams.partition import (
    NO_LEADER_EPOCH,
    AppendOrigin,
    AppendResult,
    AppendWaiter,
    Isolation,
    LastBatch,
    TimestampOffset,
)
from tidelog.kernel.seams.storage import (
    EMPTY_SLICE,
    AbortedTransaction,
    LogSlice,
    PartitionStore,
    SegmentDraft,
    SegmentView,
    TopicPartition,
)

_log = logging.getLogger(__name__)


class Partition:
    """One partition of a topic, open; led by this broker unless it is a follower (`follow`)."""

    __slots__ = (
        "_clock",
        "commit",
        "config",
        "epochs",
        "leader_epoch",
        "offline",
        "producers",
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
        run_shielded: Callable[[str, Callable[[], Awaitable[None]]], None],
        unpacking: Unpacking | None = None,
    ) -> None:
        """Take over an opened store; `load_partition` is to be called before anything else.

        `in_thread(name, job)` runs a blocking job soon, off the event loop; `run_shielded(name, job)` runs
        one on the event loop that no request can cancel. `unpacking` is shared by all partitions.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.store = store
        self.config = config.derive(PartitionConfig.of)
        self.unpacking = unpacking or Unpacking()
        self.leader_epoch = 0
        self.offline: BrokerError | None = None
        self._clock = clock
        name = str(topic_partition)
        # The topic may be deleted by then, and created again under the same name.
        self.side_writes = SideWrites(store, in_thread, lambda: self.offline is None)
        self.epochs = LeaderEpochFileCache(name, store, self.side_writes)
        self.producers = ProducerStateManager(name, store, self.side_writes)
        self.watermarks = Watermarks(
            store.log_start_offset, store.log_end_offset, self.producers.transactions
        )
        self.commit = GroupCommit(
            store,
            self.watermarks,
            self.config.flush_messages,
            partial(run_shielded, f"flush {topic_partition}"),
            self.take_offline,
        )

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
    def has_unflushed(self) -> bool:
        """Whether something was appended that no flush has made durable."""
        return self.commit.has_unflushed

    @property
    def follows(self) -> bool:
        """Whether another broker leads: then only `Follower` moves the high watermark."""
        return self.watermarks.follows

    def follow(self) -> None:
        """Take the role of a follower, see `Follower`."""
        self.watermarks.follows = True

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed configuration, from the next append on."""
        self.config = config.derive(PartitionConfig.of)
        self.commit.flush_messages = self.config.flush_messages
        self.store.configure(config)

    def append(
        self, batch: bytearray | memoryview, verify: Callable[[], bool] | None = None
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append one batch of a client; return an awaitable if checking its records takes long."""
        try:
            return self._append(batch, RecordChecks.QUICK, in_transaction=verify is not None and verify())
        except ChecksTakeLong as checks:
            return CheckedAppend(partial(self._append_checked, batch, checks.header, verify))

    def append_nowait(
        self,
        batch: bytearray | memoryview,
        *,
        in_transaction: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append one batch at once, however long its records take to check."""
        if origin is AppendOrigin.COORDINATOR:
            return self._append(batch, RecordChecks.DONE, in_transaction=in_transaction, sequenced=False)
        return self._append(batch, RecordChecks.ALL, in_transaction=in_transaction)

    def append_message_set(self, messages: bytearray | memoryview) -> AppendResult | Awaitable[AppendResult]:
        """Append the messages of a client before Kafka 0.11; return an awaitable if converting takes long."""
        if len(messages) > QUICK_SET_BYTES or source_codec(messages) or self.config.compression is not None:
            return CheckedAppend(partial(self._convert_and_append, messages))
        conversion = up_conversion(self.config, self._clock())
        return self._append_converted(finish(up_convert_in_steps(messages, conversion)))

    async def _convert_and_append(self, messages: bytearray | memoryview) -> AppendResult:
        conversion = up_conversion(self.config, self._clock())
        return self._append_converted(await up_convert(messages, conversion, self.unpacking))

    def _append_converted(self, batch: bytearray) -> AppendResult:
        header = parse_header(batch)
        checked = CheckedBatch(header, header.max_timestamp)
        return self._append(batch, RecordChecks.DONE, in_transaction=False, checked=checked)

    async def _append_checked(
        self, batch: bytearray | memoryview, header: BatchHeader, verify: Callable[[], bool] | None
    ) -> AppendResult:
        """Check the records step by step, and append the batch."""
        config, now_ms = self.config, self._clock()
        max_timestamp = header.max_timestamp
        if needs_record_checks(header, config, now_ms):
            max_timestamp = await check_records(batch, header, config, now_ms, self.unpacking)
        if config.recompresses(header):
            batch = await recompress(batch, header, config, self.unpacking)
            header = parse_header(batch)
        in_transaction = verify is not None and verify()
        checked = CheckedBatch(header, max_timestamp)
        return self._append(batch, RecordChecks.DONE, in_transaction=in_transaction, checked=checked)

    def _append(
        self,
        batch: bytearray | memoryview,
        checks: RecordChecks,
        *,
        in_transaction: bool,
        sequenced: bool = True,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Append one batch, whose header and records were perhaps checked before.

        Raises:
            ChecksTakeLong: with `RecordChecks.QUICK`; nothing was appended.
            BrokerError: see `append`.
        """
        if self.offline is not None:
            raise self.offline.with_traceback(None)
        config = self.config
        header = checked.header if checked else validate_batch(batch, config, sequenced=sequenced)
        if header.attributes & TRANSACTIONAL_BIT and not in_transaction:
            raise InvalidTransactionState(
                f"{self.topic_partition} was not added to a transaction of producer {header.producer_id}"
            )
        if header.producer_id > NO_PRODUCER_ID:
            sent = self.producers.check(header, sequenced=sequenced)
            if sent is not None:
                return self._as_answered_then(sent)
        now_ms = self._clock()
        max_timestamp = checked.max_timestamp if checked else header.max_timestamp
        if checks is not RecordChecks.DONE and needs_record_checks(header, config, now_ms):
            max_timestamp = validate_records(
                batch, header, config, now_ms, quick=checks is RecordChecks.QUICK
            )
            if config.recompresses(header):
                batch = finish(recompressed_in_steps(batch, header, config))
                header = parse_header(batch)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            stamp_append_time(batch, header, now_ms)
            return self._append_stamped(batch, header._replace(max_timestamp=now_ms), now_ms)
        if header.attributes & TIMESTAMP_TYPE_BIT or max_timestamp != header.max_timestamp:
            header = stamp_create_time(batch, header, max_timestamp)
        return self._append_stamped(batch, header, NO_TIMESTAMP)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        commit: bool,
        transaction_version: int = 1,
    ) -> AppendResult:
        """End the producer's transaction in this partition with a control batch."""
        if self.offline is not None:
            raise self.offline.with_traceback(None)
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker, now_ms = EndMarker(commit, coordinator_epoch), self._clock()
        batch, header = marker_batch(producer_id, producer_epoch, marker, now_ms)
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
            stamp_append_time(batch, header, append_time)
        return self._append_stamped(batch, header, append_time, marker)

    def _as_answered_then(self, sent: SentBatch) -> AppendResult:
        stamped = self.config.message_timestamp_type == LOG_APPEND_TIME
        time = sent.timestamp if stamped else NO_TIMESTAMP
        return AppendResult(sent.base_offset, sent.last_offset, time, flush_due=self.commit.is_due)

    def _append_stamped(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        append_time: int,
        marker: EndMarker | None = None,
    ) -> AppendResult:
        base_offset = self.watermarks.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp_offset(batch, base_offset, self.leader_epoch)
        self.write(batch, header, base_offset, last_offset, self.leader_epoch, marker)
        return AppendResult(base_offset, last_offset, append_time, self.commit.appended(last_offset + 1))

    def write(
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
                no entry, and the partition is offline.
        """
        try:
            rolled = self.store.append(batch, base_offset, last_offset, header.max_timestamp)
        except OSError as error:
            _log.error("%s: append failed: %s", self.topic_partition, error)
            raise StorageError(f"{self.topic_partition}: the disk refused the batch: {error}") from error
        if rolled:
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
            failure = StorageError(f"{self.topic_partition}: no entry in the transaction index: {error}")
            self.take_offline(failure)
            raise failure from error

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`; readers see it then."""
        await self.commit.wait_flushed(offset)

    async def flush(self) -> None:
        """Make everything appended so far durable."""
        await self.commit.flush_all()

    def replay_log(self, *, newest_snapshot: int, whole_log: bool) -> None:
        """Blocking: restore producers from a snapshot at or below that offset and the log above it.

        Aborted transactions that the store does not know are added to it. With `whole_log` epochs are learned
        from all of the log, or else from what is read.

        Raises:
            OSError: the disk refused.
        """
        store, producers, epochs = self.store, self.producers, self.epochs
        snapshot_offset = producers.load_snapshot(newest_snapshot)
        # Producers are known from batches below the log start, too, as long as those are there.
        from_offset = max(snapshot_offset, store.first_segment_offset)
        if whole_log:
            from_offset = min(from_offset, store.log_start_offset)
        if from_offset >= store.log_end_offset:
            return
        for header in store.headers(from_offset):
            if header.next_offset > store.log_start_offset:
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:
                producers.replay(header)

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
        store.truncate_to(offset)
        end = watermarks.log_end_offset = store.log_end_offset
        self.commit.truncated(end)
        self.producers.remove_snapshots(above=end)
        self.epochs.truncate_to(end, rewrite=CHECKPOINT_NAME in dropped_writes)
        # Transactions that end above the high watermark hold readers back: no snapshot has these.
        self.replay_log(newest_snapshot=min(high_watermark, end), whole_log=False)
        watermarks.reset(store.log_start_offset, min(high_watermark, end), end)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset (DeleteRecords); do nothing if it is at `offset` or above it.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        watermarks = self.watermarks
        if not 0 <= offset <= watermarks.high_watermark:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: the log cannot begin at {offset}, its high watermark is "
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
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; the log is as before.
        """
        self.check_online()
        try:
            await trio.to_thread.run_sync(self.side_writes.run, self.store.prepare_roll)
            self.check_online()
            rolled = self.store.roll()
        except OSError as error:
            raise StorageError(f"{self.topic_partition}: no new segment: {error}") from error
        if rolled:
            self.producers.snapshot_soon(self.log_end_offset)
        return rolled

    async def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Raise the log start offset, delete the segments below it except the active one, and return those.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; some segments may be deleted.
        """
        self.check_online()
        self.raise_log_start(offset)
        delete = partial(self.store.delete_segments_before, self.log_start_offset)
        try:
            return await trio.to_thread.run_sync(self.side_writes.run, delete) or ()
        except OSError as error:
            raise StorageError(f"{self.topic_partition}: segments are not deleted: {error}") from error

    async def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Replace segments by drafts, as `PartitionStore.replace_segments` does.

        Raises:
            BrokerError: the partition is offline or gone; says why.
            StaleDraft, ValueError, OSError: see there.
        """
        self.check_online()
        replace = partial(self._replace_segments, drafts, replaced)
        if not await trio.to_thread.run_sync(self.side_writes.run, replace):
            raise LogBusy(f"{self.topic_partition}: the partition was deleted")

    def _replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> bool:
        self.store.replace_segments(drafts, replaced)
        self.producers.remove_stray_snapshots()
        return True

    def last_batches(self) -> Mapping[int, LastBatch]:
        """Return what is known last of each active producer, by producer id."""
        return {
            producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for producer_id, entry in self.producers.entries.items()
        }

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, and delete the segments below it in the background."""
        self.raise_log_start(offset)
        start = self.log_start_offset
        self.side_writes.run_soon(
            f"delete {self.topic_partition}", lambda: self.store.delete_segments_before(start)
        )

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on, below the end for readers of that isolation."""
        if self.offline is not None:
            raise self.offline.with_traceback(None)
        watermarks, store = self.watermarks, self.store
        limit = watermarks.last_stable_offset if isolation else watermarks.high_watermark
        if offset == limit:
            return EMPTY_SLICE
        if not watermarks.log_start_offset <= offset <= watermarks.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: offset {offset} is not between log start "
                f"{watermarks.log_start_offset} and log end {watermarks.log_end_offset}"
            )
        if offset > limit:
            return EMPTY_SLICE
        try:
            return store.read(offset, max_bytes, limit, wait=wait)
        except OSError as error:
            _log.error("%s: read failed: %s", self.topic_partition, error)
            raise StorageError(f"{self.topic_partition} cannot be read: {error}") from error

    def aborted_transactions(
        self, offset: int, found: LogSlice, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return what a reader of committed records has to leave out of the slice read at `offset`."""
        if not found.size:
            return ()
        return self.store.aborted_transactions(offset, found.end_offset, wait=wait)

    def readable_end(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of that isolation may not see yet."""
        return self.watermarks.last_stable_offset if isolation else self.watermarks.high_watermark

    def check_leader_epoch(self, epoch: int) -> None:
        """Compare a client's leader epoch with the partition's; -1 is not checked."""
        if self.offline is not None:
            raise self.offline.with_traceback(None)
        if epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return
        described = f"{self.topic_partition} has leader epoch {self.leader_epoch}, the client says {epoch}"
        raise FencedLeaderEpoch(described) if epoch < self.leader_epoch else UnknownLeaderEpoch(described)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Blocking: return the first record at or after that time, see `lookup`."""
        return lookup.offset_for_timestamp(self, timestamp_ms)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Blocking: return the first record of the largest timestamp, see `lookup`."""
        return lookup.offset_of_max_timestamp(self)

    def add_waiter(self, waiter: AppendWaiter, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """Notify `waiter` from now on whenever readers of that isolation can read more."""
        self.watermarks.add_waiter(waiter, committed=isolation is Isolation.READ_COMMITTED)

    def remove_waiter(self, waiter: AppendWaiter) -> None:
        """Notify `waiter` no longer."""
        self.watermarks.remove_waiter(waiter)

    def abandon_waiters(self) -> None:
        """Wake all waiters: there is nothing to wait for any more."""
        self.watermarks.abandon_waiters()

    def check_online(self) -> None:
        """Raise why the partition was taken offline, if it was."""
        if self.offline is not None:
            raise self.offline.with_traceback(None)

    def take_offline(self, reason: BrokerError | None = None) -> None:
        """Refuse every append and read from now on (by default: it was deleted), and wake the waiters."""
        self.offline = reason or UnknownTopicOrPartition(f"{self.topic_partition} is gone")
        self.watermarks.abandon_waiters()

    def close(self) -> None:
        """Blocking: write the producer snapshot of the log end, as a clean stop does, and close the store.

        Raises:
            OSError, StorageError: the store could not be closed properly.
        """
        failed = isinstance(self.offline, StorageError)
        self.take_offline()
        if not failed and (self.producers.entries or self.log_end_offset > 0):
            self.producers.write_snapshot(self.log_end_offset)
        self.store.close()
