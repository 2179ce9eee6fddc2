"""A partition: what the broker asks of one, and the owners of its parts.

    log start ≤ last stable ≤ high watermark ≤ log end

Offsets and waiters belong to `Watermarks`, durability to `GroupCommit`, epochs to `LeaderEpochFileCache`,
producers and their snapshots to `ProducerStateManager`. A batch of a client passes `Appends`, which checks
it, and `LogWriter`, which writes it; `LogChanges` has every other change of the log. Reading is done here.
Source: Apache Kafka's `UnifiedLog`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    BrokerError,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
)
from tidelog.kernel.partition import lookup
from tidelog.kernel.partition.appends import Appends, LogWriter
from tidelog.kernel.partition.availability import Availability
from tidelog.kernel.partition.epochs import LeaderEpochFileCache
from tidelog.kernel.partition.flush_threads import FlushThreads
from tidelog.kernel.partition.group_commit import GroupCommit
from tidelog.kernel.partition.log_changes import LogChanges
from tidelog.kernel.partition.memory_budget import Unpacking
from tidelog.kernel.partition.producer_state_manager import ProducerStateManager
from tidelog.kernel.partition.side_writes import SideWrites
from tidelog.kernel.partition.storage_failure import storage_failure
from tidelog.kernel.partition.validation import (
    PartitionConfig,
)
from tidelog.kernel.partition.watermarks import Watermarks
from tidelog.kernel.seams.partition import (
    NO_LEADER_EPOCH,
    AppendOrigin,
    AppendResult,
    AppendWaiter,
    Isolation,
    LastBatch,
    LogWatcher,
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
    WouldBlock,
)

_log = logging.getLogger(__name__)


class Partition:
    """One partition of a topic, open; led by this broker unless it is a follower (`follow`)."""

    __slots__ = (
        "_appends",
        "availability",
        "changes",
        "commit",
        "epochs",
        "producers",
        "side_writes",
        "store",
        "topic_id",
        "topic_partition",
        "unpacking",
        "watermarks",
        "writer",
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
        """Take over an opened store; `load_partition` is to be called before anything else.

        `in_thread(name, job)` runs a blocking job soon, off the event loop. `flush_threads` and `unpacking`
        are shared by all partitions.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.store = store
        self.unpacking = unpacking or Unpacking()
        name, resolved = str(topic_partition), config.derive(PartitionConfig.of)
        self.side_writes = SideWrites(store, in_thread)
        self.epochs = LeaderEpochFileCache(name, store, self.side_writes)
        self.producers = ProducerStateManager(name, store, self.side_writes)
        self.watermarks = Watermarks(
            store.log_start_offset, store.log_end_offset, self.producers.transactions
        )
        availability = Availability(topic_partition, self.side_writes, self.watermarks)
        self.availability = availability
        self.commit = GroupCommit(
            name,
            store,
            self.watermarks,
            resolved.flush_messages,
            flush_threads,
            availability.take_offline,
        )
        derived = (self.epochs, self.producers, self.watermarks, self.commit)
        self.writer = LogWriter(name, store, *derived, availability.take_offline)
        self.changes = LogChanges(name, store, self.side_writes, *derived, availability)
        self._appends = Appends(
            name,
            resolved,
            clock,
            self.producers,
            self.writer,
            self.commit,
            self.unpacking,
            availability,
        )

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
    def revision(self) -> int:
        """A number that changes whenever the segments have changed otherwise than by appends."""
        return self.changes.revision

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

    @property
    def config(self) -> PartitionConfig:
        """The topic's configuration, resolved."""
        return self._appends.config

    @property
    def leader_epoch(self) -> int:
        """The epoch in which the partition is led; batches that are appended get it."""
        return self.writer.leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self.writer.leader_epoch = epoch
        self.watermarks.notify()

    def configure(self, config: TopicConfig) -> None:
        """Apply a changed configuration, from the next append on."""
        resolved = config.derive(PartitionConfig.of)
        self._appends.config = resolved
        self.commit.flush_messages = resolved.flush_messages
        self.store.configure(config)

    def append(
        self, batch: bytearray | memoryview, verify: Callable[[], int] | None = None
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append one batch of a client; return an awaitable if checking its records takes long."""
        return self._appends.append(batch, verify)

    def append_nowait(
        self,
        batch: bytearray | memoryview,
        *,
        in_transaction: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append one batch at once, however long its records take to check."""
        return self._appends.append_nowait(batch, in_transaction=in_transaction, origin=origin)

    def append_message_set(self, messages: bytearray | memoryview) -> AppendResult | Awaitable[AppendResult]:
        """Append the messages of a client before Kafka 0.11; return an awaitable if converting takes long."""
        return self._appends.append_message_set(messages)

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
        return self._appends.append_marker(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
        )

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`; readers see it then."""
        await self.commit.wait_flushed(offset)

    async def flush(self) -> None:
        """Make everything appended so far durable."""
        await self.commit.flush_all()

    def truncate_to(self, offset: int) -> None:
        """Blocking, for a thread: drop every batch that holds `offset` or a later one, and what it caused."""
        self.changes.truncate_to(offset)

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset (DeleteRecords); do nothing if it is at `offset` or above it."""
        self.changes.raise_log_start(offset)

    async def roll(self) -> bool:
        """Begin a new segment at the log end; return False if the active one has no batch."""
        return await self.changes.roll()

    async def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Raise the log start offset; delete the segments below it but the active one, and return those."""
        return await self.changes.delete_segments_before(offset)

    async def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Replace segments by drafts, as `PartitionStore.replace_segments` does."""
        await self.changes.replace_segments(drafts, replaced)

    def moved(self) -> None:
        """Note that the log was moved to another directory, where its segments may begin elsewhere."""
        self.changes.revise()

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, and delete the segments below it in the background."""
        self.changes.delete_records_before(offset)

    def last_batches(self) -> Mapping[int, LastBatch]:
        """Return what is known last of each active producer, by producer id."""
        return {
            producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for producer_id, entry in self.producers.entries.items()
        }

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on, below the end for readers of that isolation."""
        if self.availability.reason is not None:
            self.availability.check()
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
        except (BrokerError, WouldBlock):
            raise
        except Exception as error:
            raise storage_failure(str(self.topic_partition), store, "read", error) from error

    def aborted_transactions(
        self, offset: int, found: LogSlice, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return what a reader of committed records has to leave out of the slice read at `offset`."""
        if not found.size:
            return ()
        try:
            return self.store.aborted_transactions(offset, found.end_offset, wait=wait)
        except OSError as error:
            raise StorageError(f"{self.topic_partition} cannot be read: {error}") from error
        except (BrokerError, WouldBlock):
            raise
        except Exception as error:
            name = str(self.topic_partition)
            raise storage_failure(name, self.store, "aborted_transactions", error) from error

    def readable_end(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of that isolation may not see yet."""
        return self.watermarks.last_stable_offset if isolation else self.watermarks.high_watermark

    def check_leader_epoch(self, epoch: int) -> None:
        """Compare a client's leader epoch with the partition's; -1 is not checked."""
        if self.availability.reason is not None:
            self.availability.check()
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

    def add_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` from now on of each change of what readers can see."""
        self.watermarks.add_watcher(watcher)

    def remove_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` no longer."""
        self.watermarks.remove_watcher(watcher)

    def abandon_waiters(self) -> None:
        """Wake all waiters: there is nothing to wait for any more."""
        self.watermarks.abandon_waiters()

    def check_online(self) -> None:
        """Raise why the partition was taken offline, if it was."""
        self.availability.check()

    def take_offline(self, reason: BrokerError | None = None) -> None:
        """Refuse every append and read from now on (by default: it was deleted), and wake the waiters."""
        self.availability.take_offline(reason)

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
