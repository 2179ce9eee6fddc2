"""Configuration keys of the storage in files, with Kafka's names, defaults and ranges."""

from __future__ import annotations

from tidelog.kernel.config import (
    BrokerDefault,
    ConfigKey,
    boolean,
    check_pool_size,
    comma_list,
    integer,
    long,
    optional,
    string,
)
from tidelog.kernel.config.paths import local_path
from tidelog.kernel.config.types import LONG_MAX

_MS_PER_HOUR = 3_600_000

LOG_DIR = ConfigKey(
    name="log.dir",
    type=local_path(comma_list(non_empty=True)),
    default=("/tmp/kafka-logs",),  # noqa: S108 Kafka's own default
    documentation="Directories for the data, separated by commas; `log.dirs` is used instead when it is set.",
    only_with=("storage", "file"),
)
LOG_DIRS = ConfigKey(
    name="log.dirs",
    type=optional(local_path(comma_list(non_empty=True))),
    default=None,
    documentation=(
        "Directories for the data, separated by commas. A new partition is created in the one with the "
        "fewest partitions; the first one also has the metadata log, unless `metadata.log.dir` is set."
    ),
    only_with=("storage", "file"),
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = ConfigKey(
    name="replica.alter.log.dirs.io.max.bytes.per.second",
    type=long(0),
    default=LONG_MAX,
    dynamic=True,
    documentation="The largest rate at which partitions are copied to other log directories, in bytes per "
    "second, for all moves together. A chunk of 1 MiB may exceed it; then the next one waits.",
    only_with=("storage", "file"),
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = ConfigKey(
    name="num.recovery.threads.per.data.dir",
    type=integer(1),
    default=2,
    dynamic=True,
    check_change=check_pool_size,
    documentation=(
        "The number of threads per data directory that open the partitions at start, with log recovery "
        "where it is needed, and that close them at a stop."
    ),
    only_with=("storage", "file"),
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.offset.checkpoint.interval.ms",
    type=integer(0),
    default=60_000,
    documentation=(
        "The interval at which the recovery points of all logs are written to their checkpoint, in "
        "milliseconds. 0: only when the broker stops."
    ),
    only_with=("storage", "file"),
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.start.offset.checkpoint.interval.ms",
    type=integer(0),
    default=60_000,
    documentation=(
        "The interval at which log start offsets that DeleteRecords has raised are written to their "
        "checkpoint, in milliseconds. 0: only when the broker stops."
    ),
    only_with=("storage", "file"),
)

LOG_DIR_FAILURE_TIMEOUT_MS = ConfigKey(
    name="log.dir.failure.timeout.ms",
    type=long(1),
    default=30_000,
    documentation=(
        "How long it may take to record in the metadata log that a log directory has failed, in "
        "milliseconds; after that the broker stops."
    ),
    only_with=("storage", "file"),
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="replica.high.watermark.checkpoint.interval.ms",
    type=long(),
    default=5_000,
    documentation="The interval at which high watermarks are written to their checkpoint, in milliseconds.",
    only_with=("storage", "file"),
)

# Segments and their indexes.

LOG_ROLL_JITTER_MS = ConfigKey(
    name="log.roll.jitter.ms",
    type=optional(long(0)),
    default=None,
    dynamic=True,
    documentation="The largest random time that is subtracted from `log.roll.ms`, in milliseconds, so that "
    "not all logs roll at once. Unset: `log.roll.jitter.hours`.",
)
LOG_ROLL_JITTER_HOURS = ConfigKey(
    name="log.roll.jitter.hours",
    type=integer(0),
    default=0,
    documentation="The largest random time that is subtracted from `log.roll.ms`, in hours, unless "
    "`log.roll.jitter.ms` is set.",
)
SEGMENT_JITTER_MS = ConfigKey(
    name="segment.jitter.ms",
    type=long(0),
    default=0,
    scope="topic",
    broker_defaults=(
        BrokerDefault(LOG_ROLL_JITTER_MS),
        BrokerDefault(LOG_ROLL_JITTER_HOURS, _MS_PER_HOUR),
    ),
    documentation="The largest random time that is subtracted from `segment.ms`, in milliseconds, so that "
    "not all logs roll at once.",
)
LOG_INDEX_INTERVAL_BYTES = ConfigKey(
    name="log.index.interval.bytes",
    type=integer(0),
    default=4096,
    dynamic=True,
    documentation="The number of bytes of a log between two entries of its indexes.",
)
INDEX_INTERVAL_BYTES = ConfigKey(
    name="index.interval.bytes",
    type=integer(0),
    default=4096,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_INDEX_INTERVAL_BYTES),),
    documentation="The number of bytes of a log between two entries of its indexes.",
)
LOG_INDEX_FORMAT = ConfigKey(
    name="log.index.format",
    type=string(non_empty=True),
    default="sparse",
    chooses="index format",
    documentation="How segments find offsets and times, by default: `sparse` with Kafka's `.index` and "
    "`.timeindex`, `memory` with nothing on disk, so that every start reads the headers of all batches. "
    "Tidelog's own key, not one of Kafka's.",
    only_with=("storage", "file"),
)
INDEX_FORMAT = ConfigKey(
    name="index.format",
    type=string(non_empty=True),
    default="sparse",
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_INDEX_FORMAT),),
    documentation="How the topic's segments find offsets and times, see `log.index.format`. A change takes "
    "effect at the next start, and nothing is lost by it. Tidelog's own key, not one of Kafka's.",
)
LOG_PREALLOCATE = ConfigKey(
    name="log.preallocate",
    type=boolean(),
    default=False,
    dynamic=True,
    documentation="Whether the file of a new segment is preallocated to its full size.",
)
PREALLOCATE = ConfigKey(
    name="preallocate",
    type=boolean(),
    default=False,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_PREALLOCATE),),
    documentation="Whether the file of a new segment is preallocated to its full size.",
)
LOG_SEGMENT_DELETE_DELAY_MS = ConfigKey(
    name="log.segment.delete.delay.ms",
    type=long(0),
    default=60000,
    dynamic=True,
    documentation="How long the files of a deleted segment or topic stay on disk before they are removed, in "
    "milliseconds.",
)
FILE_DELETE_DELAY_MS = ConfigKey(
    name="file.delete.delay.ms",
    type=long(0),
    default=60000,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_SEGMENT_DELETE_DELAY_MS),),
    documentation="How long the files of a deleted segment stay on disk before they are removed, in "
    "milliseconds.",
)
