"""Producer state: what makes a retried batch of an idempotent producer land once and in order.

For each producer id the last five batches are remembered (seed 002, "ProducerStateManager"): a batch whose
first and last sequence equal one of them is a retry and is answered with the offsets that it got then; any
other batch has to follow the last one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import attrs

from tidelog.kernel.errors import InvalidProducerEpoch, OutOfOrderSequence
from tidelog.kernel.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader

BATCHES_TO_RETAIN = 5
MAX_SEQUENCE = 0x7FFFFFFF
NO_OFFSET = -1


class SentBatch(NamedTuple):
    """Sequences and offsets of a batch that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@attrs.define
class ProducerEntry:
    """State of one producer id in one partition."""

    epoch: int
    batches: deque[SentBatch] = attrs.field(factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    last_timestamp: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, -1 before the first batch of this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """All producers that a partition remembers."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def check(self, header: BatchHeader) -> SentBatch | None:
        """Whether a batch may be appended; the earlier one when it is a retry of it.

        Raises:
            InvalidProducerEpoch: a newer epoch of this producer was seen.
            OutOfOrderSequence: the batch does not follow the last one.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch != entry.epoch:
            _check_new_epoch(header, entry)
            return None
        last_sequence = header.last_sequence
        for sent in entry.batches:
            if sent.base_sequence == header.base_sequence and sent.last_sequence == last_sequence:
                return sent
        _check_follows(header, entry)
        return None

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch that is in the log at `base_offset`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = header.max_timestamp
        if header.base_sequence != NO_SEQUENCE:
            entry.batches.append(
                SentBatch(
                    header.base_sequence,
                    header.last_sequence,
                    base_offset,
                    base_offset + header.last_offset_delta,
                    header.max_timestamp,
                )
            )

    def replay(self, header: BatchHeader) -> None:
        """Take in a batch found in the log while it is loaded; checks are not repeated."""
        if header.producer_id != NO_PRODUCER_ID:
            self.update(header, header.base_offset)

    def expire(self, older_than_ms: int) -> int:
        """Forget producers whose last batch is older than that time and that have no open transaction."""
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.last_timestamp < older_than_ms and entry.current_txn_first_offset == NO_OFFSET
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        return len(gone)


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry) -> None:
    if header.producer_epoch < entry.epoch:
        raise InvalidProducerEpoch(
            f"producer {header.producer_id} has epoch {entry.epoch} here, "
            f"the batch has {header.producer_epoch}"
        )
    if header.base_sequence != 0:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} starts epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence} instead of 0"
        )


def _check_follows(header: BatchHeader, entry: ProducerEntry) -> None:
    last = entry.last_sequence
    expected = 0 if last == MAX_SEQUENCE else last + 1
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}"
        )
