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

from tidelog.kernel.errors import StorageError

CHECKPOINT_NAME = "leader-epoch-checkpoint"
VERSION = 0
NO_EPOCH = -1
NO_OFFSET = -1
MAX_EPOCH = 2**31 - 1
MAX_OFFSET = 2**63 - 1


class CorruptEpochCheckpoint(StorageError):
    """The checkpoint file cannot be read; the lineage is rebuilt from the log."""


class LeaderEpochLineage:
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
        # A newer epoch replaces those that begin at its start or later: both columns have to grow. As in
        # Kafka.
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
            # Older than all that is known: as in Kafka the log start follows, so that a follower truncates to
            # where it can begin to fetch.
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
        # The epoch that holds the offset stays: its records from there on can still be read.
        self._starts[0] = offset
        return True

    def encode(self) -> bytes:
        """Return the checkpoint file's content."""
        lines = [str(VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in self.entries()]
        return ("\n".join(lines) + "\n").encode()

    @staticmethod
    def decode(content: bytes) -> LeaderEpochLineage:
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
        epochs = LeaderEpochLineage()
        if not well_formed or any(len(pair) != 2 or not epochs._extend(*pair) for pair in pairs):
            raise CorruptEpochCheckpoint(f"{CHECKPOINT_NAME} is malformed")
        return epochs

    def _extend(self, epoch: int, start: int) -> bool:
        newest_start = self._starts[-1] if self._starts else NO_OFFSET
        # A row that does not grow would make the binary searches meaningless; then the log is read instead.
        if not (self.latest < epoch <= MAX_EPOCH and newest_start < start <= MAX_OFFSET):
            return False
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch
        return True
