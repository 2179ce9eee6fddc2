"""The cleanup seam: keys of deletion by age and size, and of compaction, for the broker and for topics.

No policy is there yet: the keys are kept, checked and described, so that a directory keeps them whichever
broker it goes to. `cleanup.policy` itself is the kernel's, which refuses records without a key where it has
`compact`.
"""

from __future__ import annotations

from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.types import LONG_MAX, double, integer, long, nullable

_NO_RETENTION = "nothing is deleted by age or size yet"
_NO_COMPACTION = "nothing is compacted yet"
_MS_PER_MINUTE, _MS_PER_HOUR = 60_000, 3_600_000

LOG_RETENTION_MS = ConfigKey(
    name="log.retention.ms",
    type=nullable(long(-1)),
    default=None,
    dynamic=True,
    not_yet=_NO_RETENTION,
    documentation="How long records are kept, in milliseconds; -1: no limit. Unset: `log.retention.minutes`.",
)
LOG_RETENTION_MINUTES = ConfigKey(
    name="log.retention.minutes",
    type=nullable(integer()),
    default=None,
    not_yet=_NO_RETENTION,
    documentation="How long records are kept, in minutes, unless `log.retention.ms` is set. Unset: "
    "`log.retention.hours`.",
)
LOG_RETENTION_HOURS = ConfigKey(
    name="log.retention.hours",
    type=integer(),
    default=168,
    not_yet=_NO_RETENTION,
    documentation="How long records are kept, in hours, unless `log.retention.ms` or "
    "`log.retention.minutes` is set.",
)
LOG_RETENTION_BYTES = ConfigKey(
    name="log.retention.bytes",
    type=long(),
    default=-1,
    dynamic=True,
    not_yet=_NO_RETENTION,
    documentation="The size of a partition above which its oldest segments are deleted, in bytes; -1: no "
    "limit.",
)
LOG_CLEANER_DELETE_RETENTION_MS = ConfigKey(
    name="log.cleaner.delete.retention.ms",
    type=long(0),
    default=86400000,
    dynamic=True,
    not_yet=_NO_COMPACTION,
    documentation="How long compaction keeps tombstones (records without a value), in milliseconds.",
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = ConfigKey(
    name="log.cleaner.min.compaction.lag.ms",
    type=long(0),
    default=0,
    dynamic=True,
    not_yet=_NO_COMPACTION,
    documentation="The least age of a record that compaction may remove, in milliseconds.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = ConfigKey(
    name="log.cleaner.max.compaction.lag.ms",
    type=long(1),
    default=LONG_MAX,
    dynamic=True,
    not_yet=_NO_COMPACTION,
    documentation="The age of a record after which its log has to be compacted, in milliseconds.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = ConfigKey(
    name="log.cleaner.min.cleanable.ratio",
    type=double(0, 1),
    default=0.5,
    dynamic=True,
    not_yet=_NO_COMPACTION,
    documentation="The share of a log that has to be uncompacted before it is compacted.",
)
RETENTION_MS = ConfigKey(
    name="retention.ms",
    type=long(-1),
    default=604800000,
    scope="topic",
    broker_defaults=(
        BrokerDefault(LOG_RETENTION_MS),
        BrokerDefault(LOG_RETENTION_MINUTES, _MS_PER_MINUTE),
        BrokerDefault(LOG_RETENTION_HOURS, _MS_PER_HOUR),
    ),
    not_yet=_NO_RETENTION,
    documentation="How long records are kept, in milliseconds; -1: no limit.",
)
RETENTION_BYTES = ConfigKey(
    name="retention.bytes",
    type=long(),
    default=-1,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_RETENTION_BYTES),),
    not_yet=_NO_RETENTION,
    documentation="The size of a partition above which its oldest segments are deleted, in bytes; -1: no "
    "limit.",
)
DELETE_RETENTION_MS = ConfigKey(
    name="delete.retention.ms",
    type=long(0),
    default=86400000,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_DELETE_RETENTION_MS),),
    not_yet=_NO_COMPACTION,
    documentation="How long compaction keeps tombstones (records without a value), in milliseconds.",
)
MIN_COMPACTION_LAG_MS = ConfigKey(
    name="min.compaction.lag.ms",
    type=long(0),
    default=0,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MIN_COMPACTION_LAG_MS),),
    not_yet=_NO_COMPACTION,
    documentation="The least age of a record that compaction may remove, in milliseconds.",
)
MAX_COMPACTION_LAG_MS = ConfigKey(
    name="max.compaction.lag.ms",
    type=long(1),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MAX_COMPACTION_LAG_MS),),
    not_yet=_NO_COMPACTION,
    documentation="The age of a record after which its log has to be compacted, in milliseconds.",
)
MIN_CLEANABLE_DIRTY_RATIO = ConfigKey(
    name="min.cleanable.dirty.ratio",
    type=double(0, 1),
    default=0.5,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MIN_CLEANABLE_RATIO),),
    not_yet=_NO_COMPACTION,
    documentation="The share of a log that has to be uncompacted before it is compacted.",
)
