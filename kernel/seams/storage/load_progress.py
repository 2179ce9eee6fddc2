"""The logs that are still to be opened while a broker starts, for the progress bar and for statistics.

Source: Apache Kafka's `LogManager` (remainingLogsToRecover per directory,
remainingSegmentsToRecover per thread).
"""

from __future__ import annotations

from collections.abc import Mapping


class LogLoadProgress:
    """Counters that a storage sets, each thread its own, and that any thread may read at any time."""

    def __init__(self) -> None:
        self._total_logs = 0
        self._logs: dict[str, int] = {}
        self._segments: dict[str, int] = {}

    @property
    def total_logs(self) -> int:
        """Logs that were or are to be opened since the start."""
        return self._total_logs

    @property
    def remaining_logs(self) -> Mapping[str, int]:
        """Log directory → logs of it that are not open yet."""
        # A copy: threads count on while it is read.
        return dict(self._logs)

    @property
    def remaining_segments(self) -> Mapping[str, int]:
        """Thread → segments that are left of the log which it opens."""
        return dict(self._segments)

    def add_logs(self, directory: str, count: int) -> None:
        """Count logs of a directory that are to be opened."""
        self._total_logs += count
        self._logs[directory] = self._logs.get(directory, 0) + count

    def logs_done(self, directory: str, count: int) -> None:
        """Count logs of a directory that are open now; called on the event loop."""
        self._logs[directory] -= count

    def set_segments(self, thread: str, count: int) -> None:
        """Set how many segments are left of the log that a thread opens."""
        self._segments[thread] = count

    def __str__(self) -> str:
        logs, segments = sum(self._logs.values()), sum(self._segments.values())
        return f"{logs} of {self._total_logs} logs are left, {segments} segments in those under way"
