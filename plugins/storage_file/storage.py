"""Storage of one broker: its log directories and its background tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.pace import Pace, run_in_steps
from tidelog.kernel.seams.storage import (
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
)
from tidelog.kernel.seams.storage.directories import NO_TOPICS, KnownTopics
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.background import BackgroundWork
from tidelog.plugins.storage_file.closing import close_stores, mark_clean, run_by_directory
from tidelog.plugins.storage_file.directories.failed_directories import FailedDirectories
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.meta_properties import check_used
from tidelog.plugins.storage_file.directories.offline_store import OfflineStore
from tidelog.plugins.storage_file.directories.placing import Placement, Placing, configured_paths
from tidelog.plugins.storage_file.directories.stray_partitions import (
    finish_deletions,
    move_aside,
    quarantine_duplicates,
    quarantine_mismatched_topic_ids,
    quarantine_stray_partitions,
)
from tidelog.plugins.storage_file.indexes.formats import IndexFormats
from tidelog.plugins.storage_file.log_directory_admin import FileLogDirectoryAdmin
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.moving.replica_moves import ReplicaMoves, resolve_copies
from tidelog.plugins.storage_file.names import delete_directory
from tidelog.plugins.storage_file.recovery.parallel_opening import ParallelOpening
from tidelog.plugins.storage_file.services import Services
from tidelog.plugins.storage_file.shared_directories import SharedDirectories

_log = logging.getLogger(__name__)

DESCRIPTOR_SHARE = 0.6
"""Of the process's descriptors that many may be open before files of idle partitions are closed early."""


class FileStorage:
    """`Storage` in Apache Kafka's file formats."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._directories = LogDirectories()
        self._failed = FailedDirectories(context, self._directories, self._give_up_moves)
        self._background = BackgroundWork(context, self._directories, self._failed)
        self._closing: list[LogDirectory] = []
        self._known = NO_TOPICS
        self._clean_start = False
        self._registered: Mapping[UUID, int] = {}
        self._moves: ReplicaMoves | None = None
        self._specs: dict[TopicPartition, PartitionSpec] = {}
        self._index_formats = IndexFormats(context.index_formats)
        self._descriptor_budget = int(disk.raise_descriptor_limit() * DESCRIPTOR_SHARE)

    def _services_for(self, directory: LogDirectory) -> Services:
        return Services(
            self._context.now_ms,
            self._context.tasks.in_thread,
            directory.deletions.add,
            self._background.release_idle,
            self._descriptor_budget,
            directory.write_recovery_points,
            directory.write_log_starts,
            directory.write_rewritten,
            partial(self._failed.disk_failed, directory),
            self._index_formats,
            self._context.progress,
        )

    @property
    def data_directories(self) -> SharedDirectories:
        """The log directories, as the metadata store uses them."""
        return SharedDirectories(self._directories, self._identify)

    @property
    def log_directories(self) -> FileLogDirectoryAdmin:
        """The log directories; usable after `open`."""
        return FileLogDirectoryAdmin(
            self._directories, self._opened_moves, self._failed.partitions, self._specs.__getitem__
        )

    @property
    def clean_start(self) -> bool:
        """Return whether every log directory was closed properly, or is new."""
        return self._clean_start

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """Return the partitions of failed directories, each with the reason."""
        return self._failed.partitions

    async def open(self) -> None:
        """Lock the log directories."""
        paths = configured_paths(self._context.config)
        # One more for the directory of the metadata log, which may be apart.
        self._failed.listen(len(paths) + 1)
        self._moves = ReplicaMoves(
            self._context.partition_assigned,
            self._context.partition_moved,
            lambda: self._context.config[keys.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
        )
        await trio.to_thread.run_sync(self._lock, paths)

    def _lock(self, paths: Sequence[Path]) -> None:
        self._index_formats.check(self._context.config)
        if self._context.must_exist:
            check_used(paths)
        self._directories.open(paths)

    def _identify(self, metadata_directory: Path | None) -> None:
        directories = self._directories
        if metadata_directory is not None:
            directories.set_metadata_directory(metadata_directory)
        for directory in directories.all():
            directory.services = self._services_for(directory)
        directories.identify(self._context.node_id, self._context.now_ms())

    async def load(self, known: KnownTopics) -> None:
        """Read the log directories, and finish deletions, creations and moves that a crash interrupted."""
        await trio.to_thread.run_sync(self._load, known)
        for directory in self._directories:
            directory.deletions.add(directory.leftovers, 0)
        self._background.open()

    def abandon(self) -> None:
        """Release the directories as they are, as the end of the process would."""
        self._directories.release()

    def _load(self, known: KnownTopics) -> None:
        directories = self._directories
        directories.each(LogDirectory.load)
        self._clean_start = all(directory.clean for directory in directories)
        self._registered = {topic.topic_id: topic.partitions for topic in known.topics.values()}
        self._known = known
        # In this order: what a deletion left is no duplicate, the copy of a decided move needs its name
        # before duplicates are looked for, and no checkpoint may have an offset of what is gone when
        # partitions get its name.
        directories.each(lambda directory: finish_deletions(directory, known))
        directories.each(lambda directory: quarantine_mismatched_topic_ids(directory, known))
        resolve_copies(directories.in_service, known)
        quarantine_duplicates(directories.in_service, known)
        directories.each(LogDirectory.write_forgotten)

    def background_tasks(self) -> Sequence[PeriodicTask]:
        """See `Storage.background_tasks`."""
        return self._background.tasks(self._opened_moves)

    def check_topic(self, config: TopicConfig) -> None:
        """Check the index format of a new topic."""
        self._index_formats.check_topic(config)

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """Open partitions in parallel, after recovery where it is needed; create new ones.

        Raises:
            OSError: the disk refused.
            StorageError: a directory of that name belongs to something else, or cannot be served.
        """
        directories = self._directories
        placing = Placing(directories.in_service, directories.offline, self._known, self._registered.keys())
        placements, offline = await run_in_steps(placing.place(specs))
        opening = ParallelOpening(self._registered, self._threads_per_directory, progress)
        await opening.run(placements)
        for directory, error in opening.lost.items():
            offline.update(await self._fail_while_opening(directory, error, placements))
        for key, reason in opening.refused.items():
            _log.error("%s is offline until a restart: %s", key, reason)
        offline.update(opening.refused)
        self._failed.partitions.update(offline)
        opened = {store.topic_partition: store for store in opening.stores}
        pace = Pace()
        for placement in placements:
            if placement.spec.topic_partition not in offline:
                # Before `add`, by which a new partition would look like one that was there before.
                placement.directory.recall_checkpoints(opened[placement.spec.topic_partition])
                placement.directory.add(opened[placement.spec.topic_partition])
            await pace.turn()
        for placement in placements:
            self._resume_move(placement)
            await pace.turn()
        return [
            OfflineStore(offline[key]) if (key := spec.topic_partition) in offline else opened[key]
            for spec in specs
        ]

    def _resume_move(self, placement: Placement) -> None:
        """Continue a move of a partition that was just opened, if an earlier run left its copy."""
        spec = placement.spec
        partition = spec.topic_partition
        self._specs[partition] = spec
        store = placement.directory.stores.get(partition)
        for target in self._directories:
            name = target.futures.get(partition)
            if name is not None and store is not None:
                self._opened_moves.begin(ReplicaMove(spec, store, placement.directory, target, name))

    def _give_up_moves(self, directory: LogDirectory) -> None:
        self._opened_moves.cancel_in(directory)

    async def _fail_while_opening(
        self, directory: LogDirectory, error: OSError, placements: Sequence[Placement]
    ) -> dict[TopicPartition, str]:
        """Continue without a directory that failed while its partitions were opened; return those.

        Raises:
            StorageError: no directory is left.
        """
        described = f"the log directory {directory.path} failed: {error}"
        if not self._directories.is_dispensable(directory):
            raise StorageError(described) from error
        self._directories.drop(directory, str(error))
        lost = [each.spec.topic_partition for each in placements if each.directory is directory]
        await trio.to_thread.run_sync(directory.release)
        return dict.fromkeys(lost, described)

    async def quarantine_stray_partitions(self) -> None:
        """Rename the directories of partitions without a topic to `-stray`."""

        def quarantine_in(directory: LogDirectory) -> None:
            quarantine_stray_partitions(directory, self._known)

        await trio.to_thread.run_sync(self._directories.each, quarantine_in)

    @property
    def moves_under_way(self) -> Sequence[ReplicaMove]:
        """Moves that are not done yet."""
        return self._opened_moves.under_way()

    @property
    def _opened_moves(self) -> ReplicaMoves:
        if self._moves is None:
            raise RuntimeError("the storage is not open")
        return self._moves

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """Rename the partitions' directories to `-delete`, and remove them after the delay."""
        names = [partition for partition, _ in partitions]
        self._opened_moves.cancel(names)
        await self._opened_moves.wait_decided(names)
        await trio.to_thread.run_sync(self._delete_partitions, [partition for partition, _ in partitions])

    def _delete_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._failed.partitions.pop(partition, None)
            self._specs.pop(partition, None)
        for directory in self._directories:
            stores = [directory.stores[key] for key in partitions if key in directory.stores]
            for store in stores:
                # Before the rename: a flush that then finds no file must not fail the log directory.
                store.retire()
                key = store.topic_partition
                store.delete_later(move_aside(directory, key, delete_directory(key)))
            if stores:
                # Or else, after a loss of power, a new topic of that name would find the records of this one.
                disk.sync_directory(directory.path)
                directory.write_forgotten()

    @property
    def _threads_per_directory(self) -> int:
        return self._context.config[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR]

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Close partitions, in parallel for each log directory."""
        # A move of a log that is closed would fail, and remove what it has copied.
        await self._opened_moves.stop()
        places = {key: directory for directory in self._directories for key in directory.stores}
        await run_by_directory([(places.get(key), job) for key, job in jobs], self._threads_per_directory)

    async def finish_writes(self) -> None:
        """Close every partition; no directory is in service any more."""
        if self._moves is not None:
            await self._moves.stop()
        self._failed.stop_listening()
        # Before the first store is closed: no background task finds a directory from here on.
        self._closing, self._directories.in_service = self._directories.in_service, []
        errors = await close_stores(self._closing, self._threads_per_directory)
        if errors:
            raise StorageError("; ".join(errors))

    async def close(self, broker_epoch: int) -> None:
        """Write checkpoints and clean shutdown files, and unlock the directories."""
        held = [*self._directories.all(), *self._closing]
        known = self._context.high_watermarks
        try:
            errors = await trio.to_thread.run_sync(mark_clean, self._closing, known, broker_epoch)
        finally:
            # The locks belong to the process, which may continue after a stop that was cancelled.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_release_all, held)
        if errors:
            raise StorageError("; ".join(errors))


def _release_all(directories: Sequence[LogDirectory]) -> None:
    for directory in directories:
        directory.release()
