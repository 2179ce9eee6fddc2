"""The cleanup seam: policies that say what may be removed from a log.

A policy is a pure function: from a view of a log, a time and the topic's configuration to a plan. It touches
neither files nor partitions, and is called in any thread. The kernel asks every policy that the topic's
`cleanup.policy` names, checks the plan, and carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from tidelog.kernel.seams.storage import SegmentView, TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config, TopicConfig


@attrs.frozen
class LogView:
    """A log as it was a moment ago: its segments, oldest first, and its offsets.

    There is at least one segment; the last is the active one, to which records are still appended.
    """

    topic_partition: TopicPartition
    segments: Sequence[SegmentView]
    log_start_offset: int
    """The first offset that can be read; records below it in the first segment are deleted already."""
    last_stable_offset: int
    """The offset below which no transaction is open."""
    high_watermark: int
    """The offset below which everything is committed."""

    @property
    def active(self) -> SegmentView:
        """The segment that takes appends."""
        return self.segments[-1]

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self.active.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)


@attrs.frozen
class Plan:
    """The removals that a policy wants now; all parts are optional.

    `delete_before`: raise the log start to this offset and delete the segments below it; at most the high
    watermark. `roll`: begin a new active segment first; needed when `delete_before` is in the active segment.
    `reason` explains the deletion in the log. `warning` is logged whenever it has changed. With
    `not_before_ms` the policy promises that it has nothing to remove before that time, whatever is appended;
    it is not asked until then, unless the topic's configuration or the log start changes.
    """

    delete_before: int | None = None
    roll: bool = False
    reason: str = ""
    warning: str = ""
    not_before_ms: int | None = None


NOTHING: Final = Plan()
"""Remove nothing."""


class CleanupPolicy(Protocol):
    """A way to remove old records, which the key `cleanup.policy` can name."""

    @property
    def name(self) -> str:
        """The name in `cleanup.policy`, alone or among others."""
        ...

    def interval_ms(self, config: Config) -> int:
        """Return how often all logs are to be looked at, in milliseconds, at least 1."""
        ...

    def plan(self, log: LogView, now_ms: int, config: TopicConfig) -> Plan:
        """Return what is to be removed from `log` at `now_ms`, milliseconds since the epoch."""
        ...
