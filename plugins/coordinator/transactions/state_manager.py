"""The transactions of all ids, in the log and as the log has them in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.errors import InvalidRequest
from tidelog.kernel.pace import ITEMS_PER_STEP
from tidelog.plugins.coordinator.transactions.records import TransactionChange
from tidelog.plugins.coordinator.transactions.table import TransactionTable

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.runtime import LoadedBatch, StateLog
    from tidelog.plugins.coordinator.transactions.transaction import Transaction


class TransactionStateManager:
    """Appends changes of transactions to the log and applies them; `LogReader` of `__transaction_state`.

    Between `get` and `record` there must be no checkpoint: then requests need no lock.
    """

    def __init__(self, log: StateLog, partition_for: Callable[[str], int]) -> None:
        """`partition_for` returns the partition of the log that a transactional id is in."""
        self.table = TransactionTable()
        self.log = log
        self.partition_for = partition_for

    def open(self) -> None:
        """Start loading the log."""
        self.log.open(self)

    def locate(self, transactional_id: str) -> int:
        """Return the partition of a transactional id.

        Raises:
            InvalidRequest: the id is empty.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        return self.partition_for(transactional_id)

    def get(self, partition: int, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id, None for an unknown id.

        Raises:
            CoordinatorLoadInProgress, NotCoordinator: the partition is not active.
        """
        self.log.check_active(partition)
        return self.table.partition(partition).get(transactional_id)

    async def record(self, partition: int, transaction: Transaction) -> None:
        """Append and apply the new state of a transaction, at once, then wait until it may be acknowledged.

        Raises:
            BrokerError: the log refused it, and nothing has changed; or it could not be flushed.
        """
        await self._write(partition, (TransactionChange.to(transaction),))

    async def remove(self, partition: int, transactional_ids: Sequence[str]) -> None:
        """Remove transactional ids; raises as `record`."""
        await self._write(partition, [TransactionChange(name, None) for name in transactional_ids])

    def replay(self, partition: int, batch: LoadedBatch) -> Generator[None, None, None]:
        """Apply the next batch of a partition that is read back."""
        load = self.table.partition(partition).load
        for index, (key, value) in enumerate(batch.records):
            load(key, value)
            if not index % ITEMS_PER_STEP:
                yield

    def settle(self, partition: int) -> Generator[None, None, None]:
        """Do nothing: transactions need no steps before they are active."""
        yield

    def loaded(self, partition: int) -> None:
        """Decode what is open or decided in a partition that is active from now on."""
        self.table.partition(partition).end_loading()

    def forget(self, partition: int) -> None:
        """Drop the transactions of a partition that was deleted."""
        self.table.forget(partition)

    async def _write(self, partition: int, changes: Sequence[TransactionChange]) -> None:
        result = self.log.append(partition, [change.to_record() for change in changes])
        transactions = self.table.partition(partition)
        for change in changes:
            change.apply(transactions)
        await self.log.committed(partition, result)
