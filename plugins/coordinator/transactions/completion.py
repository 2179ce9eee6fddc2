"""Completion of decided transactions: markers in all partitions, then the record of the completed state."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.transactions import EPOCH_PER_TRANSACTION
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.records import TransactionChange
from tidelog.plugins.coordinator.transactions.states import PREPARED
from tidelog.plugins.coordinator.transactions.transaction import NO_PRODUCER_ID, Transaction

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
    from tidelog.plugins.coordinator.transactions.markers import Markers
    from tidelog.plugins.coordinator.transactions.settings import TransactionSettings
    from tidelog.plugins.coordinator.transactions.table import TransactionTable

_log = logging.getLogger(__name__)


class TransactionCompletion:
    """Completes decided transactions; what fails is left for the next `complete_prepared`."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        table: TransactionTable,
        markers: Markers,
        settings: TransactionSettings,
    ) -> None:
        self._runtime = runtime
        self._table = table
        self._markers = markers
        self._settings = settings
        self._completing: set[str] = set()
        self._unmarked: dict[str, frozenset[TopicPartition]] = {}

    async def record(self, partition: int, transaction: Transaction) -> None:
        """Append and apply the new state of a transaction; raises as `CoordinatorRuntime.commit`."""
        changes = [TransactionChange.to(transaction)]
        await self._runtime.commit(partition, self._table.partition(partition), changes)

    async def decide(self, partition: int, decided: Transaction) -> None:
        """Record a decision and carry it out; raises as `record`."""
        await self.record(partition, decided)
        await self.complete(partition, decided.transactional_id)

    async def fence(self, partition: int, transaction: Transaction) -> None:
        """Abort an open transaction unless it has changed meanwhile, and fence its producer.

        Raises:
            BrokerError: the decision could not be written.
        """
        new_id = NO_PRODUCER_ID
        if machine.end_needs_producer_id(transaction, EPOCH_PER_TRANSACTION):
            new_id = await self._settings.allocate()
        if self._table.get(partition, transaction.transactional_id) is not transaction:
            return
        await self.decide(partition, machine.fence(transaction, self._runtime.clock(), new_id))

    async def complete(self, partition: int, transactional_id: str) -> None:
        """Write the markers of a decision, and then that they are written."""
        if transactional_id in self._completing:
            return
        self._completing.add(transactional_id)
        try:
            await self._write_markers(partition, transactional_id)
        except BrokerError as error:
            _log.warning("a transaction of %r is not completed yet: %s", transactional_id, error)
        finally:
            self._completing.discard(transactional_id)

    async def complete_prepared(self) -> None:
        """Complete all decisions: after a crash, or where a partition refused its marker."""
        for transactional_id, partition in tuple(self._table.prepared.items()):
            await self.complete(partition, transactional_id)

    async def _write_markers(self, partition: int, transactional_id: str) -> None:
        decided = self._table.get(partition, transactional_id)
        if decided is None or decided.state not in PREPARED:
            return
        partitions = self._unmarked.pop(transactional_id, decided.partitions)
        end = decided.end_marker(self._settings.coordinator_epoch(partition))
        unmarked = await self._markers.write(end, partitions)
        if unmarked:
            self._unmarked[transactional_id] = unmarked
            return
        if self._table.get(partition, transactional_id) is decided:
            await self.record(partition, machine.complete(decided, self._runtime.clock()))
