"""Opening a metadata log: formatted if it is new, read into an image, checked to be this broker's own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel.errors import BrokerError, ConfigError, CorruptBatch
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel import disk
from tidelog.plugins.metadata_kraft.formatting import (
    BOOTSTRAP_CHECKPOINT,
    FORMAT_SNAPSHOT,
    format_directory,
    sole_voter,
)
from tidelog.plugins.metadata_kraft.framing import UnreadableRecord
from tidelog.plugins.metadata_kraft.log import METADATA_PARTITION, MetadataLog
from tidelog.plugins.metadata_kraft.quorum_state import read_quorum_state
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.snapshots import SnapshotId, list_snapshots, read_snapshot
from tidelog.plugins.metadata_kraft.takeover import check_takeover, foreign_settings
from tidelog.plugins.storage_file.names import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_file

_log = logging.getLogger(__name__)

METADATA_DIRECTORY = str(METADATA_PARTITION)


class MetadataPlace(NamedTuple):
    """Where the metadata log lies and whose it is: `root` is the log directory that has it.

    `directory_id` is the id of `root`, `log_directory_ids` are those of all directories with partitions.
    `dynamic_keys` are the names of the broker keys that can be changed while it runs.
    """

    root: Path
    node_id: int
    directory_id: bytes
    cluster_id: str
    log_directory_ids: tuple[bytes, ...]
    dynamic_keys: frozenset[str]

    @property
    def directory(self) -> Path:
        """The log's own directory."""
        return self.root / METADATA_DIRECTORY


class OpenedMetadata(NamedTuple):
    """A log that was read: `epoch` is the newest that anybody led it in, `snapshots` are there, oldest first.

    `bytes_since_snapshot` is how much of the log the newest snapshot does not stand for.
    """

    log: MetadataLog
    replay: MetadataReplay
    snapshots: list[SnapshotId]
    epoch: int
    bytes_since_snapshot: int


def has_metadata_log(root: Path) -> bool:
    """Blocking: whether a log directory has a metadata log, or a part of one."""
    try:
        with disk.scandir(root / METADATA_DIRECTORY) as entries:
            return any(entry.name.endswith((LOG_SUFFIX, ".checkpoint")) for entry in entries)
    except FileNotFoundError:
        return False


def open_metadata(
    place: MetadataPlace, open_store: Callable[[], PartitionStore], now_ms: Callable[[], int]
) -> OpenedMetadata:
    """Blocking: open, or format, the metadata log.

    Raises:
        ConfigError: it cannot be taken over; the message says why and what to do.
        OSError: the disk refused.
    """
    if not has_metadata_log(place.root):
        with contextlib.suppress(FileExistsError):
            disk.mkdir(place.directory)
        voter = sole_voter(place.node_id, place.directory_id)
        format_directory(place.root, place.directory, voter, now_ms())
    snapshots = list_snapshots(place.directory)
    store = open_store()
    if snapshots and snapshots[-1].offset > store.log_end_offset:
        store.close()
        _start_at(place.directory, snapshots[-1])
        store = open_store()
    log = MetadataLog(store, now_ms)
    try:
        return _read(place, log, snapshots)
    except UnreadableRecord as error:
        log.close()
        raise ConfigError(
            f"the metadata log {place.directory} cannot be taken over: {error}. Start the Apache Kafka that "
            "wrote it, or restore the directory from a backup"
        ) from error
    except BaseException:
        log.close()
        raise


def _start_at(directory: Path, snapshot: SnapshotId) -> None:
    """Empty a log that ends before the newest snapshot: it goes on where the snapshot ends."""
    _log.warning("%s ends before its newest snapshot %s and goes on there", directory, snapshot.file_name)
    with disk.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(SEGMENT_SUFFIXES)]
    for name in sorted(names, reverse=True):
        disk.remove_if_there(directory / name)
    disk.write_file(directory / segment_file(snapshot.offset, LOG_SUFFIX), b"", durable=True)
    disk.sync_directory(directory)


def _read(place: MetadataPlace, log: MetadataLog, snapshots: list[SnapshotId]) -> OpenedMetadata:
    snapshots = _forget_useless(place.directory, log, snapshots)
    replay, start = _read_snapshots(place.directory, log, snapshots)
    log_bytes = 0
    for header, batch in log.batches(start):
        if header.next_offset > start:
            replay.feed(header, batch)
            log_bytes += len(batch)
    log.last_timestamp = replay.last_timestamp
    quorum = read_quorum_state(place.directory)
    check_takeover(place.directory, replay, quorum, place.node_id, place.directory_id)
    _tell_of_strangers(place.directory, replay, place.dynamic_keys)
    epochs = [log.epoch, replay.last_epoch, *(snapshot.epoch for snapshot in snapshots)]
    epoch = max(*epochs, 0 if quorum is None else quorum.leader_epoch)
    return OpenedMetadata(log, replay, snapshots, epoch, log_bytes)


def _forget_useless(directory: Path, log: MetadataLog, snapshots: Sequence[SnapshotId]) -> list[SnapshotId]:
    """Remove snapshots from before the log's start: nothing follows them."""
    for snapshot in snapshots:
        if snapshot.offset < log.start_offset:
            disk.remove_if_there(directory / snapshot.file_name)
    return [snapshot for snapshot in snapshots if snapshot.offset >= log.start_offset]


def _read_snapshots(
    directory: Path, log: MetadataLog, snapshots: list[SnapshotId]
) -> tuple[MetadataReplay, int]:
    """The newest snapshot that is intact, and the offset that the log is read from after it."""
    for snapshot in reversed(snapshots):
        path = directory / snapshot.file_name
        try:
            replay = MetadataReplay()
            for header, batch in read_snapshot(path):
                replay.feed(header, batch, from_snapshot=True)
            replay.last_epoch = snapshot.epoch
            return replay, snapshot.offset
        except CorruptBatch as error:
            _log.warning("the snapshot %s is damaged and not used: %s", path, error)
    if log.start_offset or FORMAT_SNAPSHOT in snapshots:
        raise ConfigError(
            f"{directory} has no intact snapshot for what its log does not tell from its start, offset "
            f"{log.start_offset}; restore the directory from a backup"
        )
    return MetadataReplay(), 0


def _tell_of_strangers(directory: Path, replay: MetadataReplay, dynamic_keys: Container[str]) -> None:
    for api_key, count in sorted(replay.unknown.items()):
        _log.warning(
            "%s: %d records of type %d are unknown to this broker; they are kept as they are",
            directory, count, api_key,
        )  # fmt: skip
    names = foreign_settings(replay.image, dynamic_keys)
    if names:
        _log.warning(
            "%s sets broker keys that cannot be changed while this broker runs; they are taken from its own "
            "configuration only, and kept for Apache Kafka: %s",
            directory, ", ".join(names),
        )  # fmt: skip


def read_bootstrap(root: Path) -> MetadataReplay | None:
    """Blocking: what `bootstrap.checkpoint` says, for a log that nothing was written to; None without one.

    Raises:
        ConfigError: the file is damaged.
    """
    path = root / BOOTSTRAP_CHECKPOINT
    if disk.read_file(path) is None:
        return None
    replay = MetadataReplay()
    try:
        for header, batch in read_snapshot(path):
            replay.feed(header, batch, from_snapshot=True)
    except BrokerError as error:
        raise ConfigError(f"{path} cannot be used: {error}; restore it from a backup") from error
    return replay
