"""What a coordinator knows of one transactional id."""

from __future__ import annotations

from typing import Final

import attrs

from tidelog.kernel.seams.coordination.transactions import (
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
    TransactionDescription,
    TransactionState,
)
from tidelog.kernel.seams.storage import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 0x7FFF
LAST_EPOCH_GIVEN_OUT: Final = MAX_EPOCH - 1
"""The epoch above it is kept for fencing the producer that has this one."""


@attrs.frozen
class Transaction:
    """A transactional id, its producer and its newest transaction; changes make a new one.

    Attributes:
        producer_id, producer_epoch: what batches and markers of this transaction bear
        previous_producer_id: that of the state before this one
        next_producer_id: what the producer goes by after this transaction, -1 unless epochs run out
        last_producer_epoch: what a producer that lost an answer may still say it has; not in the log
        start_ms, last_update_ms: milliseconds since the epoch; -1 for no transaction begun
        client_version: the transaction version that the client works by
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
        """Who may write in this transaction."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give out."""
        return self.producer_epoch >= LAST_EPOCH_GIVEN_OUT

    def describe(self) -> TransactionDescription:
        """What others are told."""
        return TransactionDescription(
            self.transactional_id, self.state, self.producer, self.timeout_ms, self.start_ms, self.partitions
        )
