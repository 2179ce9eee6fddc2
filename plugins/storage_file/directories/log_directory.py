"""One directory of `log.dirs`: its lock, ids, clean shutdown file, checkpoints and partitions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.ids import decode_uuid, new_id
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.storage_file.directories.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    consume_clean_shutdown_file,
    read_checkpoint,
    rewrite_checkpoint,
    rewriting_policy,
    write_checkpoint,
    write_clean_shutdown_file,
)
from tidelog.plugins.storage_file.directories.deletion import DeletionQueue
from tidelog.plugins.storage_file.directories.lock import DirectoryLock
from tidelog.plugins.storage_file.directories.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    decode_partition_metadata,
    read_meta_properties,
    write_meta_properties,
)
from tidelog.plugins.storage_file.names import (
    DELETE_MARK,
    PARTITION_METADATA,
    STRAY_MARK,
    parse_future_directory,
    parse_partition_directory,
    partition_directory,
)
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)

METADATA_LOG = "__cluster_metadata"


class DirectoryUnusable(ConfigError):
    """The system refuses this directory; others may be usable."""


class LogDirectory:
    """Log directory whose lock this broker holds.

    `stores` are its open partitions, `folders` all partitions that have a directory here, open or not,
    `futures` the copies in it that are to replace a partition in another directory, by name.
    `id_bytes` is the directory's id, `services` are for its partitions, `deletions` what waits to be removed
    from it. `failed`: not everything in it could
    be closed properly.
    """

    def __init__(self, path: Path) -> None:
        """Take the directory, creating it when it is not there.

        Raises:
            DirectoryUnusable: the system refuses; the message says why.
            ConfigError: another broker works on it.
        """
        self.path = path
        try:
            path.mkdir(mode=disk.DIRECTORY_MODE, parents=True, exist_ok=True)
            self._lock = DirectoryLock(path)
        except OSError as error:
            raise DirectoryUnusable(
                f"log directory {path} cannot be used: {error.strerror or error}; make it a directory that "
                "this user may write to, or set log.dirs to another one"
            ) from None
        self.id_bytes = bytes(16)
        self.stores: dict[TopicPartition, FilePartitionStore] = {}
        self.folders: set[TopicPartition] = set()
        self.futures: dict[TopicPartition, str] = {}
        self.services: Services
        self.leftovers: list[str] = []
        self.deletions = DeletionQueue()
        self.clean = False
        self.failed = False
        self._arriving: dict[TopicPartition, FilePartitionStore] = {}
        self._released = False
        self._writing = threading.Lock()
        self._unchecked: set[TopicPartition] = set()
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._rewritten: dict[str, dict[TopicPartition, int]] = {}
        self._forgetting_owed = False

    def claim(self, cluster_id: str | None, node_id: int) -> str | None:
        """Blocking: check the directory's ids against the broker's; its cluster id, None when it is new.

        Raises:
            ConfigError: it belongs to another cluster or node.
        """
        ids = read_meta_properties(self.path)
        if ids is None:
            return cluster_id
        for name, found, wanted in (
            ("cluster.id", ids.cluster_id, cluster_id),
            ("node.id", ids.node_id, node_id),
        ):
            if found is not None and wanted is not None and found != wanted:
                raise ConfigError(
                    f"{self.path / META_PROPERTIES} says {name}={found}, but this broker's is {wanted}; "
                    "log.dirs must not name another broker's directory"
                )
        return ids.cluster_id or cluster_id

    def identify(self, cluster_id: str, node_id: int, now_ms: int) -> None:
        """Blocking: write the ids that the directory lacks, and list its partitions.

        Raises:
            ConfigError: the directory's id is malformed.
        """
        ids = read_meta_properties(self.path)
        directory_id = ids.directory_id if ids is not None and ids.directory_id is not None else new_id()
        if ids is None or None in (ids.cluster_id, ids.node_id, ids.directory_id):
            write_meta_properties(self.path, MetaProperties(cluster_id, node_id, directory_id), now_ms)
        try:
            self.id_bytes = decode_uuid(directory_id).bytes
        except ValueError as error:
            raise ConfigError(f"{self.path / META_PROPERTIES}: directory.id: {error}") from None
        self._list()

    def load(self) -> None:
        """Blocking: consume the clean shutdown file and read the checkpoints."""
        # A directory without any partition has nothing that a crash could have damaged.
        self.clean = consume_clean_shutdown_file(self.path) or not self.folders
        self._unchecked = set() if self.clean else set(self.folders)
        self._recovery_points = read_checkpoint(self.path / RECOVERY_POINT_CHECKPOINT)
        self._log_starts = read_checkpoint(self.path / LOG_START_CHECKPOINT)
        self._high_watermarks = read_checkpoint(self.path / HIGH_WATERMARK_CHECKPOINT)
        with disk.scandir(self.path) as entries:
            for entry in entries:
                policy = rewriting_policy(entry.name)
                if policy is not None:
                    self._rewritten[policy] = read_checkpoint(self.path / entry.name)

    def _list(self) -> None:
        with disk.scandir(self.path) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(DELETE_MARK):
                    self.leftovers.append(entry.path)
                elif name.endswith(STRAY_MARK):
                    _log.warning("%s is left alone: it is of no topic, look at it", entry.path)
                elif future := parse_future_directory(name):
                    # Each attempt to move has a name of its own, so there may be two copies. Only one can be
                    # continued.
                    if future in self.futures:
                        self.leftovers.append(entry.path)
                    self.futures.setdefault(future, name)
                elif entry.is_dir():
                    found = parse_partition_directory(name)
                    # The metadata log is opened by name. Among the partitions it would be one of no topic,
                    # and be renamed to `-stray`.
                    if found is not None and found.topic != METADATA_LOG:
                        self.folders.add(found)

    def partition_path(self, partition: TopicPartition) -> str:
        """Return the directory of a partition."""
        return f"{self.path}/{partition_directory(partition)}"

    def topic_id_of(self, partition: TopicPartition) -> UUID | None:
        """Blocking: return the topic id in a partition's `partition.metadata`, None without that file.

        Raises:
            ValueError: the file is malformed.
        """
        content = disk.read_file(f"{self.partition_path(partition)}/{PARTITION_METADATA}")
        return None if content is None else decode_partition_metadata(content)

    def recover_from(self, partition: TopicPartition) -> int | None:
        """Return the offset from which a partition has to be checked, None when it does not have to.

        The metadata log is checked whole, as Apache Kafka does: it is short, and everything hangs on it.
        """
        if partition.topic == METADATA_LOG:
            return 0
        return self._recovery_points.get(partition, 0) if partition in self._unchecked else None

    def log_start(self, partition: TopicPartition) -> int:
        """Return a partition's checkpointed log start offset, 0 without one."""
        return self._log_starts.get(partition, 0)

    def add(self, store: FilePartitionStore) -> None:
        """Add an opened partition."""
        self.stores[store.topic_partition] = store
        self.folders.add(store.topic_partition)
        self._unchecked.discard(store.topic_partition)

    def forget(self, partition: TopicPartition) -> None:
        """Remove a partition whose directory was renamed; `write_forgotten` is next, unless at the start."""
        self.stores.pop(partition, None)
        self.folders.discard(partition)
        self._unchecked.discard(partition)

    def found(self, partition: TopicPartition) -> None:
        """Add a partition whose directory was just renamed to its name; it is recovered when it is opened."""
        self.folders.add(partition)
        self._unchecked.add(partition)

    def write_checkpoints_of(self, partition: TopicPartition, copy: FilePartitionStore) -> None:
        """Blocking: checkpoint the offsets of a future replica that is about to be swapped in."""
        self._arriving[partition] = copy
        self.write_log_starts()
        self.write_recovery_points()
        self.write_rewritten()

    def arrived(self, partition: TopicPartition) -> None:
        """Remove a future replica, which was swapped in or discarded."""
        self._arriving.pop(partition, None)
        self.futures.pop(partition, None)

    def write_forgotten(self) -> None:
        """Blocking: take partitions that are gone out of all checkpoints, where new ones may get their names.

        A crash would give their offsets to those. What a full disk refuses is owed, and written before a new
        partition is created, or with the next checkpoints.

        Raises:
            OSError: the disk refused for another reason.
        """
        try:
            self._write_forgotten()
        except OSError as error:
            if not disk.is_full(error):
                raise
            self.services.disk_failed(error)

    def write_owed(self) -> None:
        """Blocking: take out of all checkpoints what a full disk refused to.

        Raises:
            OSError: the disk refused, for whatever reason.
        """
        if self._forgetting_owed:
            self._write_forgotten()

    def _write_forgotten(self) -> None:
        with self._writing:
            # Under the lock, and until all is written: what one thread is refused must not count as written
            # by another one, nor what is still being written.
            self._forgetting_owed = True
            for name, offsets in self._checkpoints():
                gone = offsets.keys() - self.folders - self._arriving.keys()
                if gone and not self._released:
                    kept = {key: offset for key, offset in offsets.items() if key not in gone}
                    write_checkpoint(self.path / name, kept)
                    for partition in gone:
                        del offsets[partition]
            self._forgetting_owed = False

    def _checkpoints(self) -> Sequence[tuple[str, dict[TopicPartition, int]]]:
        """Return the name and the content of each checkpoint."""
        return (
            (RECOVERY_POINT_CHECKPOINT, self._recovery_points),
            (LOG_START_CHECKPOINT, self._log_starts),
            (HIGH_WATERMARK_CHECKPOINT, self._high_watermarks),
            *((rewrite_checkpoint(policy), offsets) for policy, offsets in self._rewritten.items()),
        )

    def write_recovery_points(self) -> None:
        """Blocking: checkpoint the recovery points; those of partitions that are not open stay."""
        with self._writing:
            # After `release` another broker may have the directory. What is known changes only after the
            # file, so that a write which the disk refuses is tried again.
            merged = self._merge(self._recovery_points, lambda store: store.recovery_point)
            if merged != self._recovery_points and not self._released:
                write_checkpoint(self.path / RECOVERY_POINT_CHECKPOINT, merged)
                self._recovery_points = merged

    def write_log_starts(self) -> None:
        """Blocking: checkpoint the log start offsets that lie inside of a segment."""
        with self._writing:
            merged = self._merge(self._log_starts, _log_start_to_remember)
            if merged != self._log_starts and not self._released:
                write_checkpoint(self.path / LOG_START_CHECKPOINT, merged)
                self._log_starts = merged

    def write_high_watermarks(self, known: Mapping[TopicPartition, int]) -> None:
        """Blocking: checkpoint the high watermarks."""
        with self._writing:
            merged = self._merge(self._high_watermarks, lambda store: known.get(store.topic_partition))
            if merged != self._high_watermarks and not self._released:
                write_checkpoint(self.path / HIGH_WATERMARK_CHECKPOINT, merged)
                self._high_watermarks = merged

    def write_rewritten(self) -> None:
        """Blocking: checkpoint how far the cleanup policies have rewritten the logs."""
        with self._writing:
            stores = [*self._arriving.values(), *self.stores.values()]
            policies = {policy for store in stores for policy in store.rewritten}
            for policy in sorted(policies | self._rewritten.keys()):
                known = self._rewritten.get(policy, {})
                merged = self._merge(known, _rewritten_by(policy))
                if merged != known and not self._released:
                    write_checkpoint(self.path / rewrite_checkpoint(policy), merged)
                    self._rewritten[policy] = merged

    def recall_checkpoints(self, store: FilePartitionStore) -> None:
        """Set what is checkpointed of an opened log; warn when it ends below that.

        What is appended there in place of what was lost was not rewritten.
        """
        partition = store.topic_partition
        if partition not in self.folders:
            # It is new: what a checkpoint has of that name is of a partition that was there before.
            return
        for policy, offsets in self._rewritten.items():
            until = offsets.get(partition)
            if until is not None and until <= store.log_end_offset:
                store.rewritten[policy] = until
            elif until is not None:
                _log.warning(
                    "%s ends at offset %d, and cleanup policy %s had rewritten what is below %d: it is to "
                    "rewrite the log from its start on, since its end was lost",
                    store.directory, store.log_end_offset, policy, until,
                )  # fmt: skip
        shown = store.checkpointed_high_watermark = self._high_watermarks.get(partition, 0)
        if store.log_end_offset < shown:
            _log.warning(
                "%s ends at offset %d, and readers had been shown what is below %d: that is lost",
                store.directory, store.log_end_offset, shown,
            )  # fmt: skip

    def _merge(
        self, known: dict[TopicPartition, int], offset_of: Callable[[FilePartitionStore], int | None]
    ) -> dict[TopicPartition, int]:
        # Copied in one step: the event loop adds and removes partitions while this thread iterates.
        stores = {**self._arriving, **self.stores}
        merged = {key: offset for key, offset in known.items() if key in self.folders and key not in stores}
        for key, store in stores.items():
            offset = offset_of(store)
            if offset is not None:
                merged[key] = offset
        return merged

    def mark_clean(self, broker_epoch: int) -> None:
        """Blocking: write the checkpoints and the clean shutdown file; every store has to be closed.

        The file would also cover partitions that were not opened since an unclean stop, so with any of those
        it is not written.
        """
        # The file comes last: it says that everything before it was written.
        self.write_recovery_points()
        self.write_log_starts()
        self.write_rewritten()
        if self._unchecked:
            names = ", ".join(sorted(map(str, self._unchecked)))
            _log.warning("%s is not marked clean: %s were not opened after a crash", self.path, names)
            return
        write_clean_shutdown_file(self.path, broker_epoch)

    def release(self) -> None:
        """Blocking: release the lock; from then on nothing in the directory is written or removed."""
        self.deletions.close()
        with self._writing:
            # Under the lock, so that a checkpoint that a thread is writing is complete before another broker
            # may lock the directory.
            self._released = True
            self._lock.release()


def _rewritten_by(policy: str) -> Callable[[FilePartitionStore], int | None]:
    return lambda store: store.rewritten.get(policy)


def _log_start_to_remember(store: FilePartitionStore) -> int | None:
    start = store.log_start_offset
    # The name of the first segment has any other one, so Apache Kafka leaves those out, too.
    return start if start > store.first_segment_offset else None
