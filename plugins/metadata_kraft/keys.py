"""Configuration keys of the metadata log, with Kafka's names, defaults and ranges."""

from __future__ import annotations

from tidelog.kernel.config import ConfigKey, integer, long, nullable, or_unlimited, string
from tidelog.kernel.config.paths import local_path

METADATA_LOG_DIR = ConfigKey(
    name="metadata.log.dir",
    type=nullable(local_path(string(non_empty=True))),
    default=None,
    documentation="Directory for the metadata log; the first of `log.dirs` when it is not set.",
    only_with=("storage", "file"),
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = ConfigKey(
    name="metadata.log.max.record.bytes.between.snapshots",
    type=long(1),
    default=20 * 1024 * 1024,
    documentation="The growth of the metadata log after which a snapshot is taken, in bytes.",
    only_with=("storage", "file"),
)
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = ConfigKey(
    name="metadata.log.max.snapshot.interval.ms",
    type=long(0),
    default=60 * 60 * 1000,
    documentation=(
        "The largest time between two snapshots of the metadata, in milliseconds, if anything changed. "
        "0: only when the log has grown enough."
    ),
    only_with=("storage", "file"),
)
METADATA_LOG_SEGMENT_BYTES = ConfigKey(
    name="metadata.log.segment.bytes",
    type=integer(8 * 1024 * 1024),
    default=1024 * 1024 * 1024,
    documentation="The largest segment of the metadata log, in bytes.",
    only_with=("storage", "file"),
)
METADATA_LOG_SEGMENT_MS = ConfigKey(
    name="metadata.log.segment.ms",
    type=long(1),
    default=7 * 24 * 60 * 60 * 1000,
    documentation="The age of a segment at which the metadata log rolls to a new one, in milliseconds.",
    only_with=("storage", "file"),
)
METADATA_MAX_RETENTION_BYTES = ConfigKey(
    name="metadata.max.retention.bytes",
    type=or_unlimited(long(0)),
    default=100 * 1024 * 1024,
    documentation=(
        "The size of the metadata log with its snapshots above which old snapshots, and the log below "
        "those that stay, are deleted, in bytes. -1: no limit."
    ),
    only_with=("storage", "file"),
)
METADATA_MAX_RETENTION_MS = ConfigKey(
    name="metadata.max.retention.ms",
    type=or_unlimited(long(0)),
    default=7 * 24 * 60 * 60 * 1000,
    documentation=(
        "The age after which snapshots of the metadata, and the log below those that stay, are deleted, "
        "in milliseconds. The newest snapshot always stays. -1: no limit."
    ),
    only_with=("storage", "file"),
)
