"""Topic keys: what one topic may set for itself."""

from __future__ import annotations

from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.keys import log
from tidelog.kernel.config.types import LONG_MAX, boolean, choice, integer, long, string

_MS_PER_HOUR = 3_600_000

SEGMENT_BYTES = ConfigKey(
    name="segment.bytes",
    type=integer(1048576),
    default=1073741824,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_SEGMENT_BYTES),),
    documentation="The size at which the log goes on in a new segment, in bytes.",
)
SEGMENT_MS = ConfigKey(
    name="segment.ms",
    type=long(1),
    default=604800000,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_ROLL_MS), BrokerDefault(log.LOG_ROLL_HOURS, _MS_PER_HOUR)),
    documentation="The age at which the log goes on in a new segment, in milliseconds.",
)
SEGMENT_JITTER_MS = ConfigKey(
    name="segment.jitter.ms",
    type=long(0),
    default=0,
    scope="topic",
    broker_defaults=(
        BrokerDefault(log.LOG_ROLL_JITTER_MS),
        BrokerDefault(log.LOG_ROLL_JITTER_HOURS, _MS_PER_HOUR),
    ),
    documentation="At most this much is taken off that age at random, in milliseconds, so that logs do not "
    "all roll at once.",
)
SEGMENT_INDEX_BYTES = ConfigKey(
    name="segment.index.bytes",
    type=integer(4),
    default=10485760,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_INDEX_SIZE_MAX_BYTES),),
    documentation="The largest offset index of a segment, in bytes; a full index starts a new segment.",
)
INDEX_INTERVAL_BYTES = ConfigKey(
    name="index.interval.bytes",
    type=integer(0),
    default=4096,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_INDEX_INTERVAL_BYTES),),
    documentation="Bytes of log between two entries of its indexes.",
)
FILE_DELETE_DELAY_MS = ConfigKey(
    name="file.delete.delay.ms",
    type=long(0),
    default=60000,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_SEGMENT_DELETE_DELAY_MS),),
    documentation="How long the files of a deleted segment stay on disk, in milliseconds.",
)
PREALLOCATE = ConfigKey(
    name="preallocate",
    type=boolean(),
    default=False,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_PREALLOCATE),),
    documentation="Whether a new segment takes its full size on disk at once.",
)
FLUSH_MESSAGES = ConfigKey(
    name="flush.messages",
    type=long(1),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_FLUSH_INTERVAL_MESSAGES),),
    documentation="Records after which the log is forced to disk; the one that fills the measure is "
    "acknowledged, and shown to readers, only then. 1: every batch is durable before it is acknowledged.",
)
FLUSH_MS = ConfigKey(
    name="flush.ms",
    type=long(0),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(
        BrokerDefault(log.LOG_FLUSH_INTERVAL_MS),
        BrokerDefault(log.LOG_FLUSH_SCHEDULER_INTERVAL_MS),
    ),
    documentation="Time after which what was appended is forced to disk, in milliseconds; no answer waits "
    "for it.",
)
MAX_MESSAGE_BYTES = ConfigKey(
    name="max.message.bytes",
    type=integer(0),
    default=1048588,
    scope="topic",
    broker_defaults=(BrokerDefault(log.MESSAGE_MAX_BYTES),),
    documentation="The largest record batch that is taken, in bytes as it comes (compressed, with its "
    "header).",
)
MESSAGE_TIMESTAMP_TYPE = ConfigKey(
    name="message.timestamp.type",
    type=choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_MESSAGE_TIMESTAMP_TYPE),),
    documentation="Whether records keep the producer's timestamp or get the time at which they were "
    "appended.",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = ConfigKey(
    name="message.timestamp.before.max.ms",
    type=long(0),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS),),
    documentation="How far a producer's timestamp may lie in the past, in milliseconds. No effect with "
    "LogAppendTime.",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = ConfigKey(
    name="message.timestamp.after.max.ms",
    type=long(0),
    default=3600000,
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS),),
    documentation="How far a producer's timestamp may lie in the future, in milliseconds. No effect with "
    "LogAppendTime.",
)
INDEX_FORMAT = ConfigKey(
    name="index.format",
    type=string(non_empty=True),
    default="sparse",
    scope="topic",
    broker_defaults=(BrokerDefault(log.LOG_INDEX_FORMAT),),
    documentation="How the topic's segments find offsets and times, see `log.index.format`. A change takes "
    "effect at the next start, and nothing is lost by it. Tidelog's own key, not one of Kafka's.",
)
