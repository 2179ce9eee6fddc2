"""Partitions of a source that cannot be copied just now, while all others are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs
import trio

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.mirror.errors import PartitionRefused
    from tidelog.plugins.mirror.settings import MirrorSettings
    from tidelog.plugins.mirror.statistics import MirrorStatistics

_log: Final = logging.getLogger(__name__)

_MOST_BACKOFFS: Final = 6
_MOST_ATTEMPTS: Final = 3
"""Of a partition, before a copy to the end gives up."""


@attrs.define
class _Trouble:
    """A partition that failed: when it is tried again, and how large its batches may be."""

    attempts: int = 0
    retry_at: float = 0.0
    most_bytes: int | None = None


class FailingPartitions:
    """When each partition that failed is tried again, after growing pauses; what fails is logged once."""

    def __init__(self, settings: MirrorSettings, statistics: MirrorStatistics) -> None:
        self._settings = settings
        self._statistics = statistics
        self._troubles: dict[TopicPartition, _Trouble] = {}

    @property
    def are_given_up(self) -> bool:
        """Whether one has failed too often for a copy to the end."""
        return any(trouble.attempts > _MOST_ATTEMPTS for trouble in self._troubles.values())

    def is_paused(self, partition: TopicPartition) -> bool:
        """Return whether a partition is not tried yet."""
        trouble = self._troubles.get(partition)
        return trouble is not None and trouble.retry_at > trio.current_time()

    def most_bytes(self, partition: TopicPartition) -> int | None:
        """Return how large a batch may be that has several records; None without a limit."""
        trouble = self._troubles.get(partition)
        return None if trouble is None else trouble.most_bytes

    def failed(self, partition: TopicPartition, problem: str) -> None:
        """Pause a partition."""
        trouble = self._troubles.setdefault(partition, _Trouble())
        settings = self._settings
        backoff = settings.retry_backoff_s * 2.0 ** min(trouble.attempts, _MOST_BACKOFFS)
        trouble.retry_at = trio.current_time() + min(backoff, settings.retry_backoff_max_s)
        trouble.attempts += 1
        self._report({str(partition): problem})
        self._statistics.problems[str(partition)] = problem

    def refused(self, sources: Iterable[TopicPartition], refusal: PartitionRefused) -> None:
        """Pause the partitions of which the target refuses a batch, or divide it if that can help."""
        batch = refusal.batch
        for source in sources:
            trouble = self._troubles.setdefault(source, _Trouble())
            if refusal.is_too_large and batch is not None and batch.record_count > 1:
                trouble.most_bytes = max(1, min(len(batch.data), trouble.most_bytes or len(batch.data)) // 2)
            else:
                self.failed(source, str(refusal))

    def copied(self, partition: TopicPartition) -> None:
        """Forget what was wrong with a partition."""
        if self._troubles.pop(partition, None) is not None:
            self._statistics.problems.pop(str(partition), None)

    def keep(self, copied: Collection[TopicPartition], problems: dict[str, str]) -> None:
        """Forget partitions that are not copied any more; `problems` are what else is wrong, by its name."""
        self._troubles = {each: found for each, found in self._troubles.items() if each in copied}
        for each in self._troubles:
            if (problem := self._statistics.problems.get(str(each))) is not None:
                problems[str(each)] = problem
        self._report(problems)
        self._statistics.problems = problems

    def _report(self, problems: dict[str, str]) -> None:
        for name, problem in problems.items():
            if self._statistics.problems.get(name) != problem:
                _log.warning("mirror %s: %s: %s", self._settings.name, name, problem)
