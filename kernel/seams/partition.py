"""A partition as plugins use it: appending, reading, waiting for records, and the state of its log.

log start ≤ last stable ≤ high watermark ≤ log end
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.storage import (
    AbortedTransaction,
    LogSlice,
    PartitionStore,
    SegmentDraft,
    SegmentView,
    TopicPartition,
)

T = TypeVar("T")

NO_LEADER_EPOCH = -1


class Isolation(enum.IntEnum):
    """How far a consumer may read (the isolation level of the protocol)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class AppendOrigin(enum.Enum):
    """The origin of a batch, which decides what is checked (Apache Kafka's class of that name)."""

    CLIENT = enum.auto()
    COORDINATOR = enum.auto()
    """A coordinator writes for a producer: batches have no sequence, and their records are not checked."""


class AppendResult(NamedTuple):
    """The offsets of an appended batch; `log_append_time_ms` is -1 unless the topic stamps LogAppendTime.

    With `flush_due` the batch may only be acknowledged after `Partition.wait_flushed`.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    flush_due: bool = False


class LastBatch(NamedTuple):
    """The last thing that is known of an active producer: its last record's offset, None without any."""

    offset: int | None
    epoch: int


class TimestampOffset(NamedTuple):
    """A record's timestamp, its offset and the leader epoch that wrote it."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class AppendWaiter:
    """A waiting reader: calls `wake` once its partitions have grown by `missing_bytes` together."""

    __slots__ = ("_missing", "_wake")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self._missing = missing_bytes
        self._wake = wake

    def grew(self, size_bytes: int) -> None:
        """Count bytes that readers can see now."""
        self._missing -= size_bytes
        if self._missing <= 0:
            self._wake()

    def abandon(self) -> None:
        """Wake at once, since the partition takes no more records."""
        self._missing = 0
        self._wake()


class LogWatcher(Protocol):
    """Is notified of each change of what readers of a partition can see, until it is removed.

    Unlike an `AppendWaiter` it may stay at a partition for long, and counts the bytes of either isolation.
    It is called on the thread that made the change, which is that of the event loop but for truncation.
    """

    def moved(self, uncommitted_bytes: int, committed_bytes: int) -> None:
        """Note that an offset of the log has another value.

        So many bytes more than before can be seen by readers of uncommitted and of committed records. An
        offset may also have changed without any.
        """
        ...

    def abandon(self) -> None:
        """Note that there is nothing to wait for: the partition went offline, or the broker stops."""
        ...


class MemoryBudget(Protocol):
    """A limit on the memory that decompression uses at the same time."""

    def hold(self, size: int) -> AbstractContextManager[None]:
        """Blocking: wait for `size` bytes, and hold them until the block ends."""
        ...

    def try_hold(self, size: int) -> bool:
        """Hold `size` bytes if they are free and no request waits; return whether they are held."""
        ...

    def release(self, size: int) -> None:
        """Free `size` bytes that were held."""
        ...


class Unpacking(Protocol):
    """Memory and threads for decompression, which all partitions of a broker share."""

    @property
    def memory(self) -> MemoryBudget:
        """The limit on memory."""
        ...

    @property
    def kept(self) -> MemoryBudget:
        """The limit on what stays in memory while a client takes its time; it is held by `try_hold` alone."""
        ...

    async def read(self, job: Callable[[], T]) -> T:
        """Run a job that decompresses records for a consumer in a thread."""
        ...


class ProducerView(Protocol):
    """The state of one producer in a partition; offsets of -1 mean none."""

    @property
    def epoch(self) -> int:
        """The producer epoch."""
        ...

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record."""
        ...

    @property
    def last_timestamp(self) -> int:
        """The largest timestamp of its last batch, in milliseconds since the epoch."""
        ...

    @property
    def coordinator_epoch(self) -> int:
        """The epoch of the coordinator that ended its last transaction."""
        ...

    @property
    def current_txn_first_offset(self) -> int:
        """The first offset of its open transaction."""
        ...


class Producers(Protocol):
    """The state of all producers in a partition."""

    @property
    def entries(self) -> Mapping[int, ProducerView]:
        """Producer id → its state."""
        ...

    def expire(self, older_than_ms: int) -> int:
        """Remove producers whose last batch is older, unless a transaction is open; return how many."""
        ...


class LeaderEpochs(Protocol):
    """The lineage of leader epochs: which epoch started at which offset."""

    @property
    def latest(self) -> int:
        """The newest epoch, -1 without data."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the newest epoch that is not newer than `epoch` and its end offset, (-1, -1) if unknown."""
        ...

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, -1 if that lies before the lineage."""
        ...


class Watermarks(Protocol):
    """The offsets that bound a log and what its readers see."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        ...


class Partition(Watermarks, Protocol):
    """One open partition of a topic."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        ...

    @property
    def topic_id(self) -> UUID:
        """The id of its topic."""
        ...

    @property
    def store(self) -> PartitionStore:
        """Its bytes; batches are appended by `append_as_leader` alone."""
        ...

    @property
    def producers(self) -> Producers:
        """The producers that wrote to it."""
        ...

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of its log."""
        ...

    @property
    def watermarks(self) -> Watermarks:
        """The object with its offsets, for hot paths: it saves a call for each offset."""
        ...

    @property
    def unpacking(self) -> Unpacking:
        """Memory and threads for decompressing its records."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The present leader epoch."""
        ...

    @property
    def follows(self) -> bool:
        """Whether another broker leads the partition."""
        ...

    @property
    def revision(self) -> int:
        """A number that changes whenever the segments have changed otherwise than by appends.

        That is after a truncation, a roll that was asked for, a deletion or a replacement of segments, and a
        move to another log directory. While it and the offsets stay, so do the segments.
        """
        ...

    @property
    def has_unflushed(self) -> bool:
        """Whether something was appended that no flush has made durable."""
        ...

    @property
    def offline(self) -> BrokerError | None:
        """The error of every append and read while it is offline, else None."""
        ...

    def append_as_leader(
        self, batch: bytearray | memoryview, verify: Callable[[], int] | None = None
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append one batch that a client sent; the header is stamped in place, so `batch` must be writable.

        A retry of one of the producer's last five batches is answered with the offsets that it got then.
        Nearly always the batch is in the log when this returns. If its records take long to check, it is
        appended by awaiting what is returned; nothing is done before, and others are served meanwhile.

        `verify`, of a transactional request, returns the version of the producer's transaction if the
        coordinator has the partition in it, -1 for a batch without a transaction, or raises why it has not
        (KIP-890). It is called before any other check, and once
        more after checks that were awaited: no checkpoint lies between it and the write.

        Raises:
            InvalidTransactionState: a transactional batch that is not verified, or a batch outside of the
                transaction that its producer has open.
            BrokerError: the batch is refused.
            StorageError: the disk refused; the log is as before.
        """
        ...

    def append_message_set(self, messages: bytearray | memoryview) -> AppendResult | Awaitable[AppendResult]:
        """Append the messages of formats 0 and 1 that a client before Kafka 0.11 sent, as one record batch.

        As with `append_as_leader`, converting them may take long; then what is returned has to be awaited.

        Raises:
            BrokerError: the messages are refused, all together.
            StorageError: the disk refused; the log is as before.
        """
        ...

    def append_nowait(
        self,
        batch: bytearray | memoryview,
        *,
        in_transaction: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append one batch as `append_as_leader` does, at once, however long its records take to check.

        `in_transaction`: the partition is part of the producer's transaction.

        Raises:
            BrokerError: see `append_as_leader`.
        """
        ...

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
        ...

    async def wait_flushed(self, offset: int) -> None:
        """Wait until `flush.messages` allows to acknowledge the record at `offset`; readers see it then.

        Cancelling this wait cancels nothing else: the append has begun the flush.

        Raises:
            StorageError: the disk refused to flush; the record may be lost and must not be acknowledged.
        """
        ...

    async def flush(self) -> None:
        """Make everything appended so far durable.

        Raises:
            StorageError: the disk refused.
        """
        ...

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, wait: bool = False) -> LogSlice:
        """Return batches from the one that holds `offset` on, up to `max_bytes` but at least one whole batch.

        Raises:
            OffsetOutOfRange: below the log start offset or above the log end offset.
            BrokerError: the partition is offline; says why.
            WouldBlock: the read would wait for the disk; repeat it in a thread with `wait=True`.
        """
        ...

    def aborted_transactions(
        self, offset: int, found: LogSlice, *, wait: bool = False
    ) -> Sequence[AbortedTransaction]:
        """Return what a reader of committed records has to leave out of the slice read at `offset`.

        Raises:
            WouldBlock: as for `read`.
        """
        ...

    def readable_end(self, isolation: Isolation) -> int:
        """Return the first offset that a reader of that isolation may not see yet."""
        ...

    def check_leader_epoch(self, epoch: int) -> None:
        """Compare a client's leader epoch with the partition's; -1 is not checked.

        Raises:
            FencedLeaderEpoch: the client's is older.
            UnknownLeaderEpoch: the client's is newer.
            BrokerError: the partition is offline; says why.
        """
        ...

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Blocking, for `unpacking.read`: return the first record at or after that time, None without one.

        Raises:
            StorageError: the disk refused.
        """
        ...

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Blocking, for `unpacking.read`: return the first record of the largest timestamp, None if empty.

        Raises:
            StorageError: the disk refused.
        """
        ...

    def add_waiter(self, waiter: AppendWaiter, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """Notify `waiter` of bytes that readers of that isolation can see from now on."""
        ...

    def remove_waiter(self, waiter: AppendWaiter) -> None:
        """Drop a waiter."""
        ...

    def add_watcher(self, watcher: LogWatcher) -> None:
        """Notify `watcher` of all that changes for readers from now on."""
        ...

    def remove_watcher(self, watcher: LogWatcher) -> None:
        """Drop a watcher."""
        ...

    async def roll(self) -> bool:
        """Begin a new segment at the log end; return False if the active one has no batch.

        Raises:
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; the log is as before.
        """
        ...

    async def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
        """Raise the log start offset, delete the segments below it except the active one, and return those.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
            BrokerError: the partition is offline; says why.
            StorageError: the disk refused; some segments may be deleted.
        """
        ...

    async def replace_segments(self, drafts: Sequence[SegmentDraft], replaced: Sequence[int]) -> None:
        """Replace segments by drafts, as `PartitionStore.replace_segments` does.

        Raises:
            BrokerError: the partition is offline or gone; says why.
            StaleDraft, ValueError, OSError: see there.
        """
        ...

    def last_batches(self) -> Mapping[int, LastBatch]:
        """Return what is known last of each active producer, by producer id."""
        ...

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, and delete the segments below it in the background.

        Raises:
            OffsetOutOfRange: the offset is above the high watermark.
        """
        ...
