"""Producer state: what makes a retried batch of an idempotent producer land once and in order.

For each producer id the last five batches are kept (Apache Kafka's `ProducerStateManager`): a batch whose
first and last sequence equal one of them is a retry and is answered with the offsets that it got then; any
other batch has to follow the last one. A transactional batch opens a transaction, which a marker ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import attrs

from tidelog.kernel.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from tidelog.kernel.log.transactions import LogTransactions
from tidelog.kernel.records.batch import NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from tidelog.kernel.records.control import EndMarker
from tidelog.kernel.seams.coordination.transactions import NO_TRANSACTION
from tidelog.kernel.seams.storage import AbortedTransaction

# As many as a client may have in flight with idempotence: any of them may be sent again.
BATCHES_TO_RETAIN = 5
MAX_SEQUENCE = 0x7FFFFFFF
NO_OFFSET = -1
NO_PRODUCER_EPOCH = -1
FENCED_BY_ITS_OWN_EPOCH_SINCE = 2
"""Transaction version from which on every transaction has an epoch of its own (KIP-890)."""


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

    @property
    def next_sequence(self) -> int:
        """Sequence that the next batch of this epoch begins with."""
        last = self.batches[-1].last_sequence if self.batches else NO_SEQUENCE
        # Sequences wrap around to 0 after the largest int32, as in Kafka.
        return 0 if last == MAX_SEQUENCE else last + 1


class ProducerStates:
    """The state of all producers of a partition, and their transactions."""

    __slots__ = ("entries", "transactions")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = LogTransactions()

    def restore(self, entries: Mapping[int, ProducerEntry]) -> None:
        """Replace all producers by those of a snapshot."""
        self.entries = dict(entries)
        self.transactions.restore(
            (entry.current_txn_first_offset, producer_id)
            for producer_id, entry in entries.items()
            if entry.current_txn_first_offset != NO_OFFSET
        )

    def check(
        self, header: BatchHeader, transaction_version: int = NO_TRANSACTION, *, sequenced: bool
    ) -> SentBatch | None:
        """Check whether a batch may be appended; return the earlier one if it is a retry of it.

        A producer that is not known here may begin with any sequence: what it sent before may be deleted. In
        a transaction with an epoch of its own it begins with 0, since nothing of that is deleted while it is
        open. Without `sequenced` only the epoch counts: a coordinator writes for the producer, without
        sequences.

        Raises:
            InvalidProducerEpoch: a newer epoch of this producer was seen, or it is below -1.
            OutOfOrderSequence: the batch does not follow the last one.
            InvalidTransactionState: the producer has a transaction open, and this batch is outside of it.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            if header.producer_epoch < NO_PRODUCER_EPOCH:
                raise InvalidProducerEpoch(
                    f"producer {header.producer_id} cannot have epoch {header.producer_epoch}"
                )
            if sequenced and transaction_version >= FENCED_BY_ITS_OWN_EPOCH_SINCE and header.base_sequence:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins its transaction here with sequence "
                    f"{header.base_sequence} instead of 0"
                )
            return None
        if header.producer_epoch != entry.epoch:
            _check_new_epoch(header, entry, sequenced)
        # Only what does not follow is compared with the last batches: nearly every batch follows.
        elif sequenced and header.base_sequence != entry.next_sequence:
            return _sent_before(header, entry)
        # After the retry: one from before the transaction was opened is in the log, and is answered as such.
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_BIT:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has a transaction open here and sent a batch outside of it"
            )
        return None

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Add a batch that is in the log at `base_offset`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            # Sequences begin again with each epoch: an older batch with the same ones is no retry.
            entry.batches.clear()
        entry.last_timestamp = header.max_timestamp
        # A coordinator's batch for the producer has none, and must not become what the producer's next one
        # follows.
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
        if header.attributes & TRANSACTIONAL_BIT and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset
            self.transactions.begin(base_offset, header.producer_id)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check whether a coordinator may end a transaction of that producer; it may repeat the last marker.

        Raises:
            InvalidProducerEpoch: a newer epoch of this producer was seen; or, from transaction version 2 on,
                the open transaction has this very epoch, so the marker must be that of an earlier one.
            TransactionCoordinatorFenced: a newer coordinator has ended one before.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        late = (
            transaction_version >= FENCED_BY_ITS_OWN_EPOCH_SINCE
            and producer_epoch == entry.epoch
            and entry.current_txn_first_offset != NO_OFFSET
        )
        if producer_epoch < entry.epoch or late:
            raise InvalidProducerEpoch(
                f"producer {producer_id} has epoch {entry.epoch} here, the marker has {producer_epoch}"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a coordinator of epoch {entry.coordinator_epoch} has ended a transaction of producer "
                f"{producer_id}, the marker is of epoch {coordinator_epoch}"
            )

    def aborted_by(
        self, header: BatchHeader, base_offset: int, marker: EndMarker
    ) -> AbortedTransaction | None:
        """Return the transaction that a marker aborts; None if it commits, or none is open."""
        entry = self.entries.get(header.producer_id)
        if marker.commit or entry is None or entry.current_txn_first_offset == NO_OFFSET:
            return None
        first = entry.current_txn_first_offset
        # As it will be once the transaction has ended: it is added to the index before it ends here.
        stable = self.transactions.stable_offset_after(first, base_offset)
        return AbortedTransaction(header.producer_id, first, base_offset, stable)

    def end_transaction(self, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
        """Apply a marker that is in the log at `base_offset`; with no transaction open it only fences."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        if entry.current_txn_first_offset != NO_OFFSET:
            self.transactions.end(entry.current_txn_first_offset, base_offset)
            entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp

    def expire(self, older_than_ms: int) -> int:
        """Drop producers whose last batch is older than that time and that have no open transaction.

        Returns how many were dropped.
        """
        # A transaction that is open has to be known until its marker comes, however long that takes: without
        # it the last stable offset would pass it.
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.last_timestamp < older_than_ms and entry.current_txn_first_offset == NO_OFFSET
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        return len(gone)


def _check_new_epoch(header: BatchHeader, entry: ProducerEntry, sequenced: bool) -> None:
    if header.producer_epoch < entry.epoch:
        raise InvalidProducerEpoch(
            f"producer {header.producer_id} has epoch {entry.epoch} here, "
            f"the batch has {header.producer_epoch}"
        )
    if sequenced and header.base_sequence != 0:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} starts epoch {header.producer_epoch} "
            f"with sequence {header.base_sequence} instead of 0"
        )


def _sent_before(header: BatchHeader, entry: ProducerEntry) -> SentBatch:
    """Return the batch that this one, which does not follow the last one, is a retry of."""
    last_sequence = header.last_sequence
    for sent in entry.batches:
        if sent.base_sequence == header.base_sequence and sent.last_sequence == last_sequence:
            return sent
    raise OutOfOrderSequence(
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {entry.next_sequence}"
    )
