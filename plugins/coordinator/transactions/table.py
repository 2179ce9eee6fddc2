"""The transactions in memory, by partition of the log and transactional id.

What is loaded from the log is decoded only where it matters: one id has many records, and most ids whose last
transaction has ended are not used again before they expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorState
from tidelog.plugins.coordinator.transactions.records import STATUS_AT, TransactionChange
from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARED
from tidelog.plugins.coordinator.transactions.transaction import Transaction

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.runtime import LoadedBatch

_log = logging.getLogger(__name__)

_SHOWN_BYTES: Final = 64
_NEEDED_AT_ONCE: Final = frozenset({ONGOING, *PREPARED})


class Held(NamedTuple):
    """A transaction and the partition of the log that it is in."""

    partition: int
    transaction: Transaction


class TransactionTable(CoordinatorState):
    """All transactional ids, with indexes of the open transactions and of the decided ones.

    Attributes:
        ongoing: the open transaction of a producer id, which has one transactional id
        prepared: transactional ids with a decision that is being carried out, and their partition
    """

    record_types = (TransactionChange.key_type,)

    def __init__(self, check_active: Callable[[int], None]) -> None:
        """`check_active` raises as `StateLog.check_active`."""
        self.ongoing: dict[int, Held] = {}
        self.prepared: dict[str, int] = {}
        self._check_active = check_active
        self._partitions: dict[int, PartitionTransactions] = {}

    def get(self, partition: int, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id, None for an unknown id.

        Raises:
            CoordinatorLoadInProgress, NotCoordinator: the partition is not active.
        """
        self._check_active(partition)
        return self.partition(partition).get(transactional_id)

    def partition(self, number: int) -> PartitionTransactions:
        """Return the transactional ids in a partition of the log."""
        found = self._partitions.get(number)
        if found is None:
            found = self._partitions[number] = PartitionTransactions(number, self.ongoing, self.prepared)
        return found

    def __iter__(self) -> Iterator[Held]:
        """Iterate over all transactions; the table may change between one and the next."""
        for number, partition in tuple(self._partitions.items()):
            for transaction in partition:
                yield Held(number, transaction)

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> None:
        """Apply a record that is read back, without decoding it."""
        self.partition(partition).load(*batch.records[index])

    def loaded(self, partition: int) -> None:
        """Decode what is open or decided in a partition that is active from now on."""
        self.partition(partition).end_loading()

    def forget(self, partition: int) -> None:
        """Drop the transactions of a partition."""
        forgotten = self._partitions.pop(partition, None)
        if forgotten is not None:
            forgotten.clear()


class PartitionTransactions:
    """The transactional ids in one partition of the log; it keeps the indexes of the table up to date."""

    def __init__(self, number: int, ongoing: dict[int, Held], prepared: dict[str, int]) -> None:
        self._number = number
        self._ongoing = ongoing
        self._prepared = prepared
        self._transactions: dict[str, Transaction] = {}
        self._unread: dict[bytes, bytes] = {}

    def __iter__(self) -> Iterator[Transaction]:
        """Iterate over all transactions as of now."""
        unread = tuple(self._unread)
        yield from tuple(self._transactions.values())
        for key in unread:
            found = self._read(key)
            if found is not None:
                yield found

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id, None for an unknown id."""
        found = self._transactions.get(transactional_id)
        if found is None and self._unread:
            return self._read(TransactionChange(transactional_id, None).to_record().key)
        return found

    def put(self, transaction: Transaction) -> None:
        """Set the transaction of its transactional id."""
        transactional_id = transaction.transactional_id
        self._unindex(self._transactions.get(transactional_id))
        self._transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self._ongoing[transaction.producer_id] = Held(self._number, transaction)
        elif transaction.state in PREPARED:
            self._prepared[transactional_id] = self._number

    def remove(self, transactional_id: str) -> None:
        """Remove a transactional id."""
        self._unindex(self._transactions.pop(transactional_id, None))

    def clear(self) -> None:
        """Remove all transactional ids."""
        self._unread.clear()
        for transactional_id in tuple(self._transactions):
            self.remove(transactional_id)

    def load(self, key: bytes, value: bytes | None) -> None:
        """Apply a record that is read back, without decoding it."""
        if value is None:
            self._unread.pop(key, None)
        else:
            self._unread[key] = value

    def end_loading(self) -> None:
        """Decode what is open or decided; the partition was read to its end."""
        for key, value in tuple(self._unread.items()):
            if len(value) <= STATUS_AT or value[STATUS_AT] in _NEEDED_AT_ONCE:
                self._read(key)

    def _read(self, key: bytes) -> Transaction | None:
        """Decode what was loaded. What is malformed or newer than this broker is logged and left out."""
        value = self._unread.pop(key, None)
        if value is None:
            return None
        try:
            transaction = TransactionChange.from_record(key, value).transaction
        except UnreadableRecord as error:
            _log.error(
                "a record of __transaction_state-%d cannot be read and is left out (key %s): %s",
                self._number,
                key[:_SHOWN_BYTES].hex(),
                error,
            )
            return None
        if transaction is not None:
            self.put(transaction)
        return transaction

    def _unindex(self, transaction: Transaction | None) -> None:
        if transaction is None:
            return
        if transaction.state is ONGOING:
            self._ongoing.pop(transaction.producer_id, None)
        elif transaction.state in PREPARED:
            self._prepared.pop(transaction.transactional_id, None)
