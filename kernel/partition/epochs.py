"""Leader-epoch lineage: which epoch started at which offset, and its checkpoint file.

    file `leader-epoch-checkpoint` (text)
    0                   version
    2                   number of entries
    0 0                 epoch and the first offset written in it, both ascending
    3 5120

Source: Apache Kafka's `LeaderEpochFileCache`.
"""

from __future__ import annotations

import bisect
import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import StorageError

if TYPE_CHECKING:
    from tidelog.kernel.partition.side_writes import SideWrites
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)

CHECKPOINT_NAME = "leader-epoch-checkpoint"
VERSION = 0
NO_EPOCH = -1
NO_OFFSET = -1
MAX_EPOCH = 2**31 - 1
MAX_OFFSET = 2**63 - 1


class CorruptEpochCheckpoint(StorageError):
    """The checkpoint file cannot be read; the lineage is rebuilt from the log."""


class LeaderEpochs:
    """Epoch → start offset, both strictly increasing; `latest` is the newest one, -1 without data."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        # Kept, since every append asks for it.
        self.latest = NO_EPOCH

    @property
    def first_offset(self) -> int:
        """Start offset of the oldest epoch, -1 without data."""
        return self._starts[0] if self._starts else NO_OFFSET

    def entries(self) -> list[tuple[int, int]]:
        """Return all (epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add `epoch`, which starts at `start_offset`; return False if it is not newer than the newest."""
        if epoch <= self.latest:
            return False
        self.truncate_from_end(start_offset)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the newest epoch that is not newer than `epoch`, and its end offset; (-1, -1) when unknown.

        For the newest epoch the end is the log end offset. This is what a follower or a consumer needs to see
        where its history parts from the log's.
        """
        if not self._epochs or epoch == NO_EPOCH or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        following = bisect.bisect_right(self._epochs, epoch)
        if following == 0:
            return epoch, self._starts[0]
        return self._epochs[following - 1], self._starts[following]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, -1 when it lies before the lineage."""
        at = bisect.bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from_end(self, offset: int) -> bool:
        """Drop epochs that start at `offset` or later; return whether there were any."""
        keep = bisect.bisect_left(self._starts, offset)
        gone = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        self.latest = self._epochs[-1] if keep else NO_EPOCH
        return gone

    def truncate_from_start(self, offset: int) -> bool:
        """Start the lineage at `offset`: drop older epochs, let the one that holds `offset` start there.

        Returns whether anything changed.
        """
        holds = bisect.bisect_right(self._starts, offset) - 1
        if holds < 0 or (self._starts[holds] == offset and holds == 0):
            return False
        del self._epochs[:holds], self._starts[:holds]
        self._starts[0] = offset
        return True

    def encode(self) -> bytes:
        """Return the checkpoint file's content."""
        lines = [str(VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in self.entries()]
        return ("\n".join(lines) + "\n").encode()

    @staticmethod
    def decode(content: bytes) -> LeaderEpochs:
        """Parse a checkpoint file.

        Raises:
            CorruptEpochCheckpoint: it is not one, or epochs or offsets do not grow.
        """
        try:
            version, count, *rows = content.decode("ascii").split("\n")
            pairs = [tuple(map(int, row.split(" "))) for row in rows if row]
            well_formed = int(version) == VERSION and int(count) == len(pairs)
        except ValueError as error:
            raise CorruptEpochCheckpoint(f"{CHECKPOINT_NAME} is malformed: {error}") from error
        epochs = LeaderEpochs()
        if not well_formed or any(len(pair) != 2 or not epochs._extend(*pair) for pair in pairs):
            raise CorruptEpochCheckpoint(f"{CHECKPOINT_NAME} is malformed")
        return epochs

    def _extend(self, epoch: int, start: int) -> bool:
        newest_start = self._starts[-1] if self._starts else NO_OFFSET
        if not (self.latest < epoch <= MAX_EPOCH and newest_start < start <= MAX_OFFSET):
            return False
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        return True


class LeaderEpochFileCache(LeaderEpochs):
    """The lineage of one partition, with its checkpoint file in the partition's directory."""

    __slots__ = ("_name", "_side_writes", "_store")

    def __init__(self, name: str, store: PartitionStore, side_writes: SideWrites) -> None:
        """`name` of the partition, for logs; the lineage is empty until `load`."""
        super().__init__()
        self._name = name
        self._store = store
        self._side_writes = side_writes

    def begin(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that begins with the batch at `start_offset`; write the file in the background."""
        self.assign(epoch, start_offset)
        self._write_soon()

    def begin_durably(self, epoch: int, start_offset: int) -> None:
        """Blocking: add an epoch and write the checkpoint, before any client can see the epoch.

        Raises:
            OSError: the disk refused.
        """
        self.assign(epoch, start_offset)
        self._write()

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
            return NO_EPOCH if store.log_end_offset == store.log_start_offset else None
        try:
            self._set(LeaderEpochs.decode(content).entries())
        except StorageError as error:
            _log.warning("%s: %s; rebuilding it from the log", self._name, error)
            return None
        newest = self.latest
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
        for epoch, start in later:
            self.assign(epoch, start)

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH

    def _write(self) -> None:
        self._store.write_side_file(CHECKPOINT_NAME, self.encode())

    def _write_soon(self) -> None:
        self._side_writes.soon(f"epochs {self._name}", CHECKPOINT_NAME, self.encode())
