"""The state of one transactional id."""

from __future__ import annotations

from typing import Final

import attrs

from tidelog.kernel.seams.coordination.transactions import (
    FIRST_TRANSACTION_VERSION,
    EndOfTransaction,
    ProducerIdentity,
    TransactionDescription,
    TransactionState,
)
from tidelog.kernel.seams.storage import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Timeout of transactions in two-phase commits, in Kafka's log too (KIP-939)."""
MAX_EPOCH: Final = 0x7FFF
LAST_EPOCH_GIVEN_OUT: Final = MAX_EPOCH - 1
"""The epoch above it is reserved for fencing the producer that has this one."""


@attrs.frozen
class Transaction:
    """A transactional id, its producer and its latest transaction; each change makes a new object.

    Attributes:
        producer_id, producer_epoch: those of the batches and markers of this transaction
        previous_producer_id: that of the state before this one
        next_producer_id: the producer's id after this transaction, -1 unless epochs run out
        last_producer_epoch: the epoch that a producer whose response was lost may still have; not in the log
        start_ms, last_update_ms: milliseconds since the epoch; -1 for no transaction begun
        client_version: the transaction version that the client uses
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = FIRST_TRANSACTION_VERSION

    @property
    def producer(self) -> ProducerIdentity:
        """The only producer that may write in this transaction."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no epoch left to assign."""
        return self.producer_epoch >= LAST_EPOCH_GIVEN_OUT

    def end_marker(self, coordinator_epoch: int) -> EndOfTransaction:
        """Return what the markers of a decided transaction contain."""
        commit = self.state is TransactionState.PREPARE_COMMIT
        return EndOfTransaction(self.producer, commit, coordinator_epoch, self.client_version)

    def describe(self) -> TransactionDescription:
        """Return the description of the transaction for clients."""
        return TransactionDescription(
            self.transactional_id, self.state, self.producer, self.timeout_ms, self.start_ms, self.partitions
        )
