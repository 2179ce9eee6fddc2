"""Transactions: the requests of producers to their coordinator, and those of tools about them.

Source: KIP-98, KIP-360 (epoch bumps), KIP-664 (describing and listing), KIP-890 (an epoch for each
transaction).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.features import SECOND_TRANSACTION_VERSION
from tidelog.kernel.seams.storage import TopicPartition

NO_TRANSACTION = -1
"""Stands for the version where there is no transaction."""
FIRST_TRANSACTION_VERSION = 0
EPOCH_PER_TRANSACTION = SECOND_TRANSACTION_VERSION
"""The transaction version from which on every transaction has a producer epoch of its own (KIP-890)."""


class TransactionState(enum.IntEnum):
    """The state of a transactional id; the numbers are those of Kafka's transaction log."""

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
        """The name that Kafka's tools show, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ProducerIdentity(NamedTuple):
    """A producer id and the epoch of its instance."""

    producer_id: int
    epoch: int


class EndOfTransaction(NamedTuple):
    """The content of a marker: how a producer's transaction ended, and the epoch of its coordinator."""

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
    """The transactions of all producers. Every method may raise CoordinatorLoadInProgress, NotCoordinator."""

    async def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        current: ProducerIdentity | None = None,
        *,
        two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> ProducerIdentity:
        """Return the next identity of a producer; what an earlier instance left open is aborted.

        With the identity that it has (`current`, KIP-360) a producer gets the next epoch, unless another
        instance has taken over. With `two_phase_commit` its transactions have no timeout, whatever it asks
        for, and with `keep_prepared` what was left open is kept (KIP-939).

        Raises:
            InvalidRequest: the transactional id is empty.
            TransactionalIdAuthorizationFailed: two-phase commits are not permitted.
            UnsupportedVersion: this coordinator cannot keep what was left open.
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
        """Add partitions to the producer's transaction, which begins with that if none is open.

        `version` is the transaction version that the client uses.

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
        """Add a group's offsets to the producer's transaction; raises as `add_partitions`."""
        ...

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, BrokerError | None]:
        """Return for each partition why the producer's transaction does not include it, None if it does.

        Raises:
            InvalidRequest, InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions.
        """
        ...

    def verify_offsets(self, transactional_id: str, producer: ProducerIdentity, group_id: str) -> None:
        """Check that the producer's transaction includes a group's offsets.

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
        """Commit or abort; return the identity of the producer's next transaction.

        The decision is in the log when this returns, and markers are in all partitions that could be written.

        Raises:
            InvalidRequest, InvalidProducerIdMapping, ProducerFenced: the producer has another id or epoch.
            ConcurrentTransactions: the same decision is still being carried out.
            InvalidTransactionState: there is nothing to end, or the opposite was decided.
        """
        ...

    async def write_marker(self, partition: TopicPartition, end: EndOfTransaction) -> None:
        """End a producer's transaction in one partition, whatever its coordinator has decided: for repairs.

        Raises:
            UnknownTopicOrPartition: there is no such partition.
            InvalidProducerEpoch, TransactionCoordinatorFenced: a newer producer or coordinator has ended one.
            StorageError: the marker could not be written.
        """
        ...

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the state of one transactional id.

        Raises:
            InvalidRequest: it is empty.
            TransactionalIdNotFound: it is unknown.
        """
        ...

    async def list(self, wanted: TransactionFilter) -> Sequence[TransactionDescription]:
        """Return all transactional ids that pass a filter.

        Raises:
            InvalidRegularExpression: the pattern is invalid, or takes too long to match.
        """
        ...
