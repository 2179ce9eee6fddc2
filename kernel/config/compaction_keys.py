"""Configuration keys of compaction, which no policy carries out yet.

They are kept, checked and described, so that a directory keeps them whichever broker it goes to.
"""

from __future__ import annotations

from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.types import LONG_MAX, double, long

_NO_COMPACTION = "nothing is compacted yet"

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
