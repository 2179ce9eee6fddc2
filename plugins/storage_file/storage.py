"""The storage of one broker: its log directories, its metadata log and its background work."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import attrs
import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.errors import ConfigError, LogDirNotFound, StorageError
from tidelog.kernel.storage import (
    LogDirectoryView,
    MetadataStore,
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
)
from tidelog.kernel.tasks import PeriodicTask
from tidelog.plugins.storage_file import disk, keys
from tidelog.plugins.storage_file.closing import close_metadata, close_stores, mark_clean
from tidelog.plugins.storage_file.directories.deletion import INTERVAL_MS as DELETION_INTERVAL_MS
from tidelog.plugins.storage_file.directories.deletion import DeletionQueue, remove_all
from tidelog.plugins.storage_file.directories.description import view_of
from tidelog.plugins.storage_file.directories.failures import FailureChannel, tells_of_the_disk
from tidelog.plugins.storage_file.directories.ids import new_id
from tidelog.plugins.storage_file.directories.log_directory import DirectoryUnusable, LogDirectory
from tidelog.plugins.storage_file.directories.offline_store import OfflineStore
from tidelog.plugins.storage_file.directories.placing import Placing, configured_paths
from tidelog.plugins.storage_file.directories.strangers import (
    KnownTopics,
    finish_deletions,
    set_aside,
    set_duplicates_aside,
    set_impostors_aside,
    set_strays_aside,
)
from tidelog.plugins.storage_file.indexes.choice import IndexFormats
from tidelog.plugins.storage_file.kraft.home import MetadataHome
from tidelog.plugins.storage_file.kraft.opening import has_metadata_log
from tidelog.plugins.storage_file.kraft.store import KraftMetadata
from tidelog.plugins.storage_file.moving.leftovers import resolve_copies
from tidelog.plugins.storage_file.moving.moves import Move, Moves
from tidelog.plugins.storage_file.names import delete_directory, future_directory
from tidelog.plugins.storage_file.recovery.opening import Placement
from tidelog.plugins.storage_file.recovery.parallel_opening import ParallelOpening
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)

_RECOVERY_POINTS_MS = keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS
_LOG_STARTS_MS = keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS
DESCRIPTOR_SHARE = 0.6
"""Of the process's descriptors that many may be open before files of idle partitions are closed early."""
METADATA_INTERVAL_MS = 60_000
"""How often it is looked whether a snapshot of the metadata is due, or some of it too old."""
IDLE_CHECK_INTERVAL_MS = 60_000
"""Files of partitions that were used in neither of two such intervals are closed."""


class FileStorage:
    """`Storage` in Apache Kafka's file formats."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._directories: list[LogDirectory] = []
        self._offline: dict[Path, str] = {}
        self._failed: dict[TopicPartition, str] = {}
        self._home: MetadataHome | None = None
        self._metadata: KraftMetadata | None = None
        self._known = KnownTopics({}, {}, lambda _: None)
        self._clean_start = False
        self._closing = False
        self._deletions = DeletionQueue()
        self._registered: frozenset[UUID] = frozenset()
        self._failures: FailureChannel | None = None
        self._moves: Moves | None = None
        self._specs: dict[TopicPartition, PartitionSpec] = {}
        self._index_formats = IndexFormats(context.index_formats)
        self._descriptor_budget = int(disk.raise_descriptor_limit() * DESCRIPTOR_SHARE)

    def _services_for(self, directory: LogDirectory) -> Services:
        return Services(
            self._context.now_ms,
            self._context.tasks.in_thread,
            self._deletions.add,
            self._release_idle,
            self._descriptor_budget,
            directory.write_recovery_points,
            partial(self._disk_failed, directory),
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
    def _opened_home(self) -> MetadataHome:
        if self._home is None:
            raise RuntimeError("the storage is not open")
        return self._home

    @property
    def clean_start(self) -> bool:
        """Whether every log directory was closed properly, or is new."""
        return self._clean_start

    @property
    def failed_partitions(self) -> Mapping[TopicPartition, str]:
        """See `Storage.failed_partitions`."""
        return self._failed

    async def open(self) -> None:
        """See `Storage.open`."""
        paths = configured_paths(self._context.config)
        self._failures = FailureChannel(len(paths) + 1)
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
            if directory.leftovers:
                self._context.tasks.in_thread("remove leftovers", partial(remove_all, directory.leftovers))
        self._start_tasks()

    def _open(self, paths: Sequence[Path]) -> None:
        self._index_formats.check(self._context.config)
        for path in paths:
            try:
                self._directories.append(LogDirectory(path))
            except DirectoryUnusable as error:
                if len(self._offline) == len(paths) - 1:
                    raise
                self._lose_at_start(path, str(error))
        self._each(lambda directory: has_metadata_log(directory.path))
        self._home = MetadataHome(self._context, self._directories, self._offline)
        for directory in self._with_home(self._directories):
            directory.services = self._services_for(directory)
        self._load_directories(self._home)

    def _each(self, step: Callable[[LogDirectory], object]) -> None:
        """Blocking: do something with every log directory; those that fail are offline, unless all do."""
        for directory in tuple(self._directories):
            try:
                step(directory)
            except OSError as error:
                is_home = self._home is not None and directory is self._home.directory
                if is_home or len(self._directories) == 1:
                    raise
                self._directories.remove(directory)
                directory.release()
                self._lose_at_start(directory.path, str(error))

    def _lose_at_start(self, path: Path, reason: str) -> None:
        _log.error("log directory %s is offline until a restart finds it well: %s", path, reason)
        self._offline[path] = reason

    def abandon(self) -> None:
        """Let go of the directories as they are, as the end of the process would."""
        for directory in self._with_home(self._directories):
            directory.release()
        self._directories = []

    def _with_home(self, directories: Sequence[LogDirectory]) -> list[LogDirectory]:
        """Those directories, and that of the metadata log if it is apart from them."""
        home = self._home
        return [*directories, home.directory] if home is not None and home.is_apart else list(directories)

    def _load_directories(self, home: MetadataHome) -> None:
        context = self._context
        cluster_id = self._claim(home)
        if home.is_apart:
            home.directory.identify(cluster_id, context.node_id, context.now_ms())
        self._each(lambda directory: directory.identify(cluster_id, context.node_id, context.now_ms()))
        # Before the mark of a clean stop is taken: who else this directory belongs to finds it as it was.
        self._metadata = metadata = home.open(cluster_id)
        self._each(LogDirectory.load)
        self._clean_start = all(directory.clean for directory in self._directories)
        known = [*metadata.topics(), *metadata.to_adopt]
        self._registered = frozenset(topic.topic_id for topic in known)
        self._known = KnownTopics(
            {topic.name: topic for topic in known}, metadata.deleted_topics, metadata.assigned_directory
        )
        self._each(lambda directory: finish_deletions(directory, self._known))
        self._each(lambda directory: set_impostors_aside(directory, self._known))
        resolve_copies(self._directories, self._known)
        set_duplicates_aside(self._directories, self._known)

    def _claim(self, home: MetadataHome) -> str:
        """Blocking: the cluster id of the directories, a new one if they are all new."""
        found: str | None = None

        def claim(directory: LogDirectory) -> None:
            nonlocal found
            found = directory.claim(found, self._context.node_id)

        if home.is_apart:
            claim(home.directory)
        self._each(claim)
        return found or new_id()

    def _disk_failed(self, directory: LogDirectory, error: OSError) -> None:
        """Look, in any thread, at an error in a directory; if it is the disk's, the directory has failed."""
        if self._failures is not None and not self._closing and tells_of_the_disk(error, directory.path):
            self._failures.offer(directory, str(error))

    async def _take_failure(self) -> None:
        """Take the next directory that failed out of service."""
        if self._failures is None:
            return
        directory, reason = await self._failures.take()
        if self._closing:
            return
        is_home = directory is self._opened_home.directory
        if directory in self._directories:
            await self._lose(directory, reason)
        if is_home:
            self._context.halt(
                f"the log directory {directory.path}, which has the metadata log, failed: {reason}"
            )
        elif not self._directories:
            self._context.halt(f"all log directories have failed, at last {directory.path}: {reason}")
        else:
            await self._note_loss(directory)

    async def _lose(self, directory: LogDirectory, reason: str) -> None:
        lost = sorted(directory.stores)
        _log.error(
            "log directory %s failed and is offline until a restart, with %d partitions: %s",
            directory.path, len(lost), reason,
        )  # fmt: skip
        self._directories.remove(directory)
        self._offline[directory.path] = reason
        self._opened_moves.cancel_in(directory)
        described = f"the log directory {directory.path} failed: {reason}"
        self._failed.update(dict.fromkeys(lost, described))
        self._context.partitions_failed(lost, described)
        for store in directory.stores.values():
            store.fail(OSError(errno.EIO, described))
        # The lock of a file system that hangs may take its time.
        await trio.to_thread.run_sync(directory.release)

    async def _note_loss(self, directory: LogDirectory) -> None:
        """Write the loss into the metadata log; a broker that cannot do so in time must end."""
        timeout_ms = self._context.config[keys.LOG_DIR_FAILURE_TIMEOUT_MS]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._halt_after, timeout_ms, directory)
            try:
                await self._opened_metadata.lose_directory(directory.id_bytes, sorted(directory.stores))
            except (OSError, StorageError) as error:
                self._context.halt(f"the failure of {directory.path} cannot be noted: {error}")
            nursery.cancel_scope.cancel()

    async def _halt_after(self, timeout_ms: int, directory: LogDirectory) -> None:
        await trio.sleep(timeout_ms / 1000)
        self._context.halt(
            f"the failure of {directory.path} could not be noted within log.dir.failure.timeout.ms"
        )

    def _start_tasks(self) -> None:
        config = self._context.config
        self._context.tasks.start(PeriodicTask("log-dir-failure-handler", self._take_failure, 0))
        self._context.tasks.start(PeriodicTask("log-dir-moves", self._opened_moves.run_next, 0))
        self._every(DELETION_INTERVAL_MS, "delete files", self._deletions.run_due)
        self._every(IDLE_CHECK_INTERVAL_MS, "close idle files", self._check_idle)
        self._every(METADATA_INTERVAL_MS, "metadata snapshots", self._opened_metadata.keep_house)
        for key, name, write in (
            (_RECOVERY_POINTS_MS, "recovery points", LogDirectory.write_recovery_points),
            (_LOG_STARTS_MS, "log starts", LogDirectory.write_log_starts),
        ):
            if config[key]:
                task = partial(self._in_each_directory, write)
                delay_ms = config[kernel_keys.LOG_INITIAL_TASK_DELAY_MS]
                self._context.tasks.start(PeriodicTask(f"checkpoint {name}", task, config[key], delay_ms))

        interval_ms = config[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS]
        note = self._write_high_watermarks
        self._context.tasks.start(PeriodicTask("checkpoint high watermarks", note, max(interval_ms, 1)))

    async def _write_high_watermarks(self) -> None:
        known = self._context.high_watermarks()
        await self._in_each_directory(lambda directory: directory.write_high_watermarks(known))

    def _every(self, interval_ms: int, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._context.tasks.start(PeriodicTask(name, run, interval_ms, initial_delay_ms=interval_ms))

    async def _in_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in tuple(self._directories):
            try:
                await trio.to_thread.run_sync(write, directory)
            except OSError as error:
                _log.error("no checkpoint can be written in %s: %s", directory.path, error)
                self._disk_failed(directory, error)

    def _release_idle(self) -> None:
        for directory in self._directories:
            # A copy, since partitions are deleted in a thread.
            for store in list(directory.stores.values()):
                store.release_idle()

    async def _check_idle(self) -> None:
        self._release_idle()

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
        placing = Placing(self._directories, self._offline, self._known, self._registered)
        placements, offline = placing.place(specs)
        threads = self._context.config[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        opening = ParallelOpening(self._registered, threads, progress)
        await opening.run(placements)
        for directory, error in opening.lost.items():
            offline.update(await self._lose_while_opening(directory, error, placements))
        self._failed.update(offline)
        opened = {store.topic_partition: store for store in opening.stores}
        for placement in placements:
            if placement.spec.topic_partition not in offline:
                placement.directory.tell_of_loss(opened[placement.spec.topic_partition])
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
        if len(self._directories) == 1 or directory is self._opened_home.directory:
            raise StorageError(described) from error
        self._directories.remove(directory)
        self._lose_at_start(directory.path, str(error))
        lost = [each.spec.topic_partition for each in placements if each.directory is directory]
        self._opened_metadata.forget_directory(directory.id_bytes)
        await trio.to_thread.run_sync(directory.release)
        return dict.fromkeys(lost, described)

    async def set_strays_aside(self) -> None:
        """See `Storage.set_strays_aside`."""

        def set_aside_in(directory: LogDirectory) -> None:
            set_strays_aside(directory, self._known)

        await trio.to_thread.run_sync(self._each, set_aside_in)
        lost = {key for key in self._failed if self._known.has(key)}
        if lost:
            await self._opened_metadata.lose_partitions(sorted(lost))

    async def log_directories(self) -> Sequence[LogDirectoryView]:
        """See `Storage.log_directories`."""
        moves = self._opened_moves.under_way()
        directories = tuple(self._directories)
        views = await trio.to_thread.run_sync(lambda: [view_of(each, moves) for each in directories])
        offline = [LogDirectoryView(str(path), (), failure=why) for path, why in self._offline.items()]
        return sorted([*views, *offline], key=lambda view: view.path)

    async def move_partition(self, partition: TopicPartition, path: str) -> None:
        """See `Storage.move_partition`."""
        target = self._live_directory(path)
        failure = self._failed.get(partition)
        if failure is not None:
            raise StorageError(f"{partition} is offline: {failure}")
        source = next((each for each in self._directories if partition in each.stores), None)
        if source is None:
            raise StorageError(f"{partition} is not open")
        if source is target:
            self._opened_moves.cancel([partition])
            return
        store = source.stores[partition]
        spec = attrs.evolve(self._specs[partition], config=store.config)
        self._opened_moves.begin(Move(spec, store, source, target, future_directory(partition)))

    def _live_directory(self, path: str) -> LogDirectory:
        wanted = Path(path).absolute()
        for directory in self._directories:
            if directory.path == wanted:
                return directory
        if wanted in self._offline:
            raise StorageError(f"log directory {wanted} is offline: {self._offline[wanted]}")
        raise LogDirNotFound(f"{path} is none of the log directories of this broker")

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
            self._failed.pop(partition, None)
            self._specs.pop(partition, None)
        for directory in tuple(self._directories):
            stores = [directory.stores[key] for key in partitions if key in directory.stores]
            for store in stores:
                store.retire()
                key = store.topic_partition
                store.delete_later(set_aside(directory, key, delete_directory(key)))
            if stores:
                # Or else, after a loss of power, a new topic of that name would find the records of this one.
                disk.sync_directory(directory.path)

    async def close(self) -> None:
        """See `Storage.close`.

        Raises:
            StorageError: something could not be made durable; its directory is not marked clean.
        """
        if self._moves is not None:
            await self._moves.stop()
        self._closing = True
        directories, self._directories = self._directories, []
        try:
            errors = await trio.to_thread.run_sync(close_stores, directories)
            if self._metadata is not None:
                errors += await close_metadata(self._metadata, stopped_clean=not errors)
                known, epoch = self._context.high_watermarks, self._metadata.broker_epoch
                errors += await trio.to_thread.run_sync(mark_clean, directories, known, epoch)
        finally:
            for directory in self._with_home(directories):
                directory.release()
        if errors:
            raise StorageError("not everything could be closed properly: " + "; ".join(errors))
