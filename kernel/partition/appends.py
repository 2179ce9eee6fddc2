"""Appends to a partition that this broker leads: what is checked, converted and stamped before the write.

Batches come from clients (`append`), from the coordinator (`append_nowait`), as messages of the formats 0
and 1 (`append_message_set`), and as markers (`append_marker`). `LogWriter` writes all of them, and those of a
leader that is followed. Sources: Apache Kafka's `UnifiedLog.appendAsLeader` and `UnifiedLog.append`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel import disk
from tidelog.kernel.errors import BrokerError, InvalidTransactionState, StorageError
from tidelog.kernel.partition.record_checks import (
    CheckedAppend,
    CheckedBatch,
    ChecksTakeLong,
    RecordChecks,
    check_for_a_turn,
    check_records,
    finish,
    recompress,
)
from tidelog.kernel.partition.storage_failure import storage_failure
from tidelog.kernel.partition.validation import (
    LOG_APPEND_TIME,
    PartitionConfig,
    recompressed_in_steps,
    validate_batch,
    validate_in_steps,
)
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
from tidelog.kernel.seams.partition import AppendOrigin, AppendResult

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.kernel.partition.availability import Availability
    from tidelog.kernel.partition.epochs import LeaderEpochFileCache
    from tidelog.kernel.partition.group_commit import GroupCommit
    from tidelog.kernel.partition.memory_budget import Unpacking
    from tidelog.kernel.partition.producer_state_manager import ProducerStateManager
    from tidelog.kernel.partition.producers import SentBatch
    from tidelog.kernel.partition.watermarks import Watermarks
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)


class Appends:
    """The appends of one partition; the methods are described in the `Partition` of the seam.

    `config` may be replaced between two appends.
    """

    __slots__ = (
        "_availability",
        "_clock",
        "_commit",
        "_name",
        "_producers",
        "_unpacking",
        "_writer",
        "config",
    )

    def __init__(
        self,
        name: str,
        config: PartitionConfig,
        clock: Clock,
        producers: ProducerStateManager,
        writer: LogWriter,
        commit: GroupCommit,
        unpacking: Unpacking,
        availability: Availability,
    ) -> None:
        """`name` of the partition is for messages."""
        self.config = config
        self._name = name
        self._clock = clock
        self._producers = producers
        self._writer = writer
        self._commit = commit
        self._unpacking = unpacking
        self._availability = availability

    def append(
        self, batch: bytearray | memoryview, verify: Callable[[], int] | None = None
    ) -> AppendResult | Awaitable[AppendResult]:
        """Append one batch of a client; return an awaitable if checking its records takes long."""
        try:
            return self._append(batch, RecordChecks.QUICK, verify() if verify else NO_TRANSACTION)
        except ChecksTakeLong as checks:
            return CheckedAppend(partial(self._append_checked, batch, checks, verify))

    def append_nowait(
        self,
        batch: bytearray | memoryview,
        *,
        in_transaction: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append one batch at once, however long its records take to check."""
        transaction_version = FIRST_TRANSACTION_VERSION if in_transaction else NO_TRANSACTION
        if origin is AppendOrigin.COORDINATOR:
            return self._append(batch, RecordChecks.DONE, transaction_version, sequenced=False)
        return self._append(batch, RecordChecks.ALL, transaction_version)

    def append_message_set(self, messages: bytearray | memoryview) -> AppendResult | Awaitable[AppendResult]:
        """Append the messages of a client before Kafka 0.11; return an awaitable if converting takes long."""
        # Not at the top: its tables take time and memory, and clients of today never need it.
        from tidelog.kernel.partition import message_sets

        if not message_sets.is_quick(messages, self.config):
            convert = partial(message_sets.convert_in_steps, messages, unpacking=self._unpacking)
            return CheckedAppend(partial(self._convert_and_append, convert))
        return self._append_converted(message_sets.convert(messages, self.config, self._clock()))

    async def _convert_and_append(
        self, convert: Callable[[PartitionConfig, int], Awaitable[bytearray]]
    ) -> AppendResult:
        return self._append_converted(await convert(self.config, self._clock()))

    def _append_converted(self, batch: bytearray) -> AppendResult:
        header = parse_header(batch)
        checked = CheckedBatch(header, header.max_timestamp)
        return self._append(batch, RecordChecks.DONE, NO_TRANSACTION, checked=checked)

    async def _append_checked(
        self, batch: bytearray | memoryview, checks: ChecksTakeLong, verify: Callable[[], int] | None
    ) -> AppendResult:
        """Check the records step by step, and append the batch."""
        config, header = self.config, checks.header
        steps = checks.steps or validate_in_steps(batch, header, config, self._clock())
        max_timestamp = await check_records(batch, steps, header, self._unpacking)
        if config.recompresses(header):
            batch = await recompress(batch, header, config, self._unpacking)
            header = parse_header(batch)
        transaction_version = verify() if verify else NO_TRANSACTION
        checked = CheckedBatch(header, max_timestamp)
        return self._append(batch, RecordChecks.DONE, transaction_version, checked=checked)

    def _append(
        self,
        batch: bytearray | memoryview,
        checks: RecordChecks,
        transaction_version: int,
        *,
        sequenced: bool = True,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Append one batch, whose header and records were perhaps checked before.

        `transaction_version` is that of the transaction which includes the partition, or NO_TRANSACTION.

        Raises:
            ChecksTakeLong: with `RecordChecks.QUICK`; nothing was appended.
            BrokerError: see `append`.
        """
        # Looked at here, since it is nearly always None, and this is done for each batch.
        if self._availability.reason is not None:
            self._availability.check()
        config = self.config
        header = checked.header if checked else validate_batch(batch, config, sequenced=sequenced)
        if header.attributes & TRANSACTIONAL_BIT and transaction_version == NO_TRANSACTION:
            raise InvalidTransactionState(
                f"{self._name} was not added to a transaction of producer {header.producer_id}"
            )
        if header.producer_id > NO_PRODUCER_ID:
            sent = self._producers.check(header, transaction_version, sequenced=sequenced)
            if sent is not None:
                return self._as_answered_then(sent)
        now_ms = self._clock()
        max_timestamp = checked.max_timestamp if checked else header.max_timestamp
        if checks is RecordChecks.QUICK:
            max_timestamp = check_for_a_turn(batch, header, config, now_ms)
        elif checks is RecordChecks.ALL:
            max_timestamp = finish(validate_in_steps(batch, header, config, now_ms))
            if config.recompresses(header):
                batch = finish(recompressed_in_steps(batch, header, config))
                header = parse_header(batch)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            stamp_append_time(batch, header, now_ms)
            return self._writer.append(batch, header._replace(max_timestamp=now_ms), now_ms)
        if header.attributes & TIMESTAMP_TYPE_BIT or max_timestamp != header.max_timestamp:
            header = stamp_create_time(batch, header, max_timestamp)
        return self._writer.append(batch, header, NO_TIMESTAMP)

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
        self._availability.check()
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker, now_ms = EndMarker(commit, coordinator_epoch), self._clock()
        batch, header = marker_batch(producer_id, producer_epoch, marker, now_ms)
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now_ms
            stamp_append_time(batch, header, append_time)
        return self._writer.append(batch, header, append_time, marker)

    def _as_answered_then(self, sent: SentBatch) -> AppendResult:
        stamped = self.config.message_timestamp_type == LOG_APPEND_TIME
        time = sent.timestamp if stamped else NO_TIMESTAMP
        return AppendResult(sent.base_offset, sent.last_offset, time, flush_due=self._commit.is_due)


class LogWriter:
    """The only way into a log: writes checked batches, with the next offsets or their own.

    It updates the state derived from the log: offsets belong to `Watermarks`, epochs to
    `LeaderEpochFileCache`, producers and their snapshots to `ProducerStateManager`.
    `leader_epoch` is the epoch in which this broker leads the partition; `append` stamps batches with it.
    Neither method has a checkpoint: on one event loop that makes reading the log end offset and writing the
    batch atomic without a lock.
    """

    __slots__ = (
        "_commit",
        "_epochs",
        "_name",
        "_producers",
        "_store",
        "_take_offline",
        "_watermarks",
        "leader_epoch",
    )

    def __init__(
        self,
        name: str,
        store: PartitionStore,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        watermarks: Watermarks,
        commit: GroupCommit,
        take_offline: Callable[[BrokerError], None],
    ) -> None:
        """`name` of the partition is for messages; `take_offline(reason)` ends its use."""
        self._name = name
        self._store = store
        self._epochs = epochs
        self._producers = producers
        self._watermarks = watermarks
        self._commit = commit
        self._take_offline = take_offline
        self.leader_epoch = 0

    def append(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        append_time: int,
        marker: EndMarker | None = None,
    ) -> AppendResult:
        """Stamp a checked batch with the next offsets and the leader epoch, and write it.

        `append_time` in milliseconds, or -1, is returned to the producer. Raises: see `write`.
        """
        base_offset = self._watermarks.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp_offset(batch, base_offset, self.leader_epoch)
        self.write(batch, header, base_offset, last_offset, self.leader_epoch, marker)
        return AppendResult(base_offset, last_offset, append_time, self._commit.appended(last_offset + 1))

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
                no entry, or the storage raised what it may not, and the partition is offline.
        """
        try:
            if self._epochs.is_owed:
                self._epochs.check_paid()
            rolled = self._store.append(batch, base_offset, last_offset, header.max_timestamp)
        except OSError as error:
            if not disk.is_full(error):
                _log.error("%s: append failed: %s", self._name, error)
            raise StorageError(f"{self._name}: the disk refused the batch: {error}") from error
        except BrokerError:
            raise
        except Exception as error:
            # What the log has now is unknown, so the next batch may not follow.
            failure = storage_failure(self._name, self._store, "append", error)
            self._take_offline(failure)
            raise failure from error
        if rolled:
            self._producers.snapshot_soon(base_offset)
        if leader_epoch > self._epochs.latest:
            self._epochs.begin(leader_epoch, base_offset)
        if marker is not None:
            self._apply_marker(header, base_offset, marker)
        elif header.producer_id > NO_PRODUCER_ID:
            self._producers.update(header, base_offset)
        watermarks = self._watermarks
        watermarks.log_end_offset = last_offset + 1
        watermarks.unseen_bytes += len(batch)

    def _apply_marker(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
        try:
            self._producers.apply_marker(header, base_offset, marker)
        except OSError as error:
            # The log has the marker and the index does not. No state is written that includes the marker
            # then, so the next start finds it in the log and adds the entry.
            failure = StorageError(f"{self._name}: no entry in the transaction index: {error}")
            self._take_offline(failure)
            raise failure from error
        except Exception as error:
            failure = storage_failure(self._name, self._store, "add_aborted", error)
            self._take_offline(failure)
            raise failure from error
