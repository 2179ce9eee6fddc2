"""Configuration keys of this plugin, with Kafka's names, defaults and ranges."""

from __future__ import annotations

from typing import Any

from tidelog.kernel.config import ConfigKey, comma_list, integer, long, nullable
from tidelog.plugins.storage_file.kraft import keys as metadata_keys

LOG_DIR = ConfigKey(
    name="log.dir",
    type=comma_list(),
    default=("/tmp/kafka-logs",),  # noqa: S108 Kafka's own default
    documentation="Directories for the data, separated by commas; `log.dirs` is used instead when it is set.",
    only_with=("storage", "file"),
)
LOG_DIRS = ConfigKey(
    name="log.dirs",
    type=nullable(comma_list()),
    default=None,
    documentation=(
        "Directories for the data, separated by commas. A new partition goes where the fewest are; the first "
        "one also holds the metadata log, unless `metadata.log.dir` is set."
    ),
    only_with=("storage", "file"),
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = ConfigKey(
    name="num.recovery.threads.per.data.dir",
    type=integer(1),
    default=2,
    documentation=(
        "Threads per data directory that open, and recover if need be, the partitions at start, and that "
        "close them at a stop."
    ),
    only_with=("storage", "file"),
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.offset.checkpoint.interval.ms",
    type=integer(0),
    default=60_000,
    documentation=(
        "How often the offsets from which logs are recovered after a crash are written down, in "
        "milliseconds. 0: only when the broker stops."
    ),
    only_with=("storage", "file"),
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="log.flush.start.offset.checkpoint.interval.ms",
    type=integer(0),
    default=60_000,
    documentation=(
        "How often the first offsets of logs that were cut by request are written down, in milliseconds. "
        "0: only when the broker stops."
    ),
    only_with=("storage", "file"),
)

LOG_DIR_FAILURE_TIMEOUT_MS = ConfigKey(
    name="log.dir.failure.timeout.ms",
    type=long(1),
    default=30_000,
    documentation=(
        "How long it may take to note in the metadata log that a log directory has failed, in milliseconds; "
        "after that the broker ends."
    ),
    only_with=("storage", "file"),
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = ConfigKey(
    name="replica.high.watermark.checkpoint.interval.ms",
    type=long(),
    default=5_000,
    documentation="How often high watermarks are written down, in milliseconds.",
    only_with=("storage", "file"),
)

ALL: tuple[ConfigKey[Any], ...] = (
    LOG_DIR,
    LOG_DIRS,
    NUM_RECOVERY_THREADS_PER_DATA_DIR,
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_DIR_FAILURE_TIMEOUT_MS,
    REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS,
    *metadata_keys.ALL,
)
