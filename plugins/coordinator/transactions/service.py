"""The driver: asks the machine, appends what it decides, applies that to memory, then answers.

Nothing waits between the look at what is known and the append that follows from it, so requests need no lock.
Markers are written as soon as the decision is in the log and before the client is answered, so that a
producer normally finds its next transaction free; what could not be written is tried again until it is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidelog.kernel.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTransactionTimeout,
    TransactionalIdNotFound,
)
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    EndOfTransaction,
    ProducerIdentity,
    TransactionDescription,
    TransactionFilter,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.log import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.records.transactions import (
    encode_key,
    encode_value,
)
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.listing import matcher
from tidelog.plugins.coordinator.transactions.markers import OFFSETS_TOPIC
from tidelog.plugins.coordinator.transactions.orphans import Orphans
from tidelog.plugins.coordinator.transactions.relocation import TransactionRelocation
from tidelog.plugins.coordinator.transactions.states import ONGOING, PREPARE_COMMIT, PREPARED
from tidelog.plugins.coordinator.transactions.table import TransactionTable
from tidelog.plugins.coordinator.transactions.transaction import NO_PRODUCER_ID, Transaction
from tidelog.plugins.coordinator.transactions.unfinished import Outcome

if TYPE_CHECKING:
    from tidelog.kernel.clock import Clock
    from tidelog.plugins.coordinator.log import StateLog
    from tidelog.plugins.coordinator.transactions.markers import Markers

_log = logging.getLogger(__name__)

TOMBSTONES_PER_BATCH: Final = 1000
LOOKED_AT_PER_SLICE: Final = 200
"""Transactional ids that are gone through before others get their turn."""


@attrs.frozen
class TransactionSettings:
    """What the configuration says; times in milliseconds."""

    max_timeout_ms: int
    id_expiration_ms: int
    verifies_partitions: bool = True


@attrs.frozen
class Surroundings:
    """What the driver needs of the broker.

    `allocate` gives a producer id that nobody ever had; the others map a transactional id or a group to the
    partition that its state is in, and a partition of the transaction log to its leader epoch.
    """

    clock: Clock
    allocate: Callable[[], Awaitable[int]]
    partition_for: Callable[[str], int]
    partition_for_group: Callable[[str], int]
    coordinator_epoch: Callable[[int], int]


class Transactions:
    """All transactions of the broker; see `TransactionService` for what requests may raise."""

    def __init__(
        self, log: StateLog, markers: Markers, surroundings: Surroundings, settings: TransactionSettings
    ) -> None:
        self.table = TransactionTable()
        self._log = log
        self._markers = markers
        self._around = surroundings
        self._settings = settings
        self._completing: set[str] = set()
        self._unmarked: dict[str, frozenset[TopicPartition]] = {}
        self._orphans = Orphans(log, markers, surroundings.clock, surroundings.coordinator_epoch)

    def open(self) -> None:
        """Begin to read back the log; what is found decided is completed by `complete_prepared`."""
        self._log.open(self, TransactionRelocation(self._around.partition_for, self._orphans.add))

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, current: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        """See `TransactionService`."""
        partition = self._partition(transactional_id)
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction timeout of {timeout_ms} ms is not in 1 to {self._settings.max_timeout_ms} "
                "(transaction.max.timeout.ms)"
            )
        new_id = NO_PRODUCER_ID
        while True:
            known = self._known(partition, transactional_id)
            if new_id == NO_PRODUCER_ID and machine.init_needs_producer_id(known, current):
                new_id = await self._around.allocate()
                continue
            now_ms = self._around.clock()
            if known is None:
                begun = machine.first(transactional_id, new_id, timeout_ms, now_ms)
            else:
                begun = machine.init(known, timeout_ms, current, now_ms, new_id)
            if begun.state is not ONGOING:
                await self._record(partition, begun)
                return begun.producer
            await self._fence(partition, begun)

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """See `TransactionService`."""
        partition = self._partition(transactional_id)
        known = self._known(partition, transactional_id)
        added = machine.add(known, producer, partitions, version, self._around.clock())
        if added is not None:
            await self._record(partition, added)

    async def add_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        group_id: str,
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """See `TransactionService`."""
        await self.add_partitions(transactional_id, producer, (self._offsets_of(group_id),), version=version)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, BrokerError | None]:
        """See `TransactionService`."""
        partition = self._partition(transactional_id)
        return machine.verify(self._known(partition, transactional_id), producer, partitions)

    def verify_offsets(self, transactional_id: str, producer: ProducerIdentity, group_id: str) -> None:
        """See `TransactionService`."""
        if not self._settings.verifies_partitions:
            return
        place = self._offsets_of(group_id)
        error = self.verify_partitions(transactional_id, producer, (place,))[place]
        if error is not None:
            raise error

    def vouches_for(self, producer_id: int, epoch: int, partition: TopicPartition) -> bool:
        """See `TransactionService`."""
        if not self._settings.verifies_partitions:
            return True
        held = self.table.ongoing.get(producer_id)
        if held is None:
            return False
        # While the log is read back, what counts as open may already have been ended further on in it.
        self._log.check_active(held.partition)
        return held.transaction.producer_epoch == epoch and partition in held.transaction.partitions

    async def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        *,
        commit: bool,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> ProducerIdentity:
        """See `TransactionService`."""
        partition = self._partition(transactional_id)
        known = self._known(partition, transactional_id)
        new_id = NO_PRODUCER_ID
        if machine.end_needs_producer_id(known, version):
            new_id = await self._around.allocate()
            known = self._known(partition, transactional_id)
        decided = machine.end(
            known,
            producer,
            commit=commit,
            version=version,
            now_ms=self._around.clock(),
            new_producer_id=new_id,
        )
        if decided is None:
            return producer if known is None else known.producer
        await self._record(partition, decided)
        await self._complete(partition, decided.transactional_id)
        return machine.complete(decided, self._around.clock()).producer

    async def write_marker(self, partition: TopicPartition, end: EndOfTransaction) -> None:
        """See `TransactionService`."""
        await self._markers.write_one(partition, end)

    def describe(self, transactional_id: str) -> TransactionDescription:
        """See `TransactionService`."""
        known = self._known(self._partition(transactional_id), transactional_id)
        if known is None:
            raise TransactionalIdNotFound(f"no transactional id {transactional_id!r} is known here")
        return known.describe()

    async def list(self, wanted: TransactionFilter) -> Sequence[TransactionDescription]:
        """See `TransactionService`."""
        for partition in range(self._log.partition_count):
            self._log.check_active(partition)
        matches, found = matcher(wanted, self._around.clock()), list[TransactionDescription]()
        for count, (_, transaction) in enumerate(self.table, 1):
            if matches(transaction):
                found.append(transaction.describe())
            if count % LOOKED_AT_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
        return found

    async def abort_overdue(self) -> None:
        """Abort what is open for longer than its producer's transaction timeout."""
        now_ms = self._around.clock()
        for partition, transaction in tuple(self.table.ongoing.values()):
            if machine.is_overdue(transaction, now_ms):
                try:
                    await self._fence(partition, transaction)
                except BrokerError as error:
                    _log.warning("%r is not aborted: %s", transaction.transactional_id, error)
                else:
                    _log.info(
                        "aborted a transaction of %r that was open for longer than %d ms",
                        transaction.transactional_id,
                        transaction.timeout_ms,
                    )

    async def complete_prepared(self) -> None:
        """Write what is missing of decisions: markers after a crash, or where a partition refused them."""
        for transactional_id, partition in tuple(self.table.prepared.items()):
            await self._complete(partition, transactional_id)
        await self._orphans.complete()

    async def outcome(self, producer_id: int, place: TopicPartition) -> Outcome:
        """See `UnfinishedTransactions`.

        Raises:
            BrokerError: an open transaction could not be made to include `place`.
        """
        if not await self._log.wait_loaded() or producer_id in self._orphans:
            return Outcome.UNKNOWN
        held = self.table.unfinished(producer_id)
        if held is None:
            return Outcome.ABORTED
        partition, transaction = held
        if transaction.state is ONGOING and place not in transaction.partitions:
            added = attrs.evolve(transaction, partitions=transaction.partitions | {place})
            await self._record(partition, added)
        # What is done next must not be on disk before the reason for it is.
        await self._log.flush(partition)
        if transaction.state is ONGOING:
            return Outcome.OPEN
        return Outcome.COMMITTED if transaction.state is PREPARE_COMMIT else Outcome.ABORTED

    async def remove_expired(self) -> None:
        """Forget transactional ids that were not used for `transactional.id.expiration.ms`."""
        now_ms, expiration_ms = self._around.clock(), self._settings.id_expiration_ms
        expired: dict[int, list[str]] = {}
        for count, (partition, transaction) in enumerate(self.table, 1):
            if machine.is_expired(transaction, now_ms, expiration_ms):
                expired.setdefault(partition, []).append(transaction.transactional_id)
            if count % LOOKED_AT_PER_SLICE == 0:
                await trio.lowlevel.checkpoint()
        for partition, ids in expired.items():
            for start in range(0, len(ids), TOMBSTONES_PER_BATCH):
                try:
                    await self._remove(partition, ids[start : start + TOMBSTONES_PER_BATCH])
                except BrokerError as error:
                    _log.warning("expired transactional ids are not forgotten yet: %s", error)
                    break

    def replay(self, partition: int, batch: LoadedBatch) -> None:
        """See `LogReader`."""
        for key, value in batch.records:
            self.table.load(partition, key, value)

    def settle(self, partition: int) -> Iterator[None]:
        """See `LogReader`; transactions are ready as they are read."""
        return iter(())

    def loaded(self, partition: int) -> None:
        """See `LogReader`; what was found decided is completed soon (`complete_prepared`)."""
        self.table.loaded(partition)

    def forget(self, partition: int) -> None:
        """See `LogReader`."""
        self.table.forget(partition)
        self._orphans.forget(partition)

    def _partition(self, transactional_id: str) -> int:
        if not transactional_id:
            raise InvalidRequest("an empty transactional id is not one")
        return self._around.partition_for(transactional_id)

    def _known(self, partition: int, transactional_id: str) -> Transaction | None:
        self._log.check_active(partition)
        return self.table.get(partition, transactional_id)

    def _offsets_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self._around.partition_for_group(group_id))

    async def _record(self, partition: int, transaction: Transaction) -> None:
        record = StateRecord(encode_key(transaction.transactional_id), encode_value(transaction))
        result = self._log.append(partition, (record,))
        self.table.put(partition, transaction)
        await self._log.committed(partition, result)

    async def _fence(self, partition: int, transaction: Transaction) -> None:
        """Abort `transaction` unless it has changed meanwhile, and shut its producer out."""
        new_id = NO_PRODUCER_ID
        if machine.end_needs_producer_id(transaction, EPOCH_PER_TRANSACTION):
            new_id = await self._around.allocate()
        if self._known(partition, transaction.transactional_id) is not transaction:
            return
        await self._record(partition, machine.fence(transaction, self._around.clock(), new_id))
        await self._complete(partition, transaction.transactional_id)

    async def _complete(self, partition: int, transactional_id: str) -> None:
        """Write markers, then that they are written; whatever fails is left to `complete_prepared`."""
        if transactional_id in self._completing:
            return
        self._completing.add(transactional_id)
        try:
            await self._write_markers(partition, transactional_id)
        except BrokerError as error:
            _log.warning("a transaction of %r is not completed yet: %s", transactional_id, error)
        finally:
            self._completing.discard(transactional_id)

    async def _write_markers(self, partition: int, transactional_id: str) -> None:
        decided = self._known(partition, transactional_id)
        if decided is None or decided.state not in PREPARED:
            return
        partitions = self._unmarked.pop(transactional_id, decided.partitions)
        end = EndOfTransaction(
            decided.producer,
            decided.state is PREPARE_COMMIT,
            self._around.coordinator_epoch(partition),
            decided.client_version,
        )
        unmarked = await self._markers.write(end, partitions)
        if unmarked:
            self._unmarked[transactional_id] = unmarked
            return
        if self._known(partition, transactional_id) is decided:
            await self._record(partition, machine.complete(decided, self._around.clock()))

    async def _remove(self, partition: int, transactional_ids: Sequence[str]) -> None:
        now_ms, expiration_ms = self._around.clock(), self._settings.id_expiration_ms
        known = [self.table.get(partition, name) for name in transactional_ids]
        gone = [
            transaction.transactional_id
            for transaction in known
            if transaction is not None and machine.is_expired(transaction, now_ms, expiration_ms)
        ]
        if not gone:
            return
        result = self._log.append(partition, [StateRecord(encode_key(name), None) for name in gone])
        for name in gone:
            self.table.remove(partition, name)
        await self._log.committed(partition, result)
