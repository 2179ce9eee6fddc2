"""The only way into a partition's log: write a batch at its end, and update the state derived from it.

Offsets belong to `Watermarks`, epochs to `LeaderEpochFileCache`, producers and snapshots to
`ProducerStateManager`. Source: Apache Kafka's `UnifiedLog.append`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.records.batch import NO_PRODUCER_ID, BatchHeader, stamp_offset
from tidelog.kernel.seams.partition import AppendResult

if TYPE_CHECKING:
    from tidelog.kernel.partition.epochs import LeaderEpochFileCache
    from tidelog.kernel.partition.group_commit import GroupCommit
    from tidelog.kernel.partition.producer_state_manager import ProducerStateManager
    from tidelog.kernel.partition.watermarks import Watermarks
    from tidelog.kernel.records.control import EndMarker
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)


class LogWriter:
    """Writes checked batches to one log, with the next offsets (`append`) or those they have (`write`).

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
                no entry, and the partition is offline.
        """
        try:
            rolled = self._store.append(batch, base_offset, last_offset, header.max_timestamp)
        except OSError as error:
            _log.error("%s: append failed: %s", self._name, error)
            raise StorageError(f"{self._name}: the disk refused the batch: {error}") from error
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
