"""Deletion of old segments: `cleanup.policy` = `delete`.

Three rules, one after the other, each on what the one before leaves: segments below the log start, then the
oldest segments above `retention.bytes`, then segments whose newest record is older than `retention.ms`. Each
goes from the oldest segment on and ends at the first that it keeps. Source: Apache Kafka's
`UnifiedLog.deleteOldSegments`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.cleanup import NOTHING, LogView, Plan
from tidelog.plugins.retention import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig
    from tidelog.kernel.seams.storage import SegmentView

TOLERATED_MS = 60_000
"""So far ahead of the broker a record is nothing to warn of: clocks differ, and the log is looked at a while
after the clock was read, so that the newest records may be later."""


class RetentionPolicy:
    """`CleanupPolicy` that deletes whole segments by log start, size and age."""

    name = "delete"

    def interval_ms(self, config: Config) -> int:
        """Return how often all logs are checked, in milliseconds."""
        return config[keys.LOG_RETENTION_CHECK_INTERVAL_MS]

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Return which segments are to be deleted now."""
        retention_ms, retention_bytes = config[keys.RETENTION_MS], config[keys.RETENTION_BYTES]
        deletable = _Deletable(log)
        deletable.take_below_log_start()
        if retention_bytes >= 0:
            deletable.take_larger_than(retention_bytes)
        if retention_ms >= 0:
            deletable.take_older_than(retention_ms, now_ms)
        plan, oldest = deletable.plan(), deletable.oldest_kept
        if retention_ms < 0 or oldest is None:
            return plan if plan.delete_before is not None else Plan(not_before_ms=LONG_MAX)
        if plan.delete_before is None:
            # Newer segments wait for the oldest one; what was appended by then is another log.
            plan = Plan(not_before_ms=oldest.age_timestamp + retention_ms + 1)
        is_of_the_future = oldest.age_timestamp > now_ms + TOLERATED_MS
        warning = _of_the_future(oldest, retention_ms) if is_of_the_future else ""
        return attrs.evolve(plan, warning=warning)


def _of_the_future(segment: SegmentView, retention_ms: int) -> str:
    return (
        f"the segment at {segment.base_offset} has a record from the future (timestamp "
        f"{segment.age_timestamp}); nothing is deleted by age until {retention_ms} ms after that"
    )


class _Deletable:
    """The oldest segments of a log, as far as they are to be deleted: rules take more and more of them."""

    def __init__(self, log: LogView) -> None:
        segments = log.segments
        self._segments = segments
        self._ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
        self._log_start_offset = log.log_start_offset
        self._count = 0
        self._reasons: list[str] = []
        # Only what is committed may go, and an active segment without records stays.
        usable = [
            end <= log.high_watermark and (segment.size_bytes > 0 or index < len(segments) - 1)
            for index, (segment, end) in enumerate(zip(segments, self._ends, strict=True))
        ]
        self._most = usable.index(False) if False in usable else len(usable)

    @property
    def oldest_kept(self) -> SegmentView | None:
        """The oldest segment that stays, if it is another one than an active one without records."""
        kept = self._segments[self._count :]
        return kept[0] if kept and (kept[0].size_bytes or len(kept) > 1) else None

    def take_below_log_start(self) -> None:
        """Take inactive segments that lie wholly below the log start."""
        inactive = len(self._segments) - 1
        self._take(
            lambda index: index < inactive and self._ends[index] <= self._log_start_offset,
            "below the log start",
        )

    def take_larger_than(self, size_bytes: int) -> None:
        """Take the oldest segments without which the log still has `size_bytes`."""
        excess = sum(segment.size_bytes for segment in self._segments[self._count :]) - size_bytes

        def is_excess(index: int) -> bool:
            nonlocal excess
            excess -= self._segments[index].size_bytes
            return excess >= 0

        self._take(is_excess, f"retention.bytes = {size_bytes}")

    def take_older_than(self, age_ms: int, now_ms: int) -> None:
        """Take segments whose newest record is older than `age_ms`."""
        self._take(
            lambda index: now_ms - self._segments[index].age_timestamp > age_ms, f"retention.ms = {age_ms}"
        )

    def _take(self, goes: Callable[[int], bool], reason: str) -> None:
        """Take segments up to the first one that does not go."""
        before = self._count
        while self._count < self._most and goes(self._count):
            self._count += 1
        if self._count > before:
            self._reasons.append(reason)

    def plan(self) -> Plan:
        """Return the plan that deletes what was taken."""
        if not self._count:
            return NOTHING
        everything = self._count == len(self._segments)
        # The active segment is never deleted, so that another one has to follow it first.
        return Plan(self._ends[self._count - 1], roll=everything, reason=", ".join(self._reasons))
