"""The seam between coordinators and where their records are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.kernel.partition.partition import AppendResult
from tidelog.kernel.records.control import EndMarker
from tidelog.kernel.seams.coordination.loading import LoadProgress

if TYPE_CHECKING:
    from tidelog.plugins.coordinator.log.relocation import RelocationPolicy


class StateRecord(NamedTuple):
    """A key in Kafka's schema and its newest value; None for a value takes the key away."""

    key: bytes
    value: bytes | None


class LoadedBatch(NamedTuple):
    """A batch that was read back. A control batch has a `marker` and no records.

    `producer_id` is -1 outside transactions; `timestamp_ms` is the newest of its records. Records without a
    key are left out: they mean nothing. `offsets` are those of the records, empty if they follow each other
    from `base_offset` on.
    """

    base_offset: int
    records: Sequence[tuple[bytes, bytes | None]]
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    marker: EndMarker | None = None
    timestamp_ms: int = -1
    offsets: Sequence[int] = ()

    def offset_of(self, index: int) -> int:
        """Return the offset of the record at that index of `records`."""
        return self.offsets[index] if self.offsets else self.base_offset + index


class LogReader(Protocol):
    """Who takes what is read back into memory; partitions come one after the other."""

    def replay(self, partition: int, batch: LoadedBatch) -> None:
        """The next batch of a partition."""
        ...

    def settle(self, partition: int) -> Iterator[None]:
        """A partition with batches was read to its end: what is to be done before it is active, in small
        steps. Others may get their turn after each, and the partition may be forgotten between two."""
        ...

    def loaded(self, partition: int) -> None:
        """A partition has settled, or is empty: from now on it is active."""
        ...

    def forget(self, partition: int) -> None:
        """A partition is gone, and what it told counts no more."""
        ...


class StateLog(Protocol):
    """The records of one kind of coordinator, in partitions; what was appended counts at once."""

    @property
    def progress(self) -> LoadProgress:
        """How far it has been read back."""
        ...

    @property
    def partition_count(self) -> int:
        """How many partitions there are, or will be when the log is made."""
        ...

    def check_active(self, partition: int) -> None:
        """Ask before using what is in memory.

        Raises:
            CoordinatorLoadInProgress: that partition is still being read.
            NotCoordinator: there is no such log yet; clients find the coordinator anew, which makes it.
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
            StorageError: the disk refused; it must not be acknowledged.
        """
        ...

    async def flush(self, partition: int) -> None:
        """Wait until all that was appended to a partition is on disk.

        Raises:
            BrokerError: as `append`.
        """
        ...

    async def wait_loaded(self) -> bool:
        """Wait until what is there was read back; return whether all of it could be read."""
        ...

    async def ensure(self) -> None:
        """Make the log if there is none.

        Raises:
            BrokerError: it cannot be made.
        """
        ...

    def open(self, reader: LogReader, relocation: RelocationPolicy | None = None) -> None:
        """Begin to read back what is there, all of it in order, to `reader`.

        With `relocation`, what earlier versions kept in the wrong partition is moved before.
        """
        ...

    def close(self) -> None:
        """Stop reading and refuse appends."""
        ...
