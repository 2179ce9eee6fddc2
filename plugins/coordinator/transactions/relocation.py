"""Relocation of transactional ids that are in the wrong partition of `__transaction_state`.

Both partitions may have the id, with different producers, since a directory that changed hands was written by
brokers that look in different places. The newer one counts, by the timestamp of the record, except that one
whose transaction is open or decided stays where it belongs. One that is superseded though its transaction is
open or decided is completed first: an open transaction is aborted, a decided one gets its markers. Otherwise
it would hold up read-committed consumers for ever.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.log.durable_change import UnreadableRecord
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.log.relocation import Copies, Move
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.changes import TYPE, TransactionChange
from tidelog.plugins.coordinator.transactions.states import AT_REST, ONGOING, PREPARE_COMMIT
from tidelog.plugins.coordinator.transactions.table import Held

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.coordinator.transactions.context import TransactionContext
    from tidelog.plugins.coordinator.transactions.markers import Markers
    from tidelog.plugins.coordinator.transactions.state_manager import TransactionStateManager
    from tidelog.plugins.coordinator.transactions.transaction import Transaction

_log = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """The outcome of a producer's transaction."""

    OPEN = enum.auto()
    COMMITTED = enum.auto()
    ABORTED = enum.auto()
    """It was decided so, or no transaction has that producer: nothing will ever commit it."""
    UNKNOWN = enum.auto()
    """Not everything could be read, or its markers decide."""


class UnfinishedTransactions(Protocol):
    """The outcomes of transactions, for moving the offsets that are pending in them."""

    async def outcome(self, producer_id: int, place: TopicPartition) -> Outcome:
        """Return the outcome of a producer's transaction; if open, it includes `place` from then on, durably.

        Waits until all transactions are loaded.
        """
        ...


class SupersededTransactions:
    """Open or decided transactions of ids that have another producer by now, by producer id.

    They are in the log and not in the table, until they are completed and their records removed.
    """

    def __init__(self, state: TransactionStateManager, markers: Markers, context: TransactionContext) -> None:
        self._state = state
        self._markers = markers
        self._context = context
        self._held: dict[int, Held] = {}
        state.on_forget(self._forget)

    def add(self, held: Held) -> None:
        """Add a transaction to be completed; one that is open is aborted."""
        transaction = held.transaction
        if transaction.state is ONGOING:
            transaction = machine.fence(transaction, self._context.clock())
        self._held[transaction.producer_id] = Held(held.partition, transaction)

    async def complete(self) -> None:
        """Write the markers that are missing; what fails is tried again by the next call."""
        for producer_id, (partition, transaction) in tuple(self._held.items()):
            end = transaction.end_marker(self._context.coordinator_epoch(partition))
            unmarked = await self._markers.write(end, transaction.partitions)
            if unmarked:
                self._held[producer_id] = Held(partition, attrs.evolve(transaction, partitions=unmarked))
                continue
            name = transaction.transactional_id
            try:
                self._state.log.append(partition, (TransactionChange(name, None).to_record(),))
            except BrokerError as error:
                _log.warning("an earlier transaction of %r is not removed yet: %s", name, error)
            else:
                del self._held[producer_id]

    async def outcome(self, producer_id: int, place: TopicPartition) -> Outcome:
        """Return the outcome of a producer's transaction; if open, it includes `place` from then on, durably.

        Raises:
            BrokerError: an open transaction could not be made to include `place`.
        """
        if not await self._state.log.wait_loaded() or producer_id in self._held:
            return Outcome.UNKNOWN
        held = self._state.table.unfinished(producer_id)
        if held is None:
            return Outcome.ABORTED
        partition, transaction = held
        if transaction.state is ONGOING and place not in transaction.partitions:
            added = attrs.evolve(transaction, partitions=transaction.partitions | {place})
            await self._state.record(partition, added)
        # What is done next must not be on disk before the reason for it is.
        await self._state.log.flush(partition)
        if transaction.state is ONGOING:
            return Outcome.OPEN
        return Outcome.COMMITTED if transaction.state is PREPARE_COMMIT else Outcome.ABORTED

    def _forget(self, partition: int) -> None:
        self._held = {key: held for key, held in self._held.items() if held.partition != partition}


class TransactionRelocation:
    """The `RelocationPolicy` of `__transaction_state`; `supersede` is called with what is completed first."""

    key_types = frozenset((TYPE,))

    def __init__(self, partition_for: Callable[[str], int], supersede: Callable[[Held], None]) -> None:
        self._partition_for = partition_for
        self._supersede = supersede

    def partition_for(self, name: str) -> int:
        """Return the partition where that transactional id belongs."""
        return self._partition_for(name)

    async def plan(self, source: int, found: LogImage, target: int, there: LogImage) -> Move:
        """Decide for each id in `source` whether it is moved, removed, or completed first."""
        copies: list[Copies] = []
        removed: list[bytes] = []
        for key, entry, value in found.live():
            rival = there.entries.get(key)
            ours = _decoded(key, value)
            theirs = None if rival is None else _decoded(key, rival.value)
            is_newer = rival is None or rival.timestamp_ms <= entry.timestamp_ms
            if is_newer and not _must_stay(theirs, ours):
                copies.append(Copies(entry.timestamp_ms, [StateRecord(key, value)]))
                removed.append(key)
            elif _is_at_rest(ours) or _same_producer(ours, theirs):
                removed.append(key)
            elif ours is not None:
                self._supersede(Held(source, ours))
        return Move(copies, removed)


def _decoded(key: bytes, value: bytes | None) -> Transaction | None:
    try:
        return TransactionChange.from_record(key, value).transaction
    except UnreadableRecord:
        return None


def _is_at_rest(transaction: Transaction | None) -> bool:
    return transaction is None or transaction.state in AT_REST


def _same_producer(one: Transaction | None, other: Transaction | None) -> bool:
    return one is not None and other is not None and one.producer_id == other.producer_id


def _must_stay(theirs: Transaction | None, ours: Transaction | None) -> bool:
    return not _is_at_rest(theirs) and not _same_producer(ours, theirs)
