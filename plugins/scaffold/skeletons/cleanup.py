"""A cleanup policy: keeps the last records of each log, whatever their age and size."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import Config, ConfigKey, hookimpl
from tidelog.kernel.config import TopicConfig, long
from tidelog.kernel.seams.cleanup import NOTHING, CleanupPolicy, LogView, Plan

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

KEPT_RECORDS = ConfigKey(
    name="skeleton.kept.records",
    type=long(1),
    default=1_000_000,
    scope="topic",
    documentation="The number of records that a log keeps at least; older segments are deleted.",
)


class SkeletonPolicy:
    """What `cleanup.policy` of a topic chooses; a pure function of the log's view."""

    name = "skeleton"

    def interval_ms(self, config: Config) -> int:
        """Return how often each log is looked at."""
        return 60_000

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Return what to delete of a log."""
        first_kept = min(log.log_end_offset - config[KEPT_RECORDS], log.high_watermark)
        ends = [segment.base_offset for segment in log.segments[1:]]
        offset = max((end for end in ends if end <= first_kept), default=0)
        if offset <= log.log_start_offset:
            return NOTHING
        return Plan(offset, reason=f"{KEPT_RECORDS.name} = {config[KEPT_RECORDS]}")


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[int]]:
    """Return the keys of the policy."""
    return [KEPT_RECORDS]


@hookimpl
def tidelog_cleanup_policies() -> Iterable[CleanupPolicy]:
    """Offer the policy."""
    return [SkeletonPolicy()]
