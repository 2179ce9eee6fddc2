"""Configuration keys of classic groups, offsets, transactions and their logs, with Kafka's names."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config import ConfigKey, boolean, integer, long
from tidelog.kernel.config.types import INT_MAX

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
GROUP_MIN_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.min.session.timeout.ms",
    type=integer(1),
    default=6000,
    documentation="The shortest session timeout that a member of a classic group may have, in milliseconds.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.max.session.timeout.ms",
    type=integer(1),
    default=1_800_000,
    documentation="The longest session timeout that a member of a classic group may have, in milliseconds. "
    "The longer it is, the later the failure of a member is detected.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = ConfigKey(
    name="group.initial.rebalance.delay.ms",
    type=integer(),
    default=3000,
    documentation="How long a classic group waits for further members when its first one has joined, in "
    "milliseconds. Each member that joins extends the wait, up to the rebalance timeout. 0 or less: not.",
)
GROUP_MAX_SIZE = ConfigKey(
    name="group.max.size",
    type=integer(1),
    default=INT_MAX,
    documentation="How many members a classic group may have; further ones are refused.",
)
TRANSACTION_MAX_TIMEOUT_MS: Final = ConfigKey(
    name="transaction.max.timeout.ms",
    type=integer(1),
    default=900_000,
    documentation="The longest transaction timeout that a producer may ask for, in milliseconds.",
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE: Final = ConfigKey(
    name="transaction.two.phase.commit.enable",
    type=boolean(),
    default=False,
    documentation="Whether producers may take part in two-phase commits: their transactions have no timeout, "
    "and stay open until the producer, or a later instance of it, ends them.",
)
TRANSACTIONAL_ID_EXPIRATION_MS: Final = ConfigKey(
    name="transactional.id.expiration.ms",
    type=integer(1),
    default=604_800_000,
    documentation="How long the state of a transactional id that is not used is kept, in milliseconds.",
)
ABORT_TIMED_OUT_INTERVAL_MS: Final = ConfigKey(
    name="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    type=integer(1),
    default=10_000,
    documentation="The interval of the check for transactions that have timed out, in milliseconds.",
)
REMOVE_EXPIRED_INTERVAL_MS: Final = ConfigKey(
    name="transaction.remove.expired.transaction.cleanup.interval.ms",
    type=integer(1),
    default=3_600_000,
    documentation="The interval of the check for expired transactional ids, in milliseconds.",
)
PARTITION_VERIFICATION_ENABLE: Final = ConfigKey(
    name="transaction.partition.verification.enable",
    type=boolean(),
    dynamic=True,
    default=True,
    documentation="Whether a transactional batch is refused unless its partition was added to the "
    "transaction.",
)
