"""Loading a partition of an internal topic: it is read in a thread and applied in slices."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, TypeAlias

import trio

from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.plugins.coordinator.runtime.batches import LoadedBatch, decode_batches

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
    from tidelog.plugins.coordinator.runtime.state_log import LogReader

Steps: TypeAlias = Generator[None, None, None]


class PartitionLoader:
    """Loads one partition of the log into a reader, until it is stopped."""

    def __init__(
        self,
        number: int,
        log: UnifiedLog,
        reader: LogReader,
        progress: CoordinatorLoadCounts,
        load_bytes: int,
    ) -> None:
        self.number = number
        self.log = log
        self.stopped = False
        self._reader = reader
        self._progress = progress
        self._load_bytes = load_bytes

    def stop(self) -> None:
        """Stop, without any further call of the reader."""
        self.stopped = True

    async def load(self) -> None:
        """Read the partition to its present end, and settle it.

        Raises:
            BrokerError: it cannot be read.
        """
        log = self.log
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end and not self.stopped:
            start = offset
            batches, offset, size = await trio.to_thread.run_sync(self._read, start)
            self._progress.bytes += size
            await self._run(map(self._replay_batch, batches))
            if offset == start:
                # Compaction may have removed the last records.
                break
        if not self.stopped:
            await self._run([self._reader.settle(self.number)])

    def _replay_batch(self, batch: LoadedBatch) -> Steps:
        self._progress.records += len(batch.records)
        return self._reader.replay(self.number, batch)

    def _read(self, offset: int) -> tuple[list[LoadedBatch], int, int]:
        """Return batches from `offset` on, the offset behind them, and their size in bytes; blocking."""
        found = self.log.read(offset, self._load_bytes, Isolation.READ_UNCOMMITTED, wait=True)
        data = b"".join(region_bytes(region) for region in found.regions)
        batches, next_offset = decode_batches(memoryview(data), offset)
        return batches, next_offset, len(data)

    async def _run(self, works: Iterable[Steps]) -> None:
        """Do one work after the other, until loading is stopped."""
        pace = Pace()
        for steps in works:
            for _ in steps:
                await pace.turn()
                if self.stopped:
                    return


def has_records(log: UnifiedLog) -> bool:
    """Return whether there is anything to load."""
    return log.log_end_offset > log.log_start_offset
