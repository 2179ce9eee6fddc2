"""The partitions of topics, from opening their stores to closing or deleting them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial

import trio

from tidelog.kernel import disk
from tidelog.kernel.clock import Clock
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.log.flush_threads import FlushThreads
from tidelog.kernel.log.loading import load_log
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.log.side_writes import SideWrites
from tidelog.kernel.metadata import TopicImage
from tidelog.kernel.pace import Pace, each_in_steps
from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore, Storage, TopicPartition
from tidelog.kernel.seams.tasks import Tasks

_log = logging.getLogger(__name__)

LOADS_PER_THREAD_HOP = 64
NAMED = 10
"""Most topics that one message names."""


class PartitionKeeper:
    """Opens, loads, closes and deletes partitions in a storage; it knows no topics."""

    def __init__(self, storage: Storage, clock: Clock, tasks: Tasks, unpacking: Unpacking) -> None:
        self._storage = storage
        self.unpacking = unpacking
        self._clock = clock
        self._tasks = tasks
        self._flush_threads = FlushThreads(tasks.run_shielded)

    async def open(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> list[UnifiedLog]:
        """Open the stores of partitions, whose state is loaded later; `progress` gets how many are open.

        Raises:
            OSError, StorageError: the disk refused; none is open, and none was created.
        """
        stores = await self._storage.open_partitions(specs, progress)
        partitions: list[UnifiedLog] = []
        pace = Pace()
        for spec, store in zip(specs, stores, strict=True):
            partitions.append(self._partition(spec, store))
            await pace.turn()
        return partitions

    def _partition(self, spec: PartitionSpec, store: PartitionStore) -> UnifiedLog:
        tasks = self._tasks
        partition = UnifiedLog(
            spec.topic_partition,
            spec.topic_id,
            store,
            spec.config,
            self._clock,
            tasks.in_thread,
            self._flush_threads,
            self.unpacking,
        )
        reason = self._storage.failed_partitions.get(spec.topic_partition)
        if reason is not None:
            partition.take_offline(StorageError(f"{spec.topic_partition} is offline: {reason}"))
        return partition

    async def load_state(self, partitions: Sequence[UnifiedLog]) -> None:
        """Load the producers and leader epochs of partitions, in threads.

        Raises:
            OSError, StorageError: the disk refused.
        """
        clean = self._storage.clean_start
        for start in range(0, len(partitions), LOADS_PER_THREAD_HOP):
            chunk = partitions[start : start + LOADS_PER_THREAD_HOP]
            await trio.to_thread.run_sync(_load_all, chunk, clean)
            for partition in chunk:
                if partition.epochs.is_owed:
                    partition.epochs.pay_soon()

    async def close(self, partitions: Sequence[UnifiedLog]) -> None:
        """Close partitions; a disk error is logged."""
        await self._storage.close_partitions(
            [(partition.topic_partition, partial(_close, partition)) for partition in partitions]
        )

    async def discard(self, partitions: Sequence[UnifiedLog]) -> None:
        """Delete partitions that belong to no topic (any more); a disk error is only logged."""
        pace = Pace()
        for partition in partitions:
            partition.take_offline()
            await pace.turn()
        # Background writes must not run in a directory that is renamed, or in that of a new topic of the same
        # name.
        busy = [partition.side_writes for partition in partitions if partition.side_writes.close()]
        if busy:
            await trio.to_thread.run_sync(_wait_closed, busy)
        try:
            await self._storage.delete_partitions(
                [(partition.topic_partition, partition.store) for partition in partitions]
            )
        except (OSError, StorageError) as error:
            names = [*dict.fromkeys(partition.topic_partition.topic for partition in partitions)]
            shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
            _log.error("partitions of topic %s are left on the disk: %s", shown, error)


def partition_specs(
    record: TopicImage, config: TopicConfig, first: int = 0
) -> Generator[None, None, list[PartitionSpec]]:
    """Return the partitions of a topic from number `first` on, to be opened; in steps."""
    return each_in_steps(
        range(first, len(record.partitions)),
        lambda index: PartitionSpec(TopicPartition(record.name, index), record.topic_id, config),
    )


def _load_all(partitions: Sequence[UnifiedLog], clean_start: bool) -> None:
    for partition in partitions:
        if partition.offline is None:
            try:
                load_log(partition, clean_start=clean_start)
            except OSError as error:
                if not disk.is_full(error):
                    raise
                described = f"{partition.topic_partition} is offline until a restart with room: {error}"
                _log.error("%s", described)
                partition.take_offline(StorageError(described))


def _wait_closed(works: Sequence[SideWrites]) -> None:
    for work in works:
        work.wait_closed()


def _close(partition: UnifiedLog) -> None:
    try:
        partition.close()
    except (OSError, StorageError) as error:
        level = logging.WARNING if disk.is_full(error) else logging.ERROR
        _log.log(level, "%s could not be closed properly: %s", partition.topic_partition, error)
