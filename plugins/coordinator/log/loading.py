"""Loading an internal topic: partition after partition, read in a thread and applied in slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.plugins.coordinator.log.batches import LoadedBatch, decode_batches

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
    from tidelog.kernel.seams.partition import Partition
    from tidelog.kernel.seams.topics import Topic
    from tidelog.plugins.coordinator.log.state_log import LogReader

Steps: TypeAlias = Generator[None, None, None]


class TopicLoader:
    """Loads one topic into a reader, until it is stopped."""

    def __init__(
        self, topic: Topic, reader: LogReader, progress: CoordinatorLoadCounts, load_bytes: int
    ) -> None:
        self._partitions = topic.partitions
        self._reader = reader
        self._progress = progress
        self._load_bytes = load_bytes
        self._stopped = False
        self._with_records = [
            index for index, partition in enumerate(topic.partitions) if _has_records(partition)
        ]
        progress.partitions += len(self._with_records)

    def stop(self) -> None:
        """Stop, without any further call of the reader."""
        self._stopped = True

    def empty_partitions(self) -> Iterator[int]:
        """Iterate over the partitions that need no reading."""
        full = set(self._with_records)
        return (index for index in range(len(self._partitions)) if index not in full)

    async def load(self, ended: Callable[[int, BrokerError | None], None]) -> None:
        """Load all other partitions; call `ended` for each, with the error of one that cannot be read."""
        for index in self._with_records:
            failure: BrokerError | None = None
            try:
                await self._replay(index)
            except BrokerError as error:
                failure = error
            if not self._stopped:
                ended(index, failure)
            self._progress.loaded_partitions += 1

    async def _replay(self, index: int) -> None:
        """Read a partition to its present end, and settle it.

        Raises:
            BrokerError: it cannot be read.
        """
        partition = self._partitions[index]
        offset, end = partition.log_start_offset, partition.log_end_offset
        while offset < end and not self._stopped:
            start = offset
            batches, offset, size = await trio.to_thread.run_sync(self._read, partition, start)
            self._progress.bytes += size
            await self._run(self._replay_batch(index, batch) for batch in batches)
            if offset == start:
                # Compaction may have removed the last records.
                break
        if not self._stopped:
            await self._run([self._reader.settle(index)])

    def _replay_batch(self, index: int, batch: LoadedBatch) -> Steps:
        self._progress.records += len(batch.records)
        return self._reader.replay(index, batch)

    def _read(self, partition: Partition, offset: int) -> tuple[list[LoadedBatch], int, int]:
        """Return batches from `offset` on, the offset behind them, and their size in bytes; blocking."""
        found = partition.read(offset, self._load_bytes, Isolation.READ_UNCOMMITTED, wait=True)
        data = b"".join(region_bytes(region) for region in found.regions)
        batches, next_offset = decode_batches(memoryview(data), offset)
        return batches, next_offset, len(data)

    async def _run(self, works: Iterable[Steps]) -> None:
        """Do one work after the other, until loading is stopped."""
        pace = Pace()
        for steps in works:
            for _ in steps:
                await pace.turn()
                if self._stopped:
                    return


def _has_records(partition: Partition) -> bool:
    return partition.log_end_offset > partition.log_start_offset
