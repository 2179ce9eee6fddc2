"""Changes of a partition's log other than appends: truncation, log start, rolls, segments that go.

Each updates the state that is derived from the log: producers and their snapshots, epochs, watermarks, the
durable end. Source: Apache Kafka's `UnifiedLog` (`truncateTo`, `maybeIncrementLogStartOffset`, `roll`,
`deleteOldSegments`, `replaceSegments`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel.errors import LogBusy, OffsetOutOfRange, StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME
from tidelog.kernel.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from tidelog.kernel.partition.availability import Availability
    from tidelog.kernel.partition.epochs import LeaderEpochFileCache
    from tidelog.kernel.partition.group_commit import GroupCommit
    from tidelog.kernel.partition.producer_state_manager import ProducerStateManager
    from tidelog.kernel.partition.side_writes import SideWrites
    from tidelog.kernel.partition.watermarks import Watermarks
    from tidelog.kernel.seams.storage import PartitionStore, SegmentDraft, SegmentView


class LogChanges:
    """The changes of one log. The coroutines run on the event loop, and their work on files in a thread."""

    __slots__ = (
        "_availability",
        "_commit",
        "_epochs",
        "_name",
        "_producers",
        "_revisions",
        "_side_writes",
        "_store",
        "_watermarks",
        "revision",
    )

    def __init__(
        self,
        name: str,
        store: PartitionStore,
        side_writes: SideWrites,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        watermarks: Watermarks,
        commit: GroupCommit,
        availability: Availability,
    ) -> None:
        """`name` of the partition is for messages."""
        self._name = name
        self._store = store
        self._side_writes = side_writes
        self._epochs = epochs
        self._producers = producers
        self._watermarks = watermarks
        self._commit = commit
        self._availability = availability
        # Each number is drawn once, so that two threads never leave the same one behind.
        self._revisions = itertools.count(1)
        self.revision = 0

    def revise(self) -> None:
        """Note that segments are others than before; called after a change, also after one that failed."""
        self.revision = next(self._revisions)

    def replay_log(self, *, newest_snapshot: int, whole_log: bool) -> None:
        """Blocking: restore producers from a snapshot at or below that offset and the log above it.

        Aborted transactions that the store does not know are added to it. With `whole_log` epochs are learned
        from all of the log, or else from what is read.

        Raises:
            OSError: the disk refused.
        """
        store, producers, epochs = self._store, self._producers, self._epochs
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
        store, watermarks = self._store, self._watermarks
        if offset >= watermarks.log_end_offset:
            return
        # Before anything goes, so that no reader is shown what is about to.
        high_watermark = min(watermarks.high_watermark, offset)
        watermarks.hold_back(high_watermark)
        dropped_writes = self._side_writes.forget()
        try:
            store.truncate_to(offset)
        finally:
            self.revise()
        end = watermarks.log_end_offset = store.log_end_offset
        self._commit.truncated(end)
        self._producers.remove_snapshots(above=end)
        self._epochs.truncate_to(end, rewrite=CHECKPOINT_NAME in dropped_writes)
        # Transactions that end above the high watermark hold readers back: no snapshot has these.
        self.replay_log(newest_snapshot=min(high_watermark, end), whole_log=False)
        watermarks.reset(store.log_start_offset, min(high_watermark, end), end)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset (DeleteRecords); do nothing if it is at `offset` or above it.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        watermarks = self._watermarks
        if not 0 <= offset <= watermarks.high_watermark:
            raise OffsetOutOfRange(
                f"{self._name}: the log cannot begin at {offset}, its high watermark is "
                f"{watermarks.high_watermark}"
            )
        if offset <= watermarks.log_start_offset:
            return
        self._store.raise_log_start(offset)
        watermarks.raise_log_start(offset)
        self._epochs.raise_log_start(offset)
        self._producers.remove_snapshots_soon(below=offset)

    async def roll(self) -> bool:
        """Begin a new segment at the log end; return False if the active one has no batch.

        Raises:
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; the log is as before.
        """
        self._availability.check()
        try:
            await trio.to_thread.run_sync(self._side_writes.run, self._store.prepare_roll)
            self._availability.check()
            rolled = self._store.roll()
        except OSError as error:
            raise StorageError(f"{self._name}: no new segment: {error}") from error
        if rolled:
            self.revise()
            self._producers.snapshot_soon(self._watermarks.log_end_offset)
        return rolled

    async def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Raise the log start offset, delete the segments below it except the active one, and return those.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; some segments may be deleted.
        """
        self._availability.check()
        self.raise_log_start(offset)
        delete = partial(self._delete_segments_before, self._watermarks.log_start_offset)
        try:
            return await trio.to_thread.run_sync(self._side_writes.run, delete) or ()
        except OSError as error:
            raise StorageError(f"{self._name}: segments are not deleted: {error}") from error

    async def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Replace segments by drafts, as `PartitionStore.replace_segments` does.

        Raises:
            BrokerError: the partition is offline or gone; says why.
            StaleDraft, ValueError, OSError: see there.
        """
        self._availability.check()
        replace = partial(self._replace_segments, drafts, replaced)
        if not await trio.to_thread.run_sync(self._side_writes.run, replace):
            raise LogBusy(f"{self._name}: the partition was deleted")

    def _replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> bool:
        try:
            self._store.replace_segments(drafts, replaced)
        finally:
            self.revise()
        self._producers.remove_stray_snapshots()
        return True

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, and delete the segments below it in the background."""
        self.raise_log_start(offset)
        self._side_writes.run_soon(
            f"delete {self._name}", partial(self._delete_segments_before, self._watermarks.log_start_offset)
        )

    def _delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        try:
            return self._store.delete_segments_before(offset)
        finally:
            self.revise()
