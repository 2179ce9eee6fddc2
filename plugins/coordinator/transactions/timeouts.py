"""Transactions that are open for too long, transactional ids that expire, and the tasks that find them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.records import TransactionChange

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
    from tidelog.plugins.coordinator.transactions.completion import TransactionCompletion
    from tidelog.plugins.coordinator.transactions.table import TransactionTable

_log = logging.getLogger(__name__)

TOMBSTONES_PER_BATCH: Final = 1000
CHECKED_PER_SLICE: Final = 200
"""Transactional ids that are checked before other tasks run."""


class TransactionTimeouts:
    """Aborts open transactions after their timeout, and removes transactional ids that are not used."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        table: TransactionTable,
        completion: TransactionCompletion,
        id_expiration_ms: int,
    ) -> None:
        """`id_expiration_ms` is `transactional.id.expiration.ms`."""
        self._runtime = runtime
        self._table = table
        self._completion = completion
        self._id_expiration_ms = id_expiration_ms

    async def abort_overdue(self) -> None:
        """Abort what is open for longer than its producer's transaction timeout."""
        now_ms, pace = self._runtime.clock(), Pace()
        for partition, transaction in tuple(self._table.ongoing.values()):
            await pace.turn()
            if machine.is_overdue(transaction, now_ms):
                try:
                    await self._completion.fence(partition, transaction)
                except BrokerError as error:
                    _log.warning("%r is not aborted: %s", transaction.transactional_id, error)
                else:
                    _log.info(
                        "aborted a transaction of %r that was open for longer than %d ms",
                        transaction.transactional_id,
                        transaction.timeout_ms,
                    )

    async def remove_expired(self) -> None:
        """Remove transactional ids that were not used for `transactional.id.expiration.ms`."""
        now_ms, expired = self._runtime.clock(), dict[int, list[str]]()
        for count, (partition, transaction) in enumerate(self._table, 1):
            if machine.is_expired(transaction, now_ms, self._id_expiration_ms):
                expired.setdefault(partition, []).append(transaction.transactional_id)
            if count % CHECKED_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
        for partition, ids in expired.items():
            for start in range(0, len(ids), TOMBSTONES_PER_BATCH):
                try:
                    await self._remove(partition, ids[start : start + TOMBSTONES_PER_BATCH])
                except BrokerError as error:
                    _log.warning("expired transactional ids are not removed yet: %s", error)
                    break

    async def _remove(self, partition: int, transactional_ids: Sequence[str]) -> None:
        now_ms, transactions = self._runtime.clock(), self._table.partition(partition)
        known = [transactions.get(name) for name in transactional_ids]
        expired = [
            transaction.transactional_id
            for transaction in known
            if transaction is not None and machine.is_expired(transaction, now_ms, self._id_expiration_ms)
        ]
        if expired:
            changes = [TransactionChange(name, None) for name in expired]
            await self._runtime.commit(partition, transactions, changes)
