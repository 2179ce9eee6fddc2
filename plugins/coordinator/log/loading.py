"""Loading an internal topic: partition after partition, read in a thread and applied in slices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import trio

from tidelog.kernel.errors import BrokerError, NotCoordinator
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.plugins.coordinator.log.batches import LoadedBatch, decode_batches

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import LoadProgress
    from tidelog.kernel.seams.partition import Partition
    from tidelog.kernel.seams.topics import Topic
    from tidelog.plugins.coordinator.log.log_image import LogImage
    from tidelog.plugins.coordinator.log.misplaced import SelectedRecords
    from tidelog.plugins.coordinator.log.relocation import Relocator
    from tidelog.plugins.coordinator.log.state_log import LogReader

Steps: TypeAlias = Generator[None, None, None]


class TopicLoader:
    """Loads one topic into a reader, until it is stopped.

    With a relocator, partitions between which state may have to be moved are read together, and become active
    together.
    """

    def __init__(
        self,
        topic: Topic,
        reader: LogReader,
        relocator: Relocator | None,
        progress: LoadProgress,
        load_bytes: int,
    ) -> None:
        self._partitions = topic.partitions
        self._reader = reader
        self._relocator = relocator
        self._progress = progress
        self._load_bytes = load_bytes
        self._stopped = False
        self._with_records = frozenset(
            index for index, partition in enumerate(topic.partitions) if _has_records(partition)
        )
        self._parts = tuple(self._relocator.pairs()) if self._relocator else _each_alone(topic)

    def stop(self) -> None:
        """Stop, without any further call of the reader."""
        self._stopped = True

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def empty_partitions(self) -> Iterator[int]:
        """Iterate over the partitions that need no reading."""
        for part in self._parts:
            if self._with_records.isdisjoint(part):
                yield from part

    async def load(self, ended: Callable[[int, BrokerError | None], None]) -> None:
        """Load all other partitions; call `ended` for each, with the error of one that cannot be read."""
        for part in self._parts:
            if self._with_records.isdisjoint(part):
                continue
            failures = await self._load_part(part)
            for index in part:
                if not self._stopped:
                    ended(index, failures.get(index))
                if index in self._with_records:
                    self._progress.loaded_partitions += 1
        if self._relocator is not None:
            self._relocator.report()

    async def _load_part(self, part: Sequence[int]) -> dict[int, BrokerError]:
        failures: dict[int, BrokerError] = {}
        misplaced: dict[int, LogImage] = {}
        for index in part:
            try:
                image = await self._replay(index)
                if image is not None:
                    misplaced[index] = image
            except BrokerError as error:
                failures[index] = error
        if len(part) > 1 and not failures:
            try:
                await self._relocate(misplaced)
            except BrokerError as error:
                failures = dict.fromkeys(part, error)
        for index in part:
            if _has_records(self._partitions[index]) and index not in failures:
                await self._settle(index)
        return failures

    async def _replay(self, index: int) -> LogImage | None:
        """Replay what belongs to a partition; return what does not, None if loading was stopped."""
        selected = self._relocator.selection(index) if self._relocator is not None else None

        def take(batch: LoadedBatch) -> Steps:
            self._progress.records += len(batch.records)
            return self._reader.replay(index, batch if selected is None else selected.divert(batch))

        complete = await self._read_all(index, take, counting=True)
        return selected.image if selected is not None and complete else None

    async def _relocate(self, misplaced: Mapping[int, LogImage]) -> None:
        relocator = self._relocator
        if relocator is None or self._stopped:
            return
        for index, image in misplaced.items():
            target, copied = await relocator.run(index, image, self._read_selected)
            await self._run(self._reader.replay(target, batch) for batch in copied)

    async def _read_selected(self, index: int, selected: SelectedRecords) -> None:
        def take(batch: LoadedBatch) -> Steps:
            selected.divert(batch)
            yield

        if not await self._read_all(index, take):
            raise NotCoordinator(f"{self._partitions[index].topic_partition} is closed")

    async def _read_all(
        self, index: int, take: Callable[[LoadedBatch], Steps], *, counting: bool = False
    ) -> bool:
        """Read a partition to its present end; return False if loading was stopped.

        Raises:
            BrokerError: it cannot be read.
        """
        partition = self._partitions[index]
        offset, end = partition.log_start_offset, partition.log_end_offset
        while offset < end and not self._stopped:
            start = offset
            batches, offset, size = await trio.to_thread.run_sync(self._read, partition, start)
            if counting:
                self._progress.bytes += size
            await self._run(map(take, batches))
            if offset == start:
                # Compaction may have removed the last records.
                break
        return not self._stopped

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
                if self.is_stopped:
                    return

    async def _settle(self, index: int) -> None:
        if not self._stopped:
            await self._run([self._reader.settle(index)])


def _has_records(partition: Partition) -> bool:
    return partition.log_end_offset > partition.log_start_offset


def _each_alone(topic: Topic) -> tuple[tuple[int, ...], ...]:
    return tuple((index,) for index in range(len(topic.partitions)))
