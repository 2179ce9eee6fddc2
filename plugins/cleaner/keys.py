"""Configuration keys of the log cleaner, which hold for every policy, and of compaction."""

from __future__ import annotations

import sys

from tidelog.kernel.config.key import BrokerDefault, ConfigKey, check_pool_size
from tidelog.kernel.config.types import boolean, double, integer, long

MOST_THREADS = 1000
"""Each of them is a process."""

LOG_CLEANER_THREADS = ConfigKey(
    name="log.cleaner.threads",
    type=integer(0, MOST_THREADS),
    default=1,
    dynamic=True,
    check_change=check_pool_size,
    documentation="How many processes rewrite logs at the same time, for `cleanup.policy` = `compact` and "
    "other policies that do; 0: none, and no log is rewritten.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = ConfigKey(
    name="log.cleaner.io.max.bytes.per.second",
    type=double(),
    default=sys.float_info.max,
    dynamic=True,
    documentation="How many bytes the processes that rewrite logs read and write together in a second; 0: "
    "none, so that they wait until it is changed; negative: no limit.",
)
LOG_CLEANER_IO_BUFFER_SIZE = ConfigKey(
    name="log.cleaner.io.buffer.size",
    type=integer(0),
    default=524288,
    dynamic=True,
    documentation="How many bytes of a log the processes that rewrite logs read at once together; each of "
    "them reads 4 MB at least.",
)
LOG_CLEANER_ENABLE = ConfigKey(
    name="log.cleaner.enable",
    type=boolean(),
    default=True,
    documentation="Whether logs with `cleanup.policy` = `compact` are compacted. Without it the log of the "
    "offsets of groups grows without end.",
)
LOG_CLEANER_BACKOFF_MS = ConfigKey(
    name="log.cleaner.backoff.ms",
    type=long(0),
    default=15000,
    dynamic=True,
    documentation="How often logs are looked at when there is nothing to compact, in milliseconds.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = ConfigKey(
    name="log.cleaner.dedupe.buffer.size",
    type=long((1 << 20) + 1),
    default=134217728,
    dynamic=True,
    documentation="The memory for the newest offsets of keys, of all processes that compact together, in "
    "bytes. Each key takes 24 of them. When they are full, the rest of a log is compacted in another pass.",
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = ConfigKey(
    name="log.cleaner.io.buffer.load.factor",
    type=double(0.01, 1),
    default=0.9,
    dynamic=True,
    documentation="The share of `log.cleaner.dedupe.buffer.size` that is filled at most. Looking up keys "
    "takes longer the more is filled.",
)
LOG_CLEANER_DELETE_RETENTION_MS = ConfigKey(
    name="log.cleaner.delete.retention.ms",
    type=long(0),
    default=86400000,
    dynamic=True,
    documentation="How long compaction keeps tombstones (records without a value), in milliseconds.",
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = ConfigKey(
    name="log.cleaner.min.compaction.lag.ms",
    type=long(0),
    default=0,
    dynamic=True,
    documentation="The least age of a record that compaction may remove, in milliseconds.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = ConfigKey(
    name="log.cleaner.min.cleanable.ratio",
    type=double(0, 1),
    default=0.5,
    dynamic=True,
    documentation="The share of a log that has to be uncompacted before it is compacted.",
)
DELETE_RETENTION_MS = ConfigKey(
    name="delete.retention.ms",
    type=long(0),
    default=86400000,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_DELETE_RETENTION_MS),),
    documentation="How long compaction keeps tombstones (records without a value), in milliseconds.",
)
MIN_COMPACTION_LAG_MS = ConfigKey(
    name="min.compaction.lag.ms",
    type=long(0),
    default=0,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MIN_COMPACTION_LAG_MS),),
    not_above="max.compaction.lag.ms",
    documentation="The least age of a record that compaction may remove, in milliseconds.",
)
MIN_CLEANABLE_DIRTY_RATIO = ConfigKey(
    name="min.cleanable.dirty.ratio",
    type=double(0, 1),
    default=0.5,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MIN_CLEANABLE_RATIO),),
    documentation="The share of a log that has to be uncompacted before it is compacted.",
)
