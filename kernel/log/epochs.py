"""The leader epochs of one partition: their lineage, kept in the partition's `leader-epoch-checkpoint`.

Source: Apache Kafka's `LeaderEpochFileCache`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.leader_epochs import CHECKPOINT_NAME, NO_EPOCH, LeaderEpochLineage

if TYPE_CHECKING:
    from tidelog.kernel.log.side_writes import SideWrites
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)


class LeaderEpochFileCache(LeaderEpochLineage):
    """The lineage of one partition, with its checkpoint file in the partition's directory.

    `is_owed`: the disk had no room for the epoch that this broker leads in, so that nothing may be appended
    in it yet.
    """

    __slots__ = ("_name", "_side_writes", "_store", "is_owed")

    def __init__(self, name: str, store: PartitionStore, side_writes: SideWrites) -> None:
        """`name` of the partition, for logs; the lineage is empty until `load`."""
        super().__init__()
        self._name = name
        self._store = store
        self._side_writes = side_writes
        self.is_owed = False

    def begin(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that begins with the batch at `start_offset`; write the file in the background."""
        self.assign(epoch, start_offset)
        self._write_soon()

    def begin_durably(self, epoch: int, start_offset: int) -> None:
        """Blocking: add an epoch and write the checkpoint, before any record gets the epoch.

        If the disk is full, the checkpoint is owed: `pay_soon` is to be called.

        Raises:
            OSError: the disk refused for another reason.
        """
        self.assign(epoch, start_offset)
        try:
            self._write()
        except OSError as error:
            if not disk.is_full(error):
                raise
            self.is_owed = True

    def pay_soon(self) -> None:
        """On the event loop: write the checkpoint that is owed in the background, when there is room."""
        self._write_soon()

    def check_paid(self) -> None:
        """Refuse an append while the epoch is owed.

        Raises:
            OSError: there is still no room for the checkpoint.
        """
        # The write is tried again in the background as long as the disk is full, and after another error by
        # the next append; once it has succeeded nothing waits under that name.
        if self._side_writes.has_given_up(CHECKPOINT_NAME):
            self._write_soon()
        self.is_owed = self._side_writes.is_waiting(CHECKPOINT_NAME)
        if self.is_owed:
            raise disk.full_error(f"there was no room for {CHECKPOINT_NAME} yet")

    def raise_log_start(self, offset: int) -> None:
        """Start the lineage at `offset`; write the checkpoint in the background if that changes it."""
        if self.truncate_from_start(offset):
            self._write_soon()

    def truncate_to(self, offset: int, *, rewrite: bool) -> None:
        """Blocking: drop epochs that start at `offset` or later, and write the checkpoint if that changes it.

        With `rewrite` it is written in any case: what waited to be written was dropped.

        Raises:
            OSError: the disk refused.
        """
        if self.truncate_from_end(offset) or rewrite:
            self._write()

    def load(self) -> int | None:
        """Blocking: read the checkpoint, bounded by the log as it is.

        Returns the newest epoch in the checkpoint, also if its start is beyond the log's end; None when there
        is no usable checkpoint and the lineage has to be learned from the log.

        Raises:
            OSError: the disk refused.
        """
        store = self._store
        content = store.read_side_file(CHECKPOINT_NAME)
        if content is None:
            # An empty log has nothing to learn from, so that nothing was lost with the file.
            return NO_EPOCH if store.log_end_offset == store.log_start_offset else None
        try:
            self._set(LeaderEpochLineage.decode(content).entries())
        except StorageError as error:
            _log.warning("%s: %s; rebuilding it from the log", self._name, error)
            return None
        newest = self.latest
        # One more: an epoch may begin at the log end, of which no record was written yet.
        self.truncate_from_end(store.log_end_offset + 1)
        self.truncate_from_start(store.log_start_offset)
        self._learn_first_epochs()
        return newest

    def _learn_first_epochs(self) -> None:
        """Learn from the log what the lineage lacks at its beginning.

        After DeleteRecords the lineage is written at once and the log start only at the next checkpoint: a
        kill in between brings records back that no epoch of the lineage covers.
        """
        later, known_from = self.entries(), self.first_offset
        log_start = self._store.log_start_offset
        if known_from <= log_start:
            return
        self._set([])
        for header in self._store.headers(log_start):
            if header.base_offset >= known_from:
                break
            self.assign(header.leader_epoch, max(header.base_offset, log_start))
        # Epochs only grow, so those that are known can be added only after the ones before them.
        for epoch, start in later:
            self.assign(epoch, start)

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def _write(self) -> None:
        self._store.write_side_file(CHECKPOINT_NAME, self.encode())

    def _write_soon(self) -> None:
        # Encoded now and not in the thread: the event loop changes the lineage meanwhile.
        self._side_writes.soon(f"epochs {self._name}", CHECKPOINT_NAME, self.encode())
