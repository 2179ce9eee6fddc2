"""Transactions of ids that have another producer by now, to be completed before they are forgotten."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.transactions import EndOfTransaction
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.records.transactions import encode_key
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARE_COMMIT
from tidelog.plugins.coordinator.transactions.table import Held

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.plugins.coordinator.log import StateLog
    from tidelog.plugins.coordinator.transactions.markers import Markers

_log = logging.getLogger(__name__)


class Orphans:
    """By producer id. What is open is aborted, what is decided is carried out; then its record goes."""

    def __init__(
        self, log: StateLog, markers: Markers, clock: Clock, coordinator_epoch: Callable[[int], int]
    ) -> None:
        self._log = log
        self._markers = markers
        self._clock = clock
        self._coordinator_epoch = coordinator_epoch
        self._held: dict[int, Held] = {}

    def add(self, held: Held) -> None:
        """Complete a transaction that is in the log and not in the table."""
        transaction = held.transaction
        if transaction.state is ONGOING:
            transaction = machine.fence(transaction, self._clock())
        self._held[transaction.producer_id] = Held(held.partition, transaction)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._held

    async def complete(self) -> None:
        """Write the markers that are missing; what fails is tried again by the next call."""
        for producer_id, (partition, transaction) in tuple(self._held.items()):
            end = EndOfTransaction(
                transaction.producer,
                transaction.state is PREPARE_COMMIT,
                self._coordinator_epoch(partition),
                transaction.client_version,
            )
            unmarked = await self._markers.write(end, transaction.partitions)
            if unmarked:
                self._held[producer_id] = Held(partition, attrs.evolve(transaction, partitions=unmarked))
                continue
            name = transaction.transactional_id
            try:
                self._log.append(partition, (StateRecord(encode_key(name), None),))
            except BrokerError as error:
                _log.warning("an earlier transaction of %r is not forgotten yet: %s", name, error)
            else:
                del self._held[producer_id]

    def forget(self, partition: int) -> None:
        """The log's partition is gone with all that it told."""
        self._held = {key: held for key, held in self._held.items() if held.partition != partition}
