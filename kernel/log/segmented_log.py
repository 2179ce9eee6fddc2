"""Changes of a log other than appends: loading, truncation, its start, rolls, segments deleted or replaced.

They are rare. The coroutines run on the event loop, and their work on files in a thread.
Sources: Apache Kafka's `UnifiedLog`, `LogLoader` and `ProducerStateManager`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.errors import LogBusy, OffsetOutOfRange, StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, NO_EPOCH
from tidelog.kernel.log.epochs import LeaderEpochFileCache
from tidelog.kernel.log.group_commit import GroupCommit
from tidelog.kernel.log.readable_log import ReadableLog
from tidelog.kernel.log.validation import PartitionConfig

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.log.flush_threads import FlushThreads
    from tidelog.kernel.log.memory_budget import Unpacking
    from tidelog.kernel.seams.storage import PartitionStore, SegmentDraft, SegmentView, TopicPartition


class SegmentedLog(ReadableLog):
    """A log as its segments, and all that has to change with them.

    Attributes:
        config: the topic's configuration as appends and flushes use it
        commit: its flushes, and who waits for them
        epochs: the leader epochs in it
        revision: a number that changes whenever the segments have changed otherwise than by appends
    """

    __slots__ = ("_leader_epoch", "_revisions", "commit", "config", "epochs", "revision")

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        store: PartitionStore,
        config: TopicConfig,
        in_thread: Callable[[str, Callable[[], object]], None],
        flush_threads: FlushThreads,
        unpacking: Unpacking | None,
    ) -> None:
        super().__init__(topic_partition, topic_id, store, in_thread, unpacking)
        self.config = config.derive(PartitionConfig.of)
        self.epochs = LeaderEpochFileCache(self._name, store, self.side_writes)
        self.commit = GroupCommit(
            self._name,
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

    def load(self, *, clean_start: bool) -> None:
        """Blocking: rebuild the state of a log whose store was just opened, from side files and its batches.

        After an unclean stop the leader epoch is raised, so that a client which saw records that were lost
        can see that history parted. It never falls: clients take no metadata of an older epoch than they have
        seen. The log comes with the epoch that the metadata store wants it led in, and gets a later one if
        its own history has that epoch already.

        All of the log is committed where this broker leads, since no other replica has to have it. Where
        another one leads (`follows`), what the checkpoint says is, until the leader says more; it also begins
        epochs.

        Raises:
            OSError, StorageError: the disk refused.
        """
        wanted = self.leader_epoch
        # Before the batches, which only add epochs that are newer than those of the checkpoint.
        checkpointed = self.epochs.load()
        self._load_batches(epochs_lost=checkpointed is None)
        # The checkpoint counts even where the log no longer reaches an epoch of it: clients may have seen
        # that one.
        newest = max(NO_EPOCH if checkpointed is None else checkpointed, self.epochs.latest)
        if clean_start or newest == NO_EPOCH or self.watermarks.follows:
            self.leader_epoch = max(newest, wanted)
        else:
            # With the log's end as its start, as Kafka does.
            self.leader_epoch = max(newest, wanted) + 1
            self.epochs.begin_durably(self.leader_epoch, self.log_end_offset)
        # What a killed process had only appended is not shown before it is durable, if the topic wants that.
        self.commit.flush_if_due()

    def _load_batches(self, *, epochs_lost: bool) -> None:
        """Learn producers and transactions, and epochs whose checkpoint a crash came before.

        When the checkpoint is lost altogether, or entries of the transaction index are, more of the log is
        read.
        """
        store, start, end = self.store, self.log_start_offset, self.log_end_offset
        producers, watermarks = self.producers, self.watermarks
        # First: a snapshot above the end is of records that were lost, and would be taken for the newest.
        producers.remove_snapshots(below=start, above=end)
        high_watermark = end
        if watermarks.follows:
            # After a loss of records the checkpoint may be above the log end, and without one it is 0.
            high_watermark = max(min(store.checkpointed_high_watermark, end), start)
        # Transactions that end above the high watermark hold readers back: no snapshot has these.
        newest = min(high_watermark, store.aborted_known_until)
        producers.reload(self.epochs, newest_snapshot=newest, whole_log=epochs_lost)
        # After `reload`, which begins at the newest that can be read: that may be any of them.
        producers.remove_stray_snapshots()
        producers.write_missing_snapshot()
        watermarks.reset(start, high_watermark, end)

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the partition is led; batches that are appended as leader get it."""
        return self._leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self._leader_epoch = epoch
        self.watermarks.notify()

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed configuration, from the next append on."""
        self.config = config.derive(PartitionConfig.of)
        # A lower limit makes nothing due by itself: the next append begins the flush.
        self.commit.flush_messages = self.config.flush_messages
        self.store.configure(config)

    @property
    def has_unflushed(self) -> bool:
        """Whether something was appended that no flush has made durable."""
        return self.commit.has_unflushed

    async def flush(self) -> None:
        """Make everything appended so far durable.

        Raises:
            StorageError: the disk refused.
        """
        await self.commit.flush_all()

    async def truncate_to(self, offset: int) -> None:
        """Drop every batch that holds `offset` or a later one, and what it caused.

        Producers are restored from the newest remaining snapshot and the log above it; open transactions,
        epochs and watermarks are those of the truncated log. Nothing is appended meanwhile.

        Raises:
            OSError: the disk refused.
        """
        watermarks = self.watermarks
        if offset >= watermarks.log_end_offset:
            return
        # Before anything goes, so that no reader is shown what is about to, neither by a flush that ends
        # meanwhile: it counts up to here.
        high_watermark = min(watermarks.high_watermark, offset)
        watermarks.log_end_offset = offset
        self.commit.truncated(offset)
        watermarks.hold_back(high_watermark)
        try:
            # Once readers are held back it is done to its end. Watchers and waiters, which belong to the
            # event loop, are notified before and after it, and not by the thread.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._truncate_files, offset, high_watermark)
        finally:
            # Not `offset`: the batch that holds it is dropped as a whole, or nothing is after a refusal.
            end = watermarks.log_end_offset = self.store.log_end_offset
        self.commit.truncated(end)
        watermarks.reset(self.store.log_start_offset, min(high_watermark, end), end)

    def _truncate_files(self, offset: int, high_watermark: int) -> None:
        store = self.store
        # Snapshots and epochs that wait to be written are of the history that goes. One that is being written
        # is waited for, so that it is removed below and does not come back.
        dropped_writes = self.side_writes.forget()
        try:
            store.truncate_to(offset)
        finally:
            # Also after a refusal, which may have removed some of the segments already.
            self.revise()
        end = store.log_end_offset
        self.producers.remove_snapshots(above=end)
        # Before `reload`, which adds the epochs of the batches that it reads to what is left.
        self.epochs.truncate_to(end, rewrite=CHECKPOINT_NAME in dropped_writes)
        # Transactions that end above the high watermark hold readers back: no snapshot has these.
        self.producers.reload(self.epochs, newest_snapshot=min(high_watermark, end), whole_log=False)

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
            # Creating files may wait for the disk, so it is done ahead and in a thread; the switch itself is
            # between two appends, on the event loop. `run` does nothing if the partition is being deleted.
            await trio.to_thread.run_sync(self.side_writes.run, self.store.prepare_roll)
            # It may have gone offline meanwhile.
            self.availability.check()
            rolled = self.store.roll()
        except OSError as error:
            raise StorageError(f"{self._name}: no new segment: {error}") from error
        if rolled:
            self.revise()
            # No append comes between the roll and this: the snapshot is that of the new segment's base
            # offset.
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
        # Not `offset`: the log start may be above it already.
        delete = partial(self._delete_segments_before, self.watermarks.log_start_offset)
        try:
            # None if the partition was deleted meanwhile: its directory has another name then.
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
        # `run` returns None without a replacement if the partition is gone; that is why the job returns True.
        if not await trio.to_thread.run_sync(self.side_writes.run, replace):
            raise LogBusy(f"{self._name}: the partition was deleted")

    def _replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> bool:
        try:
            self.store.replace_segments(drafts, replaced)
        finally:
            self.revise()
        # After the replacement: until it is committed a start may need the snapshots of the old segments.
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
        # Before `take_offline` replaces the reason. After a failure the producers may lack a marker that is
        # in the log: without a snapshot the next start reads it there.
        failed = isinstance(self.offline, StorageError)
        self.availability.take_offline()
        if not failed and (self.producers.entries or self.log_end_offset > 0):
            self.producers.write_snapshot(self.log_end_offset)
        self.store.close()
