"""Broker keys of the log: what topics have when they do not say otherwise."""

from __future__ import annotations

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import LONG_MAX, boolean, choice, integer, long, nullable, string

MESSAGE_MAX_BYTES = ConfigKey(
    name="message.max.bytes",
    type=integer(0),
    default=1048588,
    dynamic=True,
    documentation="The largest record batch that is taken, in bytes as it comes (compressed, with its "
    "header).",
)
LOG_SEGMENT_BYTES = ConfigKey(
    name="log.segment.bytes",
    type=integer(1048576),
    default=1073741824,
    dynamic=True,
    documentation="The size at which a log goes on in a new segment, in bytes.",
)
LOG_ROLL_MS = ConfigKey(
    name="log.roll.ms",
    type=nullable(long(1)),
    default=None,
    dynamic=True,
    documentation="The age at which a log goes on in a new segment, in milliseconds. Unset: "
    "`log.roll.hours`.",
)
LOG_ROLL_HOURS = ConfigKey(
    name="log.roll.hours",
    type=integer(1),
    default=168,
    documentation="The age at which a log goes on in a new segment, in hours, unless `log.roll.ms` is set.",
)
LOG_ROLL_JITTER_MS = ConfigKey(
    name="log.roll.jitter.ms",
    type=nullable(long(0)),
    default=None,
    dynamic=True,
    documentation="At most this much is taken off that age at random, in milliseconds, so that logs do not "
    "all roll at once. Unset: `log.roll.jitter.hours`.",
)
LOG_ROLL_JITTER_HOURS = ConfigKey(
    name="log.roll.jitter.hours",
    type=integer(0),
    default=0,
    documentation="At most this much is taken off that age at random, in hours, unless "
    "`log.roll.jitter.ms` is set.",
)
LOG_INDEX_SIZE_MAX_BYTES = ConfigKey(
    name="log.index.size.max.bytes",
    type=integer(4),
    default=10485760,
    dynamic=True,
    documentation="The largest offset index of a segment, in bytes; a full index starts a new segment.",
)
LOG_INDEX_INTERVAL_BYTES = ConfigKey(
    name="log.index.interval.bytes",
    type=integer(0),
    default=4096,
    dynamic=True,
    documentation="Bytes of log between two entries of its indexes.",
)
LOG_FLUSH_INTERVAL_MESSAGES = ConfigKey(
    name="log.flush.interval.messages",
    type=long(1),
    default=LONG_MAX,
    dynamic=True,
    documentation="Records after which a log is forced to disk; the one that fills the measure is "
    "acknowledged, and shown to readers, only then. 1: every batch is durable before it is acknowledged.",
)
LOG_FLUSH_INTERVAL_MS = ConfigKey(
    name="log.flush.interval.ms",
    type=nullable(long(0)),
    default=None,
    dynamic=True,
    documentation="Time after which what was appended is forced to disk, in milliseconds. Unset: "
    "`log.flush.scheduler.interval.ms`.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = ConfigKey(
    name="log.flush.scheduler.interval.ms",
    type=long(1),
    default=LONG_MAX,
    documentation="How often logs are looked at for a flush that is due by time, in milliseconds. As it "
    "is: once a second.",
)
LOG_SEGMENT_DELETE_DELAY_MS = ConfigKey(
    name="log.segment.delete.delay.ms",
    type=long(0),
    default=60000,
    dynamic=True,
    documentation="How long the files of a deleted segment or topic stay on disk, in milliseconds.",
)
LOG_PREALLOCATE = ConfigKey(
    name="log.preallocate",
    type=boolean(),
    default=False,
    dynamic=True,
    documentation="Whether a new segment takes its full size on disk at once.",
)
LOG_MESSAGE_TIMESTAMP_TYPE = ConfigKey(
    name="log.message.timestamp.type",
    type=choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    dynamic=True,
    documentation="Whether records keep the producer's timestamp or get the time at which they were "
    "appended.",
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = ConfigKey(
    name="log.message.timestamp.before.max.ms",
    type=long(0),
    default=LONG_MAX,
    dynamic=True,
    documentation="How far a producer's timestamp may lie in the past, in milliseconds. No effect with "
    "LogAppendTime.",
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = ConfigKey(
    name="log.message.timestamp.after.max.ms",
    type=long(0),
    default=3600000,
    dynamic=True,
    documentation="How far a producer's timestamp may lie in the future, in milliseconds. No effect with "
    "LogAppendTime.",
)
LOG_INITIAL_TASK_DELAY_MS = ConfigKey(
    name="log.initial.task.delay.ms",
    type=long(0),
    default=30000,
    documentation="How long flushing by time, checkpoints and the removal of deleted partitions wait after "
    "the start, in milliseconds.",
)
LOG_INDEX_FORMAT = ConfigKey(
    name="log.index.format",
    type=string(non_empty=True),
    default="sparse",
    documentation="How segments find offsets and times, by default: `sparse` with Kafka's `.index` and "
    "`.timeindex`, `memory` with nothing on disk, so that every start reads the headers of all batches. "
    "Tidelog's own key, not one of Kafka's.",
    only_with=("storage", "file"),
)
