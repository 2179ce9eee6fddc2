"""Opening of many partitions in parallel, by threads of each log directory.

Source: Kafka documentation, "Broker Configs", `num.recovery.threads.per.data.dir`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.storage import PartitionSpec, TopicPartition
from tidelog.plugins.storage_file.directories.deletion import remove_all
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.disk_errors import means_failed_directory
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import open_partition

_log = logging.getLogger(__name__)

PARTITIONS_PER_THREAD_HOP = 64
"""Opening a partition that was closed properly takes less time than handing it to a thread."""


class ParallelOpening:
    """One call of `open_partitions`; `stores` are those that were opened so far.

    `lost` are directories that failed while partitions in them were opened, which were there before, and how.
    `refused` are partitions that were there before, and could not be opened for want of room.
    """

    def __init__(
        self,
        registered: Mapping[UUID, int],
        threads_per_directory: int,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._registered = registered
        self._threads = threads_per_directory
        self._progress = progress
        self._errors: list[OSError | BrokerError] = []
        self.stores: list[FilePartitionStore] = []
        self.lost: dict[LogDirectory, OSError] = {}
        self.refused: dict[TopicPartition, str] = {}
        self._created: list[str] = []

    async def run(self, placements: Sequence[Placement]) -> None:
        """Open all, or none: what was created is removed again when one of them fails.

        Raises:
            OSError, BrokerError: the first failure.
        """
        by_directory: dict[LogDirectory, list[Placement]] = {}
        for placement in placements:
            by_directory.setdefault(placement.directory, []).append(placement)
        async with trio.open_nursery() as nursery:
            for directory, mine in by_directory.items():
                # A clean directory costs processor time only, which threads cannot share.
                threads, at_once = (1, PARTITIONS_PER_THREAD_HOP) if directory.clean else (self._threads, 1)
                # One iterator for all workers of the directory: they take from it on the event loop, so
                # without a lock.
                chunks = iter([mine[at : at + at_once] for at in range(0, len(mine), at_once)])
                place = str(directory.path)
                directory.services.progress.add_logs(place, len(mine))
                for number in range(threads):
                    nursery.start_soon(self._work, directory, f"{place}-{number}", chunks)
        if self._errors:
            await trio.to_thread.run_sync(remove_all, self._created)
            raise self._errors[0]

    async def _work(self, directory: LogDirectory, name: str, chunks: Iterator[Sequence[Placement]]) -> None:
        progress = directory.services.progress
        for chunk in chunks:
            if self._errors or chunk[0].directory in self.lost:
                return
            await trio.to_thread.run_sync(self._open_chunk, chunk, partial(progress.set_segments, name))
            progress.logs_done(str(directory.path), len(chunk))
            if self._progress is not None:
                self._progress(len(self.stores))

    def _is_registered(self, spec: PartitionSpec) -> bool:
        """Return whether the partition existed before this start: its topic may have got more since."""
        return spec.topic_partition.partition < self._registered.get(spec.topic_id, 0)

    def _create(self, placement: Placement) -> None:
        spec = placement.spec
        path = placement.directory.partition_path(spec.topic_partition)
        placement.directory.write_owed()
        if self._is_registered(spec):
            _log.warning("%s is not there, though its topic is known; it is created empty", path)
        disk.mkdir(path)
        self._created.append(path)

    def _open_chunk(self, chunk: Sequence[Placement], remaining: Callable[[int], None]) -> None:
        for placement in chunk:
            spec = placement.spec
            try:
                if not placement.exists:
                    self._create(placement)
                store = open_partition(placement, registered=self._is_registered(spec), remaining=remaining)
            except (OSError, BrokerError) as error:
                if placement.exists and disk.is_full(error):
                    self.refused[spec.topic_partition] = f"it is to be opened with more room: {error}"
                    continue
                self._note(placement, error)
                return
            self.stores.append(store)

    def _note(self, placement: Placement, error: OSError | BrokerError) -> None:
        directory = placement.directory
        if isinstance(error, OSError) and means_failed_directory(error, directory.path):
            if placement.exists:
                self.lost[directory] = error
                return
            directory.services.disk_failed(error)
        self._errors.append(error)
