"""A coordinator of transactions over a log that survives it and partitions in memory; it can crash anywhere.

A crash comes before or after any write: a batch of the transaction log or a marker. What was written stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import attrs

from tests.kernel.log.parts import open_partition
from tests.kernel.log.transaction_model import read_as_client
from tidelog.kernel.errors import NotCoordinator, UnknownTopicOrPartition
from tidelog.kernel.log import Isolation, UnifiedLog
from tidelog.kernel.metadata import ImageChange
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.topics import Topic, Topics
from tidelog.plugins.coordinator.runtime import LoadedBatch, LogReader, StateRecord
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime
from tidelog.plugins.coordinator.transactions.markers import Markers
from tidelog.plugins.coordinator.transactions.service import Transactions
from tidelog.plugins.coordinator.transactions.settings import TransactionSettings

if TYPE_CHECKING:
    from tidelog.kernel.replica import ReplicaManager
    from tidelog.kernel.seams.coordination.transactions import ProducerIdentity

TOPIC = "data"
PLACES = tuple(TopicPartition(TOPIC, index) for index in range(3))
TIMEOUT_MS = 60_000
EXPIRATION_MS = 1_000_000
EVERYTHING = 1 << 30


class Crash(BaseException):
    """The process ends here."""


class Writes:
    """Counts writes, and crashes at a chosen step: there are two for each write."""

    def __init__(self) -> None:
        self.steps = 0
        self.crash_at: int | None = None

    def step(self) -> None:
        """Before or after a write."""
        if self.crash_at is not None and self.steps == self.crash_at:
            self.crash_at = None
            raise Crash
        self.steps += 1


class SurvivingLog:
    """A `StateLog` whose records survive the coordinator."""

    def __init__(self, writes: Writes) -> None:
        self.batches: list[Sequence[StateRecord]] = []
        self.progress = CoordinatorLoadCounts()
        self.partition_count = 1
        self.flush_due = False
        self._writes = writes
        self._open = False

    def check_active(self, partition: int) -> None:
        if not self._open:
            raise NotCoordinator("closed")

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        self.check_active(partition)
        self._writes.step()
        self.batches.append(tuple(records))
        self._writes.step()
        return AppendResult(len(self.batches), len(self.batches), -1, self.flush_due)

    async def committed(self, partition: int, result: AppendResult) -> None:
        """At once."""

    async def ensure(self) -> None:
        """It is there."""

    def open(self, reader: LogReader) -> None:
        for offset, records in enumerate(self.batches):
            run_to_end(reader.replay(0, LoadedBatch(offset, records)))
        self._open = True
        reader.loaded(0)

    def follow(self, change: ImageChange) -> None:
        pass

    def close(self) -> None:
        self._open = False


class CrashingPartition:
    """A partition whose markers are writes that a crash can hit."""

    def __init__(self, writes: Writes, partition: UnifiedLog) -> None:
        self.partition = partition
        self._writes = writes
        self._append_marker = partition.append_marker

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        commit: bool,
        transaction_version: int = 1,
    ) -> AppendResult:
        """As the partition."""
        self._writes.step()
        result = self._append_marker(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
        )
        self._writes.step()
        return result


@attrs.frozen
class Replicas:
    """The logs of the topic."""

    places: Sequence[CrashingPartition]

    def log_of(self, topic: str, number: int) -> CrashingPartition:
        """As `ReplicaManager`."""
        if topic != TOPIC or number >= len(self.places):
            raise UnknownTopicOrPartition(f"there is no {topic}-{number}")
        return self.places[number]


@attrs.define
class CrashingCoordinator:
    """The coordinator, its log and partitions, and what consumers read."""

    clock: FakeClock = attrs.field(factory=FakeClock)
    writes: Writes = attrs.field(factory=Writes)
    next_producer_id: int = 1000
    epoch: int = 0
    partitions: list[UnifiedLog] = attrs.field(factory=list[UnifiedLog])
    log: SurvivingLog = attrs.field(init=False)
    transactions: Transactions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.partitions = [open_partition(clock=self.clock) for _ in PLACES]
        self.log = SurvivingLog(self.writes)
        self.start()

    def start(self) -> None:
        """Start the coordinator with what its log has."""
        places = [CrashingPartition(self.writes, partition) for partition in self.partitions]
        finder = FakeTopics(lambda name: None)
        runtime = CoordinatorRuntime("__transaction_state", self.log, self.clock, Deadlines())
        self.transactions = Transactions(
            runtime,
            Markers(cast("Topics", finder), cast("ReplicaManager", Replicas(places)), runtime),
            TransactionSettings(
                allocate=self.allocate,
                coordinator_epoch=lambda _: self.epoch,
                max_timeout_ms=900_000,
                id_expiration_ms=EXPIRATION_MS,
            ),
            lambda _: 0,
        )
        self.transactions.open()

    async def recover(self) -> None:
        """Restart the process; partitions are opened again from what is in their logs."""
        self.writes.crash_at = None
        self.log.close()
        self.epoch += 1
        self.partitions = [
            open_partition(partition.store, clock=self.clock, clean_start=False)
            for partition in self.partitions
        ]
        self.start()
        await self.transactions.complete()

    async def allocate(self) -> int:
        """A producer id."""
        self.next_producer_id += 1
        return self.next_producer_id

    def append(self, place: TopicPartition, producer: ProducerIdentity, sequence: int, value: bytes) -> None:
        """A transactional batch, as the Produce handler appends it."""
        batch = make_batch(
            [value],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        verified = self.transactions.includes_partition(*producer, place)
        self.partitions[place.partition].append_nowait(batch, in_transaction=verified)

    async def begin(self, name: str = "orders", version: int = 2) -> ProducerIdentity:
        """Begin a transaction with one record in each of two partitions; return its producer."""
        producer = await self.transactions.init_producer_id(name, TIMEOUT_MS)
        await self.transactions.add_partitions(name, producer, PLACES[:2], version=version)
        self.append(PLACES[0], producer, 0, b"1")
        self.append(PLACES[1], producer, 0, b"2")
        return producer

    def committed(self) -> list[list[bytes]]:
        """What a consumer of committed data gets of each partition."""
        return [_committed_in(partition) for partition in self.partitions]


@attrs.frozen
class FakeTopics:
    """As much of `Topics` as markers need."""

    find: Callable[[str], Topic | None]


def _committed_in(partition: UnifiedLog) -> list[bytes]:
    found = partition.read(0, EVERYTHING, Isolation.READ_COMMITTED, wait=True)
    aborted = partition.aborted_transactions(0, found, wait=True)
    return [value for _, value in read_as_client(found, aborted)]
