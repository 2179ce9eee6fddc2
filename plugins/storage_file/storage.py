"""The storage of one broker: its log directories, its metadata log and its background work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.seams.storage import (
    LogDirectoryView,
    MetadataStore,
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
)
from tidelog.plugins.storage_file import disk, keys
from tidelog.plugins.storage_file.background import BackgroundWork
from tidelog.plugins.storage_file.closing import close_metadata, close_stores, mark_clean, run_by_directory
from tidelog.plugins.storage_file.directories.description import view_of
from tidelog.kernel.ids import new_id
from tidelog.plugins.storage_file.directories.log_directories import LogDirectories
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.losses import Losses
from tidelog.plugins.storage_file.directories.offline_store import OfflineStore
from tidelog.plugins.storage_file.directories.placing import Placing, configured_paths
from tidelog.plugins.storage_file.directories.strangers import (
    NOTHING_KNOWN,
    KnownTopics,
    finish_deletions,
    set_aside,
    set_duplicates_aside,
    set_impostors_aside,
    set_strays_aside,
)
from tidelog.plugins.storage_file.indexes.formats import IndexFormats
from tidelog.plugins.metadata_kraft.home import MetadataHome
from tidelog.plugins.metadata_kraft.opening import has_metadata_log
from tidelog.plugins.metadata_kraft.store import KraftMetadata
from tidelog.plugins.storage_file.moving.leftovers import resolve_copies
from tidelog.plugins.storage_file.moving.move import Move
from tidelog.plugins.storage_file.moving.moves import Moves
from tidelog.plugins.storage_file.names import delete_directory, future_directory
from tidelog.plugins.storage_file.recovery.opening import Placement
from tidelog.plugins.storage_file.recovery.parallel_opening import ParallelOpening
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)

DESCRIPTOR_SHARE = 0.6
"""Of the process's descriptors that many may be open before files of idle partitions are closed early."""


class FileStorage:
    """`Storage` in Apache Kafka's file formats."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._directories = LogDirectories()
        self._losses = Losses(context, self._directories, lambda: self._opened_metadata, self._give_up_moves)
        self._background = BackgroundWork(context, self._directories, self._losses)
        self._metadata: KraftMetadata | None = None
        self._known = NOTHING_KNOWN
        self._clean_start = False
        self._registered: Mapping[UUID, int] = {}
        self._moves: Moves | None = None
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
            partial(self._losses.disk_failed, directory),
            self._index_formats,
            self._context.progress,
        )

    @property
    def metadata(self) -> MetadataStore:
        """The metadata log; usable after `open`."""
        return self._opened_metadata

    @property
    def _opened_metadata(self) -> KraftMetadata:
        if self._metadata is None:
            raise RuntimeError("the storage is not open")
        return self._metadata

    @property
    def clean_start(self) -> bool:
        """Whether every log directory was closed properly, or is new."""
        return self._clean_start

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """See `Storage.failed_partitions`."""
        return self._losses.partitions

    async def open(self) -> None:
        """See `Storage.open`."""
        paths = configured_paths(self._context.config)
        self._losses.listen(len(paths) + 1)
        self._moves = Moves(self._assign)
        try:
            await trio.to_thread.run_sync(self._open, paths)
            await self._opened_metadata.lead()
        except (OSError, StorageError) as error:
            self.abandon()
            raise ConfigError(f"the log directories cannot be opened: {error}") from error
        except BaseException:
            self.abandon()
            raise
        for directory in self._directories:
            directory.deletions.add(directory.leftovers, 0)
        self._background.start(self._opened_moves, self._opened_metadata)

    def _open(self, paths: Sequence[Path]) -> None:
        self._index_formats.check(self._context.config)
        directories = self._directories
        directories.open(paths)
        directories.each(lambda directory: has_metadata_log(directory.path))
        home = MetadataHome(self._context, directories.in_service, directories.offline)
        directories.know_home(home.directory, apart=home.is_apart)
        for directory in directories.with_home():
            directory.services = self._services_for(directory)
        self._load_directories(home)

    def abandon(self) -> None:
        """Let go of the directories as they are, as the end of the process would."""
        self._directories.release()

    def _load_directories(self, home: MetadataHome) -> None:
        context = self._context
        cluster_id = self._claim(home)
        if home.is_apart:
            home.directory.identify(cluster_id, context.node_id, context.now_ms())
        self._directories.each(
            lambda directory: directory.identify(cluster_id, context.node_id, context.now_ms())
        )
        # Before the mark of a clean stop is taken: who else this directory belongs to finds it as it was.
        self._metadata = metadata = home.open(cluster_id)
        self._directories.each(LogDirectory.load)
        self._clean_start = all(directory.clean for directory in self._directories)
        known = [*metadata.topics(), *metadata.to_adopt]
        self._registered = {topic.topic_id: topic.partitions for topic in known}
        self._known = KnownTopics(
            {topic.name: topic for topic in known}, metadata.deleted_topics, metadata.assigned_directory
        )
        self._directories.each(lambda directory: finish_deletions(directory, self._known))
        self._directories.each(lambda directory: set_impostors_aside(directory, self._known))
        resolve_copies(self._directories.in_service, self._known)
        set_duplicates_aside(self._directories.in_service, self._known)

    def _claim(self, home: MetadataHome) -> str:
        """Blocking: the cluster id of the directories, a new one if they are all new."""
        found: str | None = None

        def claim(directory: LogDirectory) -> None:
            nonlocal found
            found = directory.claim(found, self._context.node_id)

        if home.is_apart:
            claim(home.directory)
        self._directories.each(claim)
        return found or new_id()

    def check_topic(self, config: TopicConfig) -> None:
        """See `Storage.check_topic`."""
        self._index_formats.check_topic(config)

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """See `Storage.open_partitions`.

        Raises:
            OSError: the disk refused.
            StorageError: a directory of that name belongs to something else, or cannot be served.
        """
        directories = self._directories
        placing = Placing(directories.in_service, directories.offline, self._known, self._registered.keys())
        placements, offline = placing.place(specs)
        opening = ParallelOpening(self._registered, self._threads_per_directory, progress)
        await opening.run(placements)
        for directory, error in opening.lost.items():
            offline.update(await self._lose_while_opening(directory, error, placements))
        self._losses.partitions.update(offline)
        opened = {store.topic_partition: store for store in opening.stores}
        for placement in placements:
            if placement.spec.topic_partition not in offline:
                placement.directory.recall_high_watermark(opened[placement.spec.topic_partition])
                placement.directory.add(opened[placement.spec.topic_partition])
        for placement in placements:
            self._resume_move(placement)
        return [
            OfflineStore(offline[key]) if (key := spec.topic_partition) in offline else opened[key]
            for spec in specs
        ]

    def _resume_move(self, placement: Placement) -> None:
        """Go on with a move of a partition that was just opened, if an earlier run left its copy."""
        spec = placement.spec
        partition = spec.topic_partition
        self._specs[partition] = spec
        store = placement.directory.stores.get(partition)
        for target in self._directories:
            name = target.futures.get(partition)
            if name is not None and store is not None:
                self._opened_moves.begin(Move(spec, store, placement.directory, target, name))

    def _give_up_moves(self, directory: LogDirectory) -> None:
        self._opened_moves.cancel_in(directory)

    async def _assign(self, partition: TopicPartition, directory_id: bytes) -> None:
        await self._opened_metadata.assign_directory(partition, directory_id)

    async def _lose_while_opening(
        self, directory: LogDirectory, error: OSError, placements: Sequence[Placement]
    ) -> dict[TopicPartition, str]:
        """Go on without a directory that failed while its partitions were opened; those of them.

        Raises:
            StorageError: there is nothing to go on with.
        """
        described = f"the log directory {directory.path} failed: {error}"
        if not self._directories.is_dispensable(directory):
            raise StorageError(described) from error
        self._directories.drop(directory, str(error))
        lost = [each.spec.topic_partition for each in placements if each.directory is directory]
        self._opened_metadata.forget_directory(directory.id_bytes)
        await trio.to_thread.run_sync(directory.release)
        return dict.fromkeys(lost, described)

    async def set_strays_aside(self) -> None:
        """See `Storage.set_strays_aside`."""

        def set_aside_in(directory: LogDirectory) -> None:
            set_strays_aside(directory, self._known)

        await trio.to_thread.run_sync(self._directories.each, set_aside_in)
        lost = {key for key in self._losses.partitions if self._known.has(key)}
        if lost:
            await self._opened_metadata.lose_partitions(sorted(lost))

    async def log_directories(self) -> Sequence[LogDirectoryView]:
        """See `Storage.log_directories`."""
        moves = self._opened_moves.under_way()
        directories = tuple(self._directories)
        views = await trio.to_thread.run_sync(lambda: [view_of(each, moves) for each in directories])
        offline = [
            LogDirectoryView(str(path), (), failure=why) for path, why in self._directories.offline.items()
        ]
        return sorted([*views, *offline], key=lambda view: view.path)

    async def move_partition(self, partition: TopicPartition, path: str) -> None:
        """See `Storage.move_partition`."""
        target = self._directories.at(path)
        failure = self._losses.partitions.get(partition)
        if failure is not None:
            raise StorageError(f"{partition} is offline: {failure}")
        source = self._directories.of(partition)
        if source is None:
            raise StorageError(f"{partition} is not open")
        if source is target:
            self._opened_moves.cancel([partition])
            return
        store = source.stores[partition]
        spec = self._specs[partition]._replace(config=store.config.topic)
        self._opened_moves.begin(Move(spec, store, source, target, future_directory(partition)))

    @property
    def moves_under_way(self) -> Sequence[Move]:
        """Moves that are not done yet."""
        return self._opened_moves.under_way()

    @property
    def _opened_moves(self) -> Moves:
        if self._moves is None:
            raise RuntimeError("the storage is not open")
        return self._moves

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """See `Storage.delete_partitions`."""
        names = [partition for partition, _ in partitions]
        self._opened_moves.cancel(names)
        await self._opened_moves.wait_decided(names)
        await trio.to_thread.run_sync(self._delete_partitions, [partition for partition, _ in partitions])

    def _delete_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._losses.partitions.pop(partition, None)
            self._specs.pop(partition, None)
        for directory in self._directories:
            stores = [directory.stores[key] for key in partitions if key in directory.stores]
            for store in stores:
                store.retire()
                key = store.topic_partition
                store.delete_later(set_aside(directory, key, delete_directory(key)))
            if stores:
                # Or else, after a loss of power, a new topic of that name would find the records of this one.
                disk.sync_directory(directory.path)

    @property
    def _threads_per_directory(self) -> int:
        return self._context.config[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR]

    async def close_partitions(self, jobs: Sequence[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """See `Storage.close_partitions`."""
        places = {key: directory for directory in self._directories for key in directory.stores}
        await run_by_directory([(places.get(key), job) for key, job in jobs], self._threads_per_directory)

    async def close(self) -> None:
        """See `Storage.close`.

        Raises:
            StorageError: something could not be made durable; its directory is not marked clean.
        """
        if self._moves is not None:
            await self._moves.stop()
        self._losses.stop_listening()
        held = self._directories.with_home()
        directories, self._directories.in_service = self._directories.in_service, []
        try:
            errors = await close_stores(directories, self._threads_per_directory)
            if self._metadata is not None:
                errors += await close_metadata(self._metadata, stopped_clean=not errors)
                known, epoch = self._context.high_watermarks, self._metadata.broker_epoch
                errors += await trio.to_thread.run_sync(mark_clean, directories, known, epoch)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_release_all, held)
        if errors:
            raise StorageError("not everything could be closed properly: " + "; ".join(errors))


def _release_all(directories: Sequence[LogDirectory]) -> None:
    for directory in directories:
        directory.release()
