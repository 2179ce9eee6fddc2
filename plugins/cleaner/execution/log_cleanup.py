"""The cleanup policies of one broker, and the tasks that have them look at the logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import Config
from tidelog.kernel.config import keys as kernel_keys
from tidelog.kernel.seams.cleanup import CleanupPolicy, CleanupStatistics, RewriteOutcome
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.tasks import BackgroundTask, LifespanTask, PeriodicTask
from tidelog.plugins.cleaner import keys
from tidelog.plugins.cleaner.execution.policy_execution import PolicyExecution
from tidelog.plugins.cleaner.execution.workers import Workers

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.topics import Topics
    from tidelog.plugins.cleaner.execution.rewriting import Observe

_AT_ONCE = {keys.MIN_CLEANABLE_DIRTY_RATIO.name: 0.0}
"""With these settings what is there is compacted at once."""


class LogCleanup:
    """The cleanup policies of one broker, by name, and what they do to its logs."""

    def __init__(
        self,
        policies: Mapping[str, CleanupPolicy],
        config: Config,
        topics: Topics,
        clock: Clock,
        monotonic: Callable[[], float] = trio.current_time,
    ) -> None:
        """`monotonic()` returns seconds, for back-offs: the wall clock may be set back."""
        self._config = config
        in_hands: set[UnifiedLog] = set()
        self._in_hands = in_hands
        self._workers = workers = Workers(config)
        self._executions = {
            name: PolicyExecution(policy, topics, clock, in_hands, workers, monotonic)
            for name, policy in policies.items()
        }

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return a task for each policy, and the one that keeps workers between two rewrites."""
        return [*self.policy_tasks(), LifespanTask("cleanup workers", self._workers.keep)]

    def policy_tasks(self) -> Sequence[PeriodicTask]:
        """Return a task for each policy, which looks at every log once."""
        delay = self._config[kernel_keys.LOG_INITIAL_TASK_DELAY_MS]
        intervals = {
            name: partial(each.policy.interval_ms, self._config) for name, each in self._executions.items()
        }
        return [
            PeriodicTask(f"cleanup policy {name}", self._executions[name].run, interval, delay)
            for name, interval in intervals.items()
            if interval()
        ]

    @property
    def is_busy(self) -> bool:
        """Whether a policy looks at a log, deletes of it or rewrites it at the moment."""
        return bool(self._in_hands)

    async def clean_now(self) -> None:
        """Let each policy look at each log at once, and do what it wants."""
        for execution in self._executions.values():
            await execution.run()

    async def rewrite_now(self, topics: Collection[str], observe: Observe | None = None) -> RewriteOutcome:
        """Rewrite all logs whose policies do so, however little there is to rewrite, and delete nothing.

        `topics` are the names of those to look at, none for all. `observe(log, bytes read, all bytes)`
        receives the progress. A log that is in the hands of another policy is passed over.
        """
        done: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        for execution in self._executions.values():
            outcome = await execution.rewrite_now(topics, _AT_ONCE, observe, with_active_segments=True)
            done += outcome.done
            failed += outcome.failed
        return RewriteOutcome(done, failed)

    def statistics(self) -> dict[str, CleanupStatistics]:
        """Policy → what it has done since the start."""
        return {name: _copy(each.statistics) for name, each in self._executions.items()}


def _copy(statistics: CleanupStatistics) -> CleanupStatistics:
    return attrs.evolve(statistics, counts={**statistics.counts})
