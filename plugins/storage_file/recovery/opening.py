"""Opening of one partition: its directory is checked to belong to the topic, its segments are loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.indexes import IndexFormat
from tidelog.plugins.storage_file.directories.meta_properties import (
    decode_partition_metadata,
    encode_partition_metadata,
)
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.log.durability import Durability
from tidelog.plugins.storage_file.log.local_log import LocalLog
from tidelog.plugins.storage_file.log.side_files import SideFiles
from tidelog.plugins.storage_file.log_config import LogConfig
from tidelog.plugins.storage_file.names import LOG_SUFFIX, PARTITION_METADATA, segment_file
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.log_loader import LoadedSegments, LogLoader
from tidelog.plugins.storage_file.segments.creation import SegmentSettings, create_segment
from tidelog.plugins.storage_file.segments.log_segments import LogSegments
from tidelog.plugins.storage_file.segments.segment_files import (
    SegmentFiles,
    holds_batches,
    list_segment_files,
)

_log = logging.getLogger(__name__)


def open_partition(
    placement: Placement,
    *,
    registered: bool,
    remaining: Callable[[int], None] = lambda _: None,
) -> FilePartitionStore:
    """Blocking: open a partition whose directory is there, recovering it if need be.

    `registered`: the metadata log knew the topic when the storage was opened, so its files are expected.
    `remaining(count)` is called with the number of segments that are left.

    Raises:
        OSError: the disk refused.
        StorageError: the directory belongs to another topic, or holds what cannot be served.
    """
    spec, path = placement.spec, placement.path
    formats = placement.directory.services.index_formats
    index_format = formats.of(spec.config, str(spec.topic_partition))
    files = list_segment_files(path, index_format.suffixes, formats.foreign_suffixes(index_format))
    if placement.exists:
        _check_owner(placement, path, files, registered=registered)
    if PARTITION_METADATA not in files.names:
        # Not synced: it becomes durable with the first flush of the partition, like the directory itself.
        content = encode_partition_metadata(spec.topic_id)
        disk.write_file(f"{path}/{PARTITION_METADATA}", content, durable=False)
    return _load(placement, path, files, index_format, remaining)


def _check_owner(placement: Placement, path: str, files: SegmentFiles, *, registered: bool) -> None:
    """Check that a directory belongs to the topic to open.

    One that a crash left while its topic was being created holds no records: it is used.
    """
    if PARTITION_METADATA not in files.names and registered:
        return
    content = disk.read_file(f"{path}/{PARTITION_METADATA}") or b""
    try:
        found = decode_partition_metadata(content)
        if found == placement.spec.topic_id:
            return
        reason = f"it belongs to a topic with the id {found}, not {placement.spec.topic_id}"
    except ValueError as error:
        reason = f"its {PARTITION_METADATA} cannot be read: {error}"
        if registered:
            _log.warning("%s: %s; it is written again", path, reason)
            files.names.discard(PARTITION_METADATA)
            return
    if any(holds_batches(f"{path}/{segment_file(base, LOG_SUFFIX)}") for base in files.base_offsets):
        raise StorageError(f"{path} cannot be used: {reason}. Move it away; it holds data")
    _log.warning("%s is used, it holds no data: %s", path, reason)
    files.names.discard(PARTITION_METADATA)


def _load(
    placement: Placement,
    path: str,
    files: SegmentFiles,
    index_format: IndexFormat,
    remaining: Callable[[int], None],
) -> FilePartitionStore:
    spec, directory = placement.spec, placement.directory
    services = directory.services
    label = str(spec.topic_partition)
    config = spec.config.derive(LogConfig.of)
    settings = SegmentSettings.of(config, index_format, services.now_ms())
    recover_from, log_start = placement.recover_from, placement.log_start
    loaded = LogLoader(label, path, files, settings, remaining).load(recover_from=recover_from)
    _remove_segments_below(log_start, path, loaded)
    created = not loaded.segments
    if created:
        loaded = LoadedSegments([create_segment(path, log_start, settings)])
        # Thousands of new partitions would be as many open files; an append opens it again.
        loaded.segments[0].sleep()
    end = loaded.segments[-1].next_offset
    durable = end if recover_from is None else min(recover_from, end)
    log = LocalLog(
        label,
        path,
        config,
        services,
        index_format,
        LogSegments(loaded.segments),
        SideFiles(path, files.side_files),
        Durability(durable, names_durable=recover_from is None and not created),
        # A preallocated file has to be trimmed at a clean stop, even if nothing was appended.
        touched=created and config.preallocate,
    )
    return FilePartitionStore(spec.topic_partition, log, log_start, loaded.aborted_known_until)


def _remove_segments_below(log_start: int, path: str, loaded: LoadedSegments) -> None:
    """Remove segments that end before the log's recorded start: files behind them were lost.

    The log starts empty there: no offset may be assigned twice.
    """
    if not loaded.segments or loaded.segments[-1].next_offset >= log_start:
        return
    end = loaded.segments[-1].next_offset
    _log.error(
        "%s ends at offset %d, before its recorded start %d; it starts empty there", path, end, log_start
    )
    while loaded.segments:
        loaded.segments.pop().remove_files()
