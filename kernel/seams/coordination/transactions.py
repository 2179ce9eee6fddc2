"""Transactions: what producers ask of their coordinator, and what others ask about them.

Source: KIP-98, KIP-360 (epoch bumps), KIP-664 (looking in), KIP-890 (an epoch of its own for every
transaction).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.storage import TopicPartition

FIRST_TRANSACTION_VERSION = 0
EPOCH_PER_TRANSACTION = 2
"""The transaction version from which on every transaction has a producer epoch of its own (KIP-890)."""


class TransactionState(enum.IntEnum):
    """Where a transactional id is; the numbers are those of Kafka's transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name for it, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ProducerIdentity(NamedTuple):
    """A producer id and the epoch of the instance that has it."""

    producer_id: int
    epoch: int


class EndOfTransaction(NamedTuple):
    """What a marker says: how a producer's transaction ended, and the epoch of who decided so."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    version: int = FIRST_TRANSACTION_VERSION


@attrs.frozen
class TransactionDescription:
    """One transactional id; times are milliseconds since the epoch, -1 while no transaction was begun."""

    transactional_id: str
    state: TransactionState
    producer: ProducerIdentity
    timeout_ms: int
    start_ms: int
    partitions: Collection[TopicPartition]


@attrs.frozen
class TransactionFilter:
    """Which transactional ids to list; what is empty, negative or None filters nothing.

    `open_longer_than_ms` counts from the transaction's start; `pattern` is a regular expression for a whole
    id.
    """

    states: Collection[TransactionState] | None = None
    producer_ids: Collection[int] = ()
    open_longer_than_ms: int = -1
    pattern: str | None = None


class TransactionService(Protocol):
    """The transactions of all producers. All of it may raise CoordinatorLoadInProgress and NotCoordinator."""

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, current: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """The identity that a producer has from now on; what an earlier instance left open is aborted.

        With the identity that it has (`current`, KIP-360) a producer gets the next epoch, unless another
        instance has taken over.

        Raises:
            InvalidRequest: the transactional id is empty.
            InvalidTransactionTimeout: not positive, or above `transaction.max.timeout.ms`.
            ProducerFenced: `current` is not the newest identity.
            ConcurrentTransactions: what was left open is still being completed; ask again.
        """
        ...

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """Make partitions part of the producer's transaction, which begins with that if none is open.

        `version` is the transaction version that the client works by.

        Raises:
            InvalidRequest, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions.
        """
        ...

    async def add_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        group_id: str,
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """Make a group's offsets part of the producer's transaction; raises as `add_partitions`."""
        ...

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, BrokerError | None]:
        """For each partition why it is not part of the producer's transaction, None if it is.

        Raises:
            InvalidRequest, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions.
        """
        ...

    def verify_offsets(self, transactional_id: str, producer: ProducerIdentity, group_id: str) -> None:
        """Check that a group's offsets are part of the producer's transaction.

        Raises:
            TransactionAbortable: they are not.
            BrokerError: as `verify_partitions`.
        """
        ...

    def includes_partition(self, producer_id: int, epoch: int, partition: TopicPartition) -> bool:
        """Return whether the producer's transaction includes the partition; cheap, asked for every batch."""
        ...

    async def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        *,
        commit: bool,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> ProducerIdentity:
        """Commit or abort; what the producer's next transaction goes by.

        The decision is in the log when this returns, and markers are in all partitions that could be written.

        Raises:
            InvalidRequest, InvalidProducerIdMapping, ProducerFenced: the producer is not who it should be.
            ConcurrentTransactions: the same decision is still being carried out.
            InvalidTransactionState: there is nothing to end, or the opposite was decided.
        """
        ...

    async def write_marker(self, partition: TopicPartition, end: EndOfTransaction) -> None:
        """End a producer's transaction in one partition, whatever its coordinator thinks: for repairs.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            InvalidProducerEpoch, TransactionCoordinatorFenced: somebody newer has ended one there.
            StorageError: the disk refused.
        """
        ...

    def describe(self, transactional_id: str) -> TransactionDescription:
        """One transactional id.

        Raises:
            InvalidRequest: it is empty.
            TransactionalIdNotFound: it is unknown.
        """
        ...

    async def list(self, wanted: TransactionFilter) -> Sequence[TransactionDescription]:
        """All transactional ids that match.

        Raises:
            InvalidRegularExpression: the pattern is none.
        """
        ...
