"""The storage of one broker: its log directories, its metadata log and its background work."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import trio

from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.storage import (
    MetadataStore,
    PartitionSpec,
    PartitionStore,
    StorageContext,
    TopicPartition,
)
from tidelog.kernel.tasks import PeriodicTask
from tidelog.plugins.storage_file import disk, keys
from tidelog.plugins.storage_file.directories.deletion import INTERVAL_MS as DELETION_INTERVAL_MS
from tidelog.plugins.storage_file.directories.deletion import DeletionQueue, remove_all
from tidelog.plugins.storage_file.directories.ids import new_id
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.partition_metadata import decode_partition_metadata
from tidelog.plugins.storage_file.indexes.choice import IndexFormats
from tidelog.plugins.storage_file.kraft.home import MetadataHome
from tidelog.plugins.storage_file.kraft.store import KraftMetadata
from tidelog.plugins.storage_file.names import PARTITION_METADATA, delete_directory
from tidelog.plugins.storage_file.recovery.opening import Placement
from tidelog.plugins.storage_file.recovery.parallel_opening import ParallelOpening
from tidelog.plugins.storage_file.segments.segment_files import was_never_written
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)

_RECOVERY_POINTS_MS = keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS
_LOG_STARTS_MS = keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS
DESCRIPTOR_SHARE = 0.6
"""Of the process's descriptors that many may be open before files of idle partitions are closed early."""
STRANGERS_NAMED = 10
"""So many partitions of unknown topics are named in the log; their number is told anyway."""
METADATA_INTERVAL_MS = 60_000
"""How often it is looked whether a snapshot of the metadata is due, or some of it too old."""
IDLE_CHECK_INTERVAL_MS = 60_000
"""Files of partitions that were used in neither of two such intervals are closed."""


class FileStorage:
    """`Storage` in Apache Kafka's file formats."""

    def __init__(self, context: StorageContext) -> None:
        self._context = context
        self._directories: list[LogDirectory] = []
        self._home: MetadataHome | None = None
        self._metadata: KraftMetadata | None = None
        self._clean_start = False
        self._deletions = DeletionQueue()
        self._registered: frozenset[UUID] = frozenset()
        self._services = Services(
            context.now_ms,
            context.tasks.in_thread,
            self._deletions.add,
            self._release_idle,
            int(disk.raise_descriptor_limit() * DESCRIPTOR_SHARE),
            self._write_recovery_points,
            IndexFormats(context.index_formats),
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

    async def open(self) -> None:
        """See `Storage.open`."""
        try:
            await trio.to_thread.run_sync(self._open)
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

    def _open(self) -> None:
        self._services.index_formats.check(self._context.config)
        for path in self._paths():
            self._directories.append(LogDirectory(path))
        self._home = MetadataHome(self._context, self._directories)
        self._load_directories(self._home)

    def abandon(self) -> None:
        """Let go of the directories as they are, as the end of the process would."""
        for directory in self._with_home(self._directories):
            directory.release()
        self._directories = []

    def _with_home(self, directories: Sequence[LogDirectory]) -> list[LogDirectory]:
        """Those directories, and that of the metadata log if it is apart from them."""
        home = self._home
        return [*directories, home.directory] if home is not None and home.is_apart else list(directories)

    def _paths(self) -> list[Path]:
        config = self._context.config
        paths = [Path(text).absolute() for text in config[keys.LOG_DIRS] or config[keys.LOG_DIR]]
        if len({path.resolve() for path in paths}) < len(paths):
            raise ConfigError(f"log.dirs names a directory twice: {', '.join(map(str, paths))}")
        return paths

    def _load_directories(self, home: MetadataHome) -> None:
        context = self._context
        everything = self._with_home(self._directories)
        cluster_id: str | None = None
        for directory in everything:
            cluster_id = directory.claim(cluster_id, context.node_id)
        cluster_id = cluster_id or new_id()
        for directory in everything:
            directory.identify(cluster_id, context.node_id, context.now_ms())
        # Before the mark of a clean stop is taken: who else this directory belongs to finds it as it was.
        self._metadata = metadata = home.open(cluster_id, self._services)
        for directory in self._directories:
            directory.load()
        self._clean_start = all(directory.clean for directory in self._directories)
        known = [*metadata.topics(), *metadata.to_adopt]
        self._registered = frozenset(topic.topic_id for topic in known)
        self._look_after_strangers({topic.name: topic.partitions for topic in known})

    def _look_after_strangers(self, known: dict[str, int]) -> None:
        """Finish deletions that a crash came into, and tell of partitions that belong to no topic."""
        deleted = self._opened_metadata.deleted_topics
        for directory in self._directories:
            strangers = [key for key in sorted(directory.folders) if key.partition >= known.get(key.topic, 0)]
            left = [key for key in strangers if not _is_leftover(directory, key, deleted)]
            for partition in set(strangers).difference(left):
                directory.leftovers.append(self._set_aside(directory, partition))
            if left:
                _tell_of_strangers(directory, left)

    def _set_aside(self, directory: LogDirectory, partition: TopicPartition) -> str:
        """Rename a partition's directory so that its name is free; the new path."""
        target = f"{directory.path}/{delete_directory(partition)}"
        disk.rename(directory.partition_path(partition), target)
        directory.forget(partition)
        return target

    def _start_tasks(self) -> None:
        config = self._context.config
        self._every(DELETION_INTERVAL_MS, "delete files", self._deletions.run_due)
        self._every(IDLE_CHECK_INTERVAL_MS, "close idle files", self._check_idle)
        self._every(METADATA_INTERVAL_MS, "metadata snapshots", self._opened_metadata.keep_house)
        for key, name, write in (
            (_RECOVERY_POINTS_MS, "recovery points", LogDirectory.write_recovery_points),
            (_LOG_STARTS_MS, "log starts", LogDirectory.write_log_starts),
        ):
            if config[key]:
                self._every(config[key], f"checkpoint {name}", partial(self._in_each_directory, write))

    def _every(self, interval_ms: int, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._context.tasks.start(PeriodicTask(name, run, interval_ms, initial_delay_ms=interval_ms))

    async def _in_each_directory(self, write: Callable[[LogDirectory], None]) -> None:
        for directory in self._directories:
            await trio.to_thread.run_sync(write, directory)

    def _write_recovery_points(self) -> None:
        for directory in self._directories:
            directory.write_recovery_points()

    def _release_idle(self) -> None:
        for directory in self._directories:
            # A copy, since partitions are deleted in a thread.
            for store in list(directory.stores.values()):
                store.release_idle()

    async def _check_idle(self) -> None:
        self._release_idle()

    async def open_partitions(
        self, specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        """See `Storage.open_partitions`.

        Raises:
            OSError: the disk refused.
            StorageError: a directory of that name belongs to something else, or cannot be served.
        """
        placements = self._place(specs)
        threads = self._context.config[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR]
        opening = ParallelOpening(self._services, self._registered, threads, progress)
        await opening.run(placements)
        stores = {store.topic_partition: store for store in opening.stores}
        for placement in placements:
            placement.directory.add(stores[placement.spec.topic_partition])
        return [stores[spec.topic_partition] for spec in specs]

    def _place(self, specs: Sequence[PartitionSpec]) -> list[Placement]:
        """Where each partition is, or is to be: in the directory that has the fewest partitions."""
        counts = {directory: len(directory.folders) for directory in self._directories}
        placements: list[Placement] = []
        for spec in specs:
            if any(spec.topic_partition in home.stores for home in self._directories):
                raise StorageError(f"{spec.topic_partition} is open already")
            homes = [home for home in self._directories if spec.topic_partition in home.folders]
            if len(homes) > 1:
                paths = " and ".join(home.partition_path(spec.topic_partition) for home in homes)
                raise StorageError(f"{spec.topic_partition} is there twice: {paths}; move one of them away")
            if not homes:
                self._services.index_formats.check_topic(spec.config)
            home = homes[0] if homes else min(self._directories, key=counts.__getitem__)
            counts[home] += not homes
            placements.append(Placement(spec, home, exists=bool(homes)))
        return placements

    async def delete_partitions(self, partitions: Sequence[tuple[TopicPartition, PartitionStore]]) -> None:
        """See `Storage.delete_partitions`."""
        await trio.to_thread.run_sync(self._delete_partitions, [partition for partition, _ in partitions])

    def _delete_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        for directory in self._directories:
            stores = [directory.stores[key] for key in partitions if key in directory.stores]
            for store in stores:
                store.retire()
                store.delete_later(self._set_aside(directory, store.topic_partition))
            if stores:
                # Or else, after a loss of power, a new topic of that name would find the records of this one.
                disk.sync_directory(directory.path)

    async def close(self) -> None:
        """See `Storage.close`.

        Raises:
            StorageError: something could not be made durable; its directory is not marked clean.
        """
        directories, self._directories = self._directories, []
        try:
            errors = await trio.to_thread.run_sync(_close_stores, directories)
            errors += await self._close_metadata(stopped_clean=not errors)
            errors += await trio.to_thread.run_sync(self._mark_clean, directories)
        finally:
            for directory in self._with_home(directories):
                directory.release()
        if errors:
            raise StorageError("not everything could be closed properly: " + "; ".join(errors))

    async def _close_metadata(self, *, stopped_clean: bool) -> list[str]:
        metadata = self._metadata
        if metadata is None:
            return []
        try:
            if stopped_clean:
                await metadata.stop()
        except (OSError, StorageError) as error:
            # What it holds is closed all the same; the second complaint would be the first one's.
            with contextlib.suppress(OSError):
                await trio.to_thread.run_sync(metadata.close)
            return [f"the metadata log: {error}"]
        try:
            await trio.to_thread.run_sync(metadata.close)
        except OSError as error:
            return [f"the metadata log: {error}"]
        return []

    def _mark_clean(self, directories: Sequence[LogDirectory]) -> list[str]:
        errors: list[str] = []
        for directory in directories:
            if directory.failed or self._metadata is None:
                continue
            try:
                directory.mark_clean(self._metadata.broker_epoch)
            except OSError as error:
                errors.append(f"{directory.path}: {error}")
        return errors


def _close_stores(directories: Sequence[LogDirectory]) -> list[str]:
    """Blocking: close every partition, however many of them fail; what failed."""
    errors: list[str] = []
    for directory in directories:
        for store in directory.stores.values():
            try:
                store.close()
            except OSError as error:
                directory.failed = True
                errors.append(f"{store.directory}: {error}")
    return errors


def _tell_of_strangers(directory: LogDirectory, strangers: Sequence[TopicPartition]) -> None:
    names = ", ".join(map(str, strangers[:STRANGERS_NAMED]))
    _log.warning(
        "%s has partitions that the metadata log does not know (%d); they are left alone: %s%s",
        directory.path,
        len(strangers),
        names,
        ", ..." if len(strangers) > STRANGERS_NAMED else "",
    )


def _is_leftover(directory: LogDirectory, partition: TopicPartition, deleted: Mapping[UUID, str]) -> bool:
    """Whether a crash left a partition that a deletion was to take away, or that a creation had only begun.

    After a loss of power it may not tell its topic's id; then its name has to do.
    """
    topic_id = _topic_id_of(directory, partition)
    if topic_id in deleted or (topic_id is None and partition.topic in deleted.values()):
        return True
    return not directory.clean and was_never_written(directory.partition_path(partition))


def _topic_id_of(directory: LogDirectory, partition: TopicPartition) -> UUID | None:
    content = disk.read_file(f"{directory.partition_path(partition)}/{PARTITION_METADATA}")
    try:
        return None if content is None else decode_partition_metadata(content)
    except ValueError:
        return None
