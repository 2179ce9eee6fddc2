"""The interface of coordinators to the log of their records, `StateLog`, and one that discards records."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel.errors import NotCoordinator
from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
from tidelog.kernel.seams.partition import AppendResult
from tidelog.plugins.coordinator.runtime.batches import LoadedBatch, StateRecord

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange


class LogReader(Protocol):
    """Applies what is loaded from a log to memory; partitions come one after the other."""

    def replay(self, partition: int, batch: LoadedBatch) -> Generator[None, None, None]:
        """Apply the next batch of a partition; yield after each small piece.

        Other tasks may run in between, and the partition may be forgotten.
        """
        ...

    def settle(self, partition: int) -> Generator[None, None, None]:
        """Do what a partition with batches needs between its end and being active; yield likewise."""
        ...

    def loaded(self, partition: int) -> None:
        """Note that a partition has settled, or is empty: from now on it is active."""
        ...

    def forget(self, partition: int) -> None:
        """Drop all state of a partition that was deleted."""
        ...


class StateLog(Protocol):
    """The records of one kind of coordinator, in partitions; what is appended counts at once."""

    @property
    def progress(self) -> CoordinatorLoadCounts:
        """Return how far the log is loaded."""
        ...

    @property
    def partition_count(self) -> int:
        """The number of partitions, also while the log does not exist yet."""
        ...

    def check_active(self, partition: int) -> None:
        """Check that the state of a partition in memory is complete.

        Raises:
            CoordinatorLoadInProgress: the partition is still being loaded.
            NotCoordinator: there is no log yet; clients look the coordinator up again, which creates it.
            StorageError: it could not be read.
        """
        ...

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        """Append the records in one batch, all or none; `producer` (id, epoch) makes it transactional.

        Raises:
            CoordinatorLoadInProgress, NotCoordinator: as `check_active`.
            BrokerError: the log refused the batch (MessageTooLarge, StorageError, InvalidProducerEpoch).
        """
        ...

    async def committed(self, partition: int, result: AppendResult) -> None:
        """Wait until what was appended may be acknowledged; without `result.flush_due` that is at once.

        Raises:
            StorageError: the flush failed; it must not be acknowledged.
        """
        ...

    async def ensure(self) -> None:
        """Create the log if there is none.

        Raises:
            BrokerError: it cannot be created.
        """
        ...

    def open(self, reader: LogReader) -> None:
        """Start loading everything in order into `reader`."""
        ...

    def follow(self, change: ImageChange) -> None:
        """Load partitions that this broker leads from now on, and drop those that are gone or lost."""
        ...

    def close(self) -> None:
        """Stop loading and refuse appends."""
        ...


class NullStateLog:
    """A `StateLog` of one partition that assigns offsets and discards the records.

    All state is in memory alone; nothing is ever loaded.
    """

    def __init__(self) -> None:
        self.progress = CoordinatorLoadCounts()
        self.partition_count = 1
        self._next_offset = 0
        self._open = False

    def check_active(self, partition: int) -> None:
        """Check that the log is open."""
        if not self._open:
            raise NotCoordinator("the coordinator is not open")

    def append(
        self, partition: int, records: Sequence[StateRecord], *, producer: tuple[int, int] | None = None
    ) -> AppendResult:
        """Assign the next offsets."""
        self.check_active(partition)
        base_offset = self._next_offset
        self._next_offset += len(records)
        return AppendResult(base_offset, self._next_offset - 1, -1)

    async def committed(self, partition: int, result: AppendResult) -> None:
        """Return at once."""

    async def ensure(self) -> None:
        """Do nothing: the log always exists."""

    def open(self, reader: LogReader) -> None:
        """Report the empty partition as loaded."""
        self._open = True
        reader.loaded(0)

    def follow(self, change: ImageChange) -> None:
        """Do nothing: there is no topic."""

    def close(self) -> None:
        """Refuse appends."""
        self._open = False
