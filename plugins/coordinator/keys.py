"""Configuration keys of committed offsets and of the coordinators' logs, with Kafka's names and defaults."""

from __future__ import annotations

from tidelog.kernel.config import ConfigKey, integer, long

_CLASSIC = ("coordinator", "classic")

OFFSETS_TOPIC_NUM_PARTITIONS = ConfigKey(
    name="offsets.topic.num.partitions",
    type=integer(1),
    default=50,
    documentation="The number of partitions of `__consumer_offsets` when it is created. A group's state is "
    "in one of them.",
    only_with=_CLASSIC,
)
OFFSETS_TOPIC_SEGMENT_BYTES = ConfigKey(
    name="offsets.topic.segment.bytes",
    type=integer(1),
    default=100 * 1024 * 1024,
    documentation="The segment size of `__consumer_offsets` when it is created, in bytes.",
    only_with=_CLASSIC,
)
OFFSETS_TOPIC_COMPRESSION_CODEC = ConfigKey(
    name="offsets.topic.compression.codec",
    type=integer(0, 4),
    default=0,
    documentation="The compression of what the broker writes to `__consumer_offsets`: 0 none, 1 gzip, 2 "
    "snappy, 3 lz4, 4 zstd.",
    only_with=_CLASSIC,
)
OFFSETS_LOAD_BUFFER_SIZE = ConfigKey(
    name="offsets.load.buffer.size",
    type=integer(1),
    default=5 * 1024 * 1024,
    documentation="How much of `__consumer_offsets` is read at a time while the broker starts, in bytes.",
    only_with=_CLASSIC,
)
OFFSET_METADATA_MAX_BYTES = ConfigKey(
    name="offset.metadata.max.bytes",
    type=integer(),
    default=4096,
    documentation="The largest length of the metadata that a client commits with an offset, in characters "
    "(as in Kafka, in spite of the name).",
)
OFFSETS_RETENTION_MINUTES = ConfigKey(
    name="offsets.retention.minutes",
    type=integer(1),
    default=10080,
    documentation="How long the offsets of a group are kept after it lost its last member, and those of "
    "clients without a group after they were committed, in minutes.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = ConfigKey(
    name="offsets.retention.check.interval.ms",
    type=long(1),
    default=600_000,
    documentation="The interval of the check for expired offsets, in milliseconds.",
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = ConfigKey(
    name="transaction.state.log.num.partitions",
    type=integer(1),
    default=50,
    documentation="The number of partitions of `__transaction_state` when it is created. A transactional "
    "id's state is in one of them.",
    only_with=_CLASSIC,
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = ConfigKey(
    name="transaction.state.log.segment.bytes",
    type=integer(1),
    default=100 * 1024 * 1024,
    documentation="The segment size of `__transaction_state` when it is created, in bytes.",
    only_with=_CLASSIC,
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = ConfigKey(
    name="transaction.state.log.load.buffer.size",
    type=integer(1),
    default=5 * 1024 * 1024,
    documentation="How much of `__transaction_state` is read at a time while the broker starts, in bytes.",
    only_with=_CLASSIC,
)
