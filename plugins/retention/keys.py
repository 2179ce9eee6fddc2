"""Configuration keys of retention, for the broker and for topics."""

from __future__ import annotations

from tidelog.kernel.config.key import BrokerDefault, ConfigKey
from tidelog.kernel.config.types import integer, long, optional, or_unlimited

_MS_PER_MINUTE, _MS_PER_HOUR = 60_000, 3_600_000

LOG_RETENTION_CHECK_INTERVAL_MS = ConfigKey(
    name="log.retention.check.interval.ms",
    type=long(1),
    default=300_000,
    documentation="How often all partitions are checked for segments to delete, in milliseconds.",
)
LOG_RETENTION_MS = ConfigKey(
    name="log.retention.ms",
    type=optional(or_unlimited(long(1))),
    default=None,
    dynamic=True,
    documentation="How long records are kept, in milliseconds; -1: no limit. Unset: `log.retention.minutes`.",
)
LOG_RETENTION_MINUTES = ConfigKey(
    name="log.retention.minutes",
    type=optional(or_unlimited(integer(1))),
    default=None,
    documentation="How long records are kept, in minutes, unless `log.retention.ms` is set. Unset: "
    "`log.retention.hours`.",
)
LOG_RETENTION_HOURS = ConfigKey(
    name="log.retention.hours",
    type=or_unlimited(integer(1)),
    default=168,
    documentation="How long records are kept, in hours, unless `log.retention.ms` or "
    "`log.retention.minutes` is set.",
)
LOG_RETENTION_BYTES = ConfigKey(
    name="log.retention.bytes",
    type=long(),
    default=-1,
    dynamic=True,
    documentation="The size of a partition above which its oldest segments are deleted, in bytes; -1: no "
    "limit.",
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
    documentation="How long records are kept, in milliseconds; -1: no limit.",
)
RETENTION_BYTES = ConfigKey(
    name="retention.bytes",
    type=long(),
    default=-1,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_RETENTION_BYTES),),
    documentation="The size of a partition above which its oldest segments are deleted, in bytes; -1: no "
    "limit.",
)
