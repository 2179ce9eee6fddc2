"""The cleanup policies of one broker, and the tasks that have them look at the logs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import attrs

from tidelog.kernel.cleanup.policy_execution import PolicyExecution, RewriteOutcome
from tidelog.kernel.cleanup.rewriting import Observe
from tidelog.kernel.cleanup.statistics import CleanupStatistics
from tidelog.kernel.cleanup.workers import Workers
from tidelog.kernel.clock import Clock
from tidelog.kernel.config import Config, keys
from tidelog.kernel.seams.cleanup import CleanupPolicy
from tidelog.kernel.seams.events import Event, TopicConfigChanged, TopicCreated
from tidelog.kernel.seams.partition import Partition
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.tasks import LifespanTask, PeriodicTask
from tidelog.kernel.seams.topics import Topics

_log = logging.getLogger(__name__)

_AT_ONCE = {"min.cleanable.dirty.ratio": 0.0, "max.compaction.lag.ms": 1}
"""With these, what is there is compacted at once, and the active segment is rolled first."""


class LogCleanup:
    """The cleanup policies of one broker, by name, and what they do to its logs."""

    def __init__(
        self, policies: Mapping[str, CleanupPolicy], config: Config, topics: Topics, clock: Clock
    ) -> None:
        self._config = config
        in_hands: set[Partition] = set()
        self._workers = workers = Workers(config)
        self._executions = {
            name: PolicyExecution(policy, topics, clock, in_hands, workers)
            for name, policy in policies.items()
        }

    def background_tasks(self) -> Sequence[PeriodicTask]:
        """Return a task for each policy."""
        delay = self._config[keys.LOG_INITIAL_TASK_DELAY_MS]
        intervals = {
            name: partial(each.policy.interval_ms, self._config) for name, each in self._executions.items()
        }
        return [
            PeriodicTask(f"cleanup policy {name}", self._executions[name].run, interval, delay)
            for name, interval in intervals.items()
            if interval()
        ]

    def lifespan_task(self) -> LifespanTask:
        """Return the task that keeps workers between two rewrites, and ends them."""
        return LifespanTask("cleanup workers", self._workers.keep)

    async def rewrite_now(self, topics: Collection[str], observe: Observe) -> RewriteOutcome:
        """Rewrite all logs whose policies do so, however little there is to rewrite, and delete nothing.

        `topics` are the names of those to look at, none for all. `observe(log, bytes read, all bytes)`
        receives the progress. The caller makes sure that no other operation runs on the logs.
        """
        done: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        for execution in self._executions.values():
            outcome = await execution.rewrite_now(topics, _AT_ONCE, observe)
            done += outcome.done
            failed += outcome.failed
        return RewriteOutcome(done, failed)

    def statistics(self) -> dict[str, CleanupStatistics]:
        """Policy → what it has done since the start."""
        return {name: _copy(each.statistics) for name, each in self._executions.items()}

    def check_default(self) -> None:
        """Log the policies of the broker's default that no installed plugin carries out."""
        self._warn_of_missing(keys.LOG_CLEANUP_POLICY.name, self._config[keys.LOG_CLEANUP_POLICY])

    def on_event(self, event: Event) -> None:
        """Log the policies of a new or changed topic that no installed plugin carries out."""
        if isinstance(event, TopicCreated | TopicConfigChanged):
            topic = event.topic
            if keys.CLEANUP_POLICY.name in topic.overrides:
                self._warn_of_missing(
                    f"topic {topic.name}: {keys.CLEANUP_POLICY}", topic.config[keys.CLEANUP_POLICY]
                )

    def _warn_of_missing(self, setting: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._executions:
                _log.warning(
                    "%s has %s, which no installed plugin carries out: it has no effect", setting, name
                )


def _copy(statistics: CleanupStatistics) -> CleanupStatistics:
    return attrs.evolve(statistics, counts={**statistics.counts})
