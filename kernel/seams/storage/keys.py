"""Keys of segments that every storage follows; a plugin with a storage hands them over with its own.

They are part of the seam: what opens a log, such as a coordinator, sets the size of its segments by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.config import keys
from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.types import LONG_MAX, integer, long, optional

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig

_MS_PER_HOUR = 3_600_000

LOG_SEGMENT_BYTES = ConfigKey(
    name="log.segment.bytes",
    type=integer(1048576),
    default=1073741824,
    dynamic=True,
    documentation="The size of a segment at which a log rolls to a new one, in bytes.",
)
SEGMENT_BYTES = ConfigKey(
    name="segment.bytes",
    type=integer(1048576),
    default=1073741824,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_SEGMENT_BYTES),),
    documentation="The size of a segment at which the log rolls to a new one, in bytes.",
)
LOG_ROLL_MS = ConfigKey(
    name="log.roll.ms",
    type=optional(long(1)),
    default=None,
    dynamic=True,
    documentation="The age of a segment at which a log rolls to a new one, in milliseconds. Unset: "
    "`log.roll.hours`.",
)
LOG_ROLL_HOURS = ConfigKey(
    name="log.roll.hours",
    type=integer(1),
    default=168,
    documentation="The age of a segment at which a log rolls to a new one, in hours, unless `log.roll.ms` "
    "is set.",
)
SEGMENT_MS = ConfigKey(
    name="segment.ms",
    type=long(1),
    default=604800000,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_ROLL_MS), BrokerDefault(LOG_ROLL_HOURS, _MS_PER_HOUR)),
    documentation="The age of a segment at which the log rolls to a new one, in milliseconds.",
)
LOG_INDEX_SIZE_MAX_BYTES = ConfigKey(
    name="log.index.size.max.bytes",
    type=integer(4),
    default=10485760,
    dynamic=True,
    documentation="The largest offset index of a segment, in bytes; a log rolls when the index is full.",
)
SEGMENT_INDEX_BYTES = ConfigKey(
    name="segment.index.bytes",
    type=integer(4),
    default=10485760,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_INDEX_SIZE_MAX_BYTES),),
    documentation="The largest offset index of a segment, in bytes; a log rolls when the index is full.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = ConfigKey(
    name="log.cleaner.max.compaction.lag.ms",
    type=long(1),
    default=LONG_MAX,
    dynamic=True,
    documentation="The age of a record after which its log has to be compacted, in milliseconds.",
)
MAX_COMPACTION_LAG_MS = ConfigKey(
    name="max.compaction.lag.ms",
    type=long(1),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANER_MAX_COMPACTION_LAG_MS),),
    documentation="The age of a record after which its log has to be compacted, in milliseconds; with "
    "`cleanup.policy` = `compact` also the largest `segment.ms`.",
)


def max_segment_ms(config: TopicConfig) -> int:
    """Return the age in milliseconds at which an append rolls the segment: `segment.ms`, or less.

    A log that is compacted rolls after `max.compaction.lag.ms` at the latest, since the active segment is
    never compacted. Source: Apache Kafka's `LogConfig.maxSegmentMs`.
    """
    segment_ms = config[SEGMENT_MS]
    return (
        min(segment_ms, config[MAX_COMPACTION_LAG_MS])
        if "compact" in config[keys.CLEANUP_POLICY]
        else segment_ms
    )
