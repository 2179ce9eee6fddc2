"""Opening of a metadata log: formatted if it is new, read into an image, validated for this node."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel import disk
from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.errors import ConfigError, CorruptBatch
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.seams.storage.directories import DataDirectories
from tidelog.plugins.metadata_kraft import keys
from tidelog.plugins.metadata_kraft.activation import bootstrap_image
from tidelog.plugins.metadata_kraft.directory import METADATA_DIRECTORY, has_metadata_log
from tidelog.plugins.metadata_kraft.encoding import UnreadableMetadataRecord
from tidelog.plugins.metadata_kraft.formatting import (
    FORMAT_SNAPSHOT,
    format_directory,
    sole_voter,
)
from tidelog.plugins.metadata_kraft.log import METADATA_PARTITION, METADATA_TOPIC_ID, MetadataLog
from tidelog.plugins.metadata_kraft.quorum_state import read_quorum_state
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.snapshots import SnapshotId, list_snapshots, read_snapshot
from tidelog.plugins.metadata_kraft.takeover import check_takeover, foreign_settings

_log = logging.getLogger(__name__)


class MetadataLocation(NamedTuple):
    """Location of the metadata log: `root` is its log directory, with its id."""

    root: Path
    node_id: int
    directory_id: bytes
    cluster_id: str

    @property
    def directory(self) -> Path:
        """The log's own directory."""
        return self.root / METADATA_DIRECTORY


class OpenedMetadata(NamedTuple):
    """A log that was read: `epoch` is its newest leader epoch, `snapshots` are sorted, oldest first.

    `bytes_since_snapshot` is how much of the log the newest snapshot does not cover.
    """

    log: MetadataLog
    replay: MetadataReplay
    snapshots: list[SnapshotId]
    epoch: int
    bytes_since_snapshot: int


def open_metadata(
    location: MetadataLocation, directories: DataDirectories, config: Config, now_ms: Callable[[], int]
) -> OpenedMetadata:
    """Blocking: open, or format, the metadata log.

    Raises:
        ConfigError: it cannot be taken over; the message says why and what to do.
        OSError: the disk refused.
    """
    if not has_metadata_log(location.root):
        with contextlib.suppress(FileExistsError):
            disk.mkdir(location.directory)
        voter = sole_voter(location.node_id, location.directory_id)
        format_directory(location.directory, voter, now_ms())
    snapshots = list_snapshots(location.directory)
    store = _open_store(directories, config)
    if snapshots and snapshots[-1].offset > store.log_end_offset:
        store.close()
        _log.warning(
            "%s ends before its newest snapshot %s and continues there",
            location.directory,
            snapshots[-1].file_name,
        )
        # Records that were appended below the snapshot's offset would never be read again.
        directories.empty_metadata_log(METADATA_PARTITION, snapshots[-1].offset)
        store = _open_store(directories, config)
    log = MetadataLog(store, now_ms)
    try:
        opened = _read(location, log, snapshots)
        _warn_of_foreign_content(location.directory, opened.replay, config.keys.dynamic_names())
        return opened
    except UnreadableMetadataRecord as error:
        log.close()
        raise ConfigError(
            f"the metadata log {location.directory} cannot be taken over: {error}. Start the Apache Kafka "
            "that wrote it, or restore the directory from a backup"
        ) from error
    except BaseException:
        log.close()
        raise


def _open_store(directories: DataDirectories, config: Config) -> PartitionStore:
    topic_config = TopicConfig(
        {
            "segment.bytes": config[keys.METADATA_LOG_SEGMENT_BYTES],
            "segment.ms": config[keys.METADATA_LOG_SEGMENT_MS],
        }
    )
    return directories.open_metadata_log(METADATA_PARTITION, METADATA_TOPIC_ID, topic_config)


def _read(location: MetadataLocation, log: MetadataLog, snapshots: list[SnapshotId]) -> OpenedMetadata:
    snapshots = _remove_useless(location.directory, log, snapshots)
    replay, start = _read_snapshots(location.directory, log, snapshots)
    log_bytes = 0
    for header, batch in log.batches(start):
        if header.next_offset > start:
            replay.feed(header, batch)
            log_bytes += len(batch)
    log.last_timestamp = replay.last_timestamp
    if not replay.image.metadata_version:
        replay.bootstrap = bootstrap_image(location.root, replay.bootstrap)
    quorum = read_quorum_state(location.directory)
    check_takeover(location.directory, replay, quorum, location.node_id, location.directory_id)
    epochs = [log.epoch, replay.last_epoch, *(snapshot.epoch for snapshot in snapshots)]
    # The next epoch must be above all that the log, a snapshot of it or an election has seen.
    epoch = max(*epochs, 0 if quorum is None else quorum.leader_epoch)
    return OpenedMetadata(log, replay, snapshots, epoch, log_bytes)


def _remove_useless(directory: Path, log: MetadataLog, snapshots: Sequence[SnapshotId]) -> list[SnapshotId]:
    """Remove snapshots from before the log's start: nothing follows them."""
    for snapshot in snapshots:
        if snapshot.offset < log.start_offset:
            disk.remove_if_there(directory / snapshot.file_name)
    return [snapshot for snapshot in snapshots if snapshot.offset >= log.start_offset]


def _read_snapshots(
    directory: Path, log: MetadataLog, snapshots: list[SnapshotId]
) -> tuple[MetadataReplay, int]:
    """Return the newest snapshot that is intact, and the offset that the log is read from after it."""
    for snapshot in reversed(snapshots):
        path = directory / snapshot.file_name
        try:
            replay = MetadataReplay()
            for header, batch in read_snapshot(path):
                replay.feed(header, batch, from_snapshot=True)
            # A snapshot's own batches do not count for the epoch of the log; its name has it.
            replay.last_epoch = snapshot.epoch
            if snapshot == FORMAT_SNAPSHOT:
                replay.end_format_snapshot()
            return replay, snapshot.offset
        except CorruptBatch as error:
            _log.warning("the snapshot %s is damaged and not used: %s", path, error)
    if log.start_offset or FORMAT_SNAPSHOT in snapshots:
        raise ConfigError(
            f"{directory} has no intact snapshot for what its log does not tell from its start, offset "
            f"{log.start_offset}; restore the directory from a backup"
        )
    return MetadataReplay(), 0


def _warn_of_foreign_content(directory: Path, replay: MetadataReplay, dynamic_keys: Container[str]) -> None:
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
