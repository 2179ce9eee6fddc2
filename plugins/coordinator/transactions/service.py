"""The `TransactionService`: the machine decides, the decision is appended, applied, and then carried out.

Between reading the state and the append that follows there is no checkpoint, so requests need no lock.
Markers are written as soon as the decision is in the log and before the client is answered, so that a
producer can usually begin its next transaction at once; what could not be written is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotCoordinator,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from tidelog.kernel.importing import import_in_thread
from tidelog.kernel.pace import Pace
from tidelog.kernel.regex_matching import matching
from tidelog.kernel.regexes import compile_regex
from tidelog.kernel.seams.coordination.transactions import (
    FIRST_TRANSACTION_VERSION,
    EndOfTransaction,
    ProducerIdentity,
    TransactionDescription,
    TransactionFilter,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.coordinator.runtime.topic_log import OFFSETS_TOPIC
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.completion import TransactionCompletion
from tidelog.plugins.coordinator.transactions.states import ONGOING
from tidelog.plugins.coordinator.transactions.table import TransactionTable
from tidelog.plugins.coordinator.transactions.timeouts import TransactionTimeouts
from tidelog.plugins.coordinator.transactions.transaction import (
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
)

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
    from tidelog.plugins.coordinator.transactions.markers import Markers
    from tidelog.plugins.coordinator.transactions.settings import TransactionSettings


class Transactions:
    """All transactions of the broker; see `TransactionService` for what requests may raise."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        markers: Markers,
        settings: TransactionSettings,
        partition_for_group: Callable[[str], int],
    ) -> None:
        """`partition_for_group` returns the partition with the offsets of a group."""
        self.table = TransactionTable(runtime.log.check_active)
        self.completion = TransactionCompletion(runtime, self.table, markers, settings)
        self.timeouts = TransactionTimeouts(runtime, self.table, self.completion, settings.id_expiration_ms)
        self._runtime = runtime
        self._markers = markers
        self._settings = settings
        self._partition_for_group = partition_for_group

    def open(self) -> None:
        """Start loading the log; decisions that are found are carried out by `complete`."""
        self._runtime.open(self.table)

    async def complete(self) -> None:
        """Carry out all decisions that were not: after a crash, or where a partition refused its marker."""
        await self.completion.complete_prepared()

    async def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        current: ProducerIdentity | None = None,
        *,
        two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> ProducerIdentity:
        """Return the next identity of a producer; what an earlier instance left open is aborted."""
        partition = self._locate(transactional_id)
        if two_phase_commit:
            self._check_two_phase_commit(transactional_id)
            timeout_ms = NO_TIMEOUT_MS
        if keep_prepared:
            raise UnsupportedVersion(
                "a transaction that was left open cannot be kept, only aborted, as in Apache Kafka 4.4"
            )
        if not two_phase_commit and not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction timeout of {timeout_ms} ms is not in 1 to {self._settings.max_timeout_ms} "
                "(transaction.max.timeout.ms)"
            )
        new_id = NO_PRODUCER_ID
        while True:
            known = self.table.get(partition, transactional_id)
            if new_id == NO_PRODUCER_ID and machine.init_needs_producer_id(known, current):
                new_id = await self._settings.allocate()
                continue
            now_ms = self._runtime.clock()
            if known is None:
                begun = machine.first(transactional_id, new_id, timeout_ms, now_ms)
            else:
                begun = machine.init(known, timeout_ms, current, now_ms, new_id)
            if begun.state is not ONGOING:
                await self.completion.record(partition, begun)
                return begun.producer
            await self.completion.fence(partition, begun)

    def _locate(self, transactional_id: str) -> int:
        """Return the partition of a transactional id.

        Raises:
            InvalidRequest: the id is empty.
        """
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        return self._runtime.partition_for(transactional_id)

    def _check_two_phase_commit(self, transactional_id: str) -> None:
        if not self._settings.permits_two_phase_commit:
            raise TransactionalIdAuthorizationFailed(
                f"{transactional_id!r} may not take part in two-phase commits; set "
                "transaction.two.phase.commit.enable=true on the broker"
            )

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """Add partitions to the producer's transaction, which begins with that if none is open."""
        partition = self._locate(transactional_id)
        known = self.table.get(partition, transactional_id)
        added = machine.add(known, producer, partitions, version, self._runtime.clock())
        if added is not None:
            await self.completion.record(partition, added)

    async def add_offsets(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        group_id: str,
        *,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> None:
        """Add the partition of a group's offsets to the producer's transaction."""
        await self.add_partitions(transactional_id, producer, (self._offsets_of(group_id),), version=version)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, BrokerError | None]:
        """Return for each partition why the producer's transaction does not include it, None if it does."""
        known = self.table.get(self._locate(transactional_id), transactional_id)
        return machine.verify(known, producer, partitions)

    def verify_offsets(self, transactional_id: str, producer: ProducerIdentity, group_id: str) -> None:
        """Check that the producer's transaction includes a group's offsets."""
        if not self._settings.verifies_partitions():
            return
        place = self._offsets_of(group_id)
        error = self.verify_partitions(transactional_id, producer, (place,))[place]
        if error is not None:
            raise error

    def includes_partition(self, producer_id: int, epoch: int, partition: TopicPartition) -> bool:
        """Return whether the producer's open transaction includes that partition."""
        if not self._settings.verifies_partitions():
            return True
        held = self.table.ongoing.get(producer_id)
        if held is None:
            return False
        # While the log is loaded, what counts as open may already have ended further on in it.
        self._runtime.log.check_active(held.partition)
        return held.transaction.producer_epoch == epoch and partition in held.transaction.partitions

    async def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        *,
        commit: bool,
        version: int = FIRST_TRANSACTION_VERSION,
    ) -> ProducerIdentity:
        """Commit or abort; return the identity of the producer's next transaction."""
        partition = self._locate(transactional_id)
        known = self.table.get(partition, transactional_id)
        new_id = NO_PRODUCER_ID
        if machine.end_needs_producer_id(known, version):
            new_id = await self._settings.allocate()
            known = self.table.get(partition, transactional_id)
        decided = machine.end(
            known,
            producer,
            commit=commit,
            version=version,
            now_ms=self._runtime.clock(),
            new_producer_id=new_id,
        )
        if decided is None:
            return producer if known is None else known.producer
        await self.completion.decide(partition, decided)
        return machine.complete(decided, self._runtime.clock()).producer

    async def write_marker(self, partition: TopicPartition, end: EndOfTransaction) -> None:
        """End a producer's transaction in one partition, whatever its coordinator has decided."""
        await self._markers.write_one(partition, end)

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the state of one transactional id."""
        known = self.table.get(self._locate(transactional_id), transactional_id)
        if known is None:
            raise TransactionalIdNotFound(f"no transactional id {transactional_id!r} is known here")
        return known.describe()

    async def list(self, wanted: TransactionFilter) -> Sequence[TransactionDescription]:
        """Return all transactional ids that pass a filter."""
        for partition in range(self._runtime.log.partition_count):
            # Without the log there is nothing to list, which is no error (nor is it in Kafka).
            with suppress(NotCoordinator):
                self._runtime.log.check_active(partition)
        pattern = await import_in_thread(partial(compile_regex, wanted.pattern)) if wanted.pattern else None
        now_ms, pace, found = self._runtime.clock(), Pace(), list[TransactionDescription]()
        for _, transaction in self.table:
            if _passes(transaction, wanted, now_ms):
                found.append(transaction.describe())
            await pace.turn()
        if pattern is None:
            return found
        matched = await matching(pattern, [each.transactional_id for each in found])
        return [each for each in found if each.transactional_id in matched]

    def _offsets_of(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self._partition_for_group(group_id))


def _passes(transaction: Transaction, wanted: TransactionFilter, now_ms: int) -> bool:
    """Return whether a transaction passes every filter but the pattern."""
    if wanted.states is not None and transaction.state not in wanted.states:
        return False
    if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
        return False
    return not 0 <= wanted.open_longer_than_ms >= now_ms - transaction.start_ms
