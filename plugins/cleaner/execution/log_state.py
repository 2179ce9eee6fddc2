"""What the execution of a policy knows of one log: until when it is idle, and what went wrong last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.plugins.cleaner.execution.planning import LogStamp, Planned

FIRST_BACKOFF_S: Final = 15.0
"""How long a log waits after its first rewrite that failed: as long as Apache Kafka's cleaner rests."""
MOST_BACKOFF_S: Final = 900.0
"""How long it waits at most: a full disk that was emptied is noticed within a quarter of an hour."""
_MOST_COUNTED: Final = 32


class LogState:
    """One log as one policy sees it. Times are seconds of a monotonic clock, but for that of a plan."""

    __slots__ = (
        "_failed_at",
        "_failures",
        "_idle_until_ms",
        "_planned_at",
        "_retry_at",
        "is_corrupt",
        "message",
    )

    def __init__(self) -> None:
        self.message = ""
        """What was logged last of it: the same is not logged again."""
        self._planned_at: LogStamp | None = None
        self._idle_until_ms = 0
        self._failures = 0
        self._retry_at = 0.0
        self._failed_at: LogStamp | None = None
        self.is_corrupt = False
        """Whether a part of it cannot be read: a rewrite would hide that."""

    # --- nothing to do

    def note_plan(self, planned: Planned) -> None:
        """Note until when a plan that removes nothing says that this stays so."""
        plan = planned.plan
        removes = plan.roll or plan.delete_before is not None or plan.rewrite is not None
        idle_until_ms = None if removes else plan.not_before_ms
        self._planned_at = None if idle_until_ms is None else planned.stamp
        self._idle_until_ms = idle_until_ms or 0

    def is_idle(self, stamp: LogStamp, now_ms: int) -> bool:
        """Return whether the policy need not be asked: the log is as it was, and the time has not come."""
        return now_ms < self._idle_until_ms and stamp == self._planned_at

    # --- rewrites that failed

    @property
    def backoff_s(self) -> float:
        """How long it waits since its last rewrite failed, 0 if that did not."""
        return min(FIRST_BACKOFF_S * 2 ** (self._failures - 1), MOST_BACKOFF_S) if self._failures else 0.0

    def may_be_rewritten(self, stamp: LogStamp, now_s: float) -> bool:
        """Return whether a rewrite may be tried now: always with another configuration than the last time.

        What is corrupt has to change first, since nothing else makes it readable.
        """
        failed_at = self._failed_at
        if failed_at is None or stamp.config != failed_at.config:
            return True
        if self.is_corrupt and not stamp.may_have_lost_records(failed_at):
            return False
        return now_s >= self._retry_at

    def note_rewritten(self) -> None:
        """Note that a rewrite succeeded."""
        self.is_corrupt, self._failures, self._failed_at = False, 0, None

    def note_failed(self, stamp: LogStamp, now_s: float, *, corrupt: bool) -> None:
        """Note that a rewrite of the log as it is now failed, `corrupt` if a part of it cannot be read."""
        self.is_corrupt = corrupt
        # Counted only as far as it makes a difference: a power of a large number takes long.
        self._failures = min(self._failures + 1, _MOST_COUNTED)
        self._failed_at = stamp
        self._retry_at = now_s + self.backoff_s
