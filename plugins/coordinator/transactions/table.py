"""The transactions in memory, as the log tells them: by partition of the log and transactional id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARED
from tidelog.plugins.coordinator.transactions.transaction import Transaction


class Held(NamedTuple):
    """A transaction and the partition of the log that it is in."""

    partition: int
    transaction: Transaction


class TransactionTable:
    """All transactional ids, with the open transactions at hand by producer id and the decided ones by name.

    A producer id has at most one open transaction, since an id belongs to one transactional id.
    """

    def __init__(self) -> None:
        self.ongoing: dict[int, Held] = {}
        self.prepared: dict[str, int] = {}
        self._partitions: dict[int, dict[str, Transaction]] = {}

    def __iter__(self) -> Iterator[Held]:
        for partition, transactions in tuple(self._partitions.items()):
            for transaction in tuple(transactions.values()):
                yield Held(partition, transaction)

    def get(self, partition: int, transactional_id: str) -> Transaction | None:
        """The transaction of an id, None for an unknown one."""
        return self._partitions.get(partition, {}).get(transactional_id)

    def put(self, partition: int, transaction: Transaction) -> None:
        """What is in the log from now on."""
        transactional_id = transaction.transactional_id
        transactions = self._partitions.setdefault(partition, {})
        self._let_go(transactions.get(transactional_id))
        transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self.ongoing[transaction.producer_id] = Held(partition, transaction)
        elif transaction.state in PREPARED:
            self.prepared[transactional_id] = partition

    def remove(self, partition: int, transactional_id: str) -> None:
        """The id is forgotten."""
        self._let_go(self._partitions.get(partition, {}).pop(transactional_id, None))

    def forget(self, partition: int) -> None:
        """The log's partition is gone with all that it told."""
        for transaction in self._partitions.pop(partition, {}).values():
            self._let_go(transaction)

    def _let_go(self, transaction: Transaction | None) -> None:
        if transaction is None:
            return
        if transaction.state is ONGOING:
            self.ongoing.pop(transaction.producer_id, None)
        elif transaction.state in PREPARED:
            self.prepared.pop(transaction.transactional_id, None)
