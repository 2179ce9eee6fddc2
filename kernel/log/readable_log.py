"""What readers of a log use: its offsets, batches and lookups, and waiting for more.

log start ≤ last stable ≤ high watermark ≤ log end
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, OffsetOutOfRange, StorageError
from tidelog.kernel.log.availability import Availability
from tidelog.kernel.log.lookup import TimestampLookup
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.log.producer_state_manager import ProducerStateManager
from tidelog.kernel.log.side_writes import SideWrites
from tidelog.kernel.log.storage_failure import storage_failure
from tidelog.kernel.log.traffic import TopicTraffic
from tidelog.kernel.log.watermarks import Watermarks
from tidelog.kernel.seams.partition import Isolation, LastBatch
from tidelog.kernel.seams.storage import EMPTY_SLICE, WouldBlock

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.kernel.seams.partition import AppendWaiter, LogWatcher, TimestampOffset
    from tidelog.kernel.seams.storage import AbortedTransaction, LogSlice, PartitionStore, TopicPartition

_log = logging.getLogger(__name__)


class ReadableLog:
    """The part of a log that readers use.

    Attributes:
        watermarks: its offsets, and who waits for them to grow
        producers: its active producers and their transactions
        availability: whether it may be read and appended to
        side_writes: its work on files in the background
        traffic: what is written and read, counted together with the other partitions of its topic
    """

    __slots__ = (
        "_name",
        "availability",
        "producers",
        "side_writes",
        "store",
        "topic_id",
        "topic_partition",
        "traffic",
        "unpacking",
        "watermarks",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        store: PartitionStore,
        in_thread: Callable[[str, Callable[[], object]], None],
        unpacking: Unpacking | None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.store = store
        self.unpacking = unpacking or Unpacking()
        self._name = str(topic_partition)
        # Its own until it is served as a partition of its topic.
        self.traffic = TopicTraffic()
        self.side_writes = SideWrites(store, in_thread)
        self.producers = ProducerStateManager(self._name, store, self.side_writes)
        self.watermarks = Watermarks(
            store.log_start_offset, store.log_end_offset, self.producers.transactions
        )
        self.availability = Availability(topic_partition, self.side_writes, self.watermarks)

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

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on, up to `max_bytes` but at least one whole batch.

        Raises:
            OffsetOutOfRange: below the log start offset or above the log end offset.
            BrokerError: the log is offline; says why.
            WouldBlock: the read would wait for the disk; repeat it in a thread with `wait=True`.
        """
        # Looked at here, which saves a call: each read of each partition comes by.
        if self.availability.reason is not None:
            self.availability.check()
        watermarks, store = self.watermarks, self.store
        limit = watermarks.last_stable_offset if isolation else watermarks.high_watermark
        # Before the bounds: most reads of consumers are at the end, and wait there.
        if offset == limit:
            return EMPTY_SLICE
        if not watermarks.log_start_offset <= offset <= watermarks.log_end_offset:
            raise OffsetOutOfRange(
                f"{self._name}: offset {offset} is not between log start "
                f"{watermarks.log_start_offset} and log end {watermarks.log_end_offset}"
            )
        # Valid, but not visible yet: records that are not committed, or of an open transaction.
        if offset > limit:
            return EMPTY_SLICE
        try:
            return store.read_batches(offset, max_bytes, limit, wait=wait)
        except OSError as error:
            _log.error("%s: read failed: %s", self._name, error)
            raise StorageError(f"{self._name} cannot be read: {error}") from error
        # Before the clause for the rest: these two are what the seam allows.
        except (BrokerError, WouldBlock):
            raise
        except Exception as error:
            raise storage_failure(self._name, store, "read_batches", error) from error

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
