"""Cleanup of logs: policies are asked what may go, their plans are checked and carried out.

Each policy has a background task of its own. A partition is in the hands of one policy at a time; another one
passes over it, and comes back with its next run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import Config, TopicConfig, keys
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.cleanup import NOTHING, CleanupPolicy, LogView, Plan
from tidelog.kernel.seams.events import Event, TopicConfigChanged, TopicCreated
from tidelog.kernel.seams.partition import Partition
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.kernel.seams.topics import Topics

_log = logging.getLogger(__name__)


class BadPlan(ValueError):
    """A plan that must not be carried out; the message says why."""


def check_plan(plan: object, log: LogView) -> None:
    """Check that a plan removes nothing that is needed.

    Raises:
        BadPlan: it deletes what is not committed, or in the active segment without rolling it; or it rolls an
            active segment that is empty.
    """
    if not isinstance(plan, Plan):
        raise BadPlan(f"it is no plan, but {plan!r}")
    if plan.roll and not log.active.size_bytes:
        raise BadPlan(f"it rolls the active segment at {log.active.base_offset}, which is empty")
    offset = plan.delete_before
    if offset is None:
        return
    if not 0 <= offset <= log.high_watermark:
        raise BadPlan(f"it deletes up to {offset}, but only offsets below {log.high_watermark} are committed")
    if offset > log.active.base_offset and not plan.roll:
        raise BadPlan(
            f"it deletes up to {offset}, which is in the active segment at {log.active.base_offset}, without "
            "rolling that"
        )


@attrs.define
class CleanupStatistics:
    """What one policy has done since the start: counts, and sizes in bytes."""

    deleted_segments: int = 0
    deleted_bytes: int = 0
    rolled_segments: int = 0
    failures: int = 0
    """Plans that were refused, and errors of the policy or of the disk."""


class LogCleanup:
    """The cleanup policies of one broker, by name, and what they do to its logs."""

    def __init__(
        self, policies: Mapping[str, CleanupPolicy], config: Config, topics: Topics, clock: Clock
    ) -> None:
        self._config = config
        in_hands: set[Partition] = set()
        self._executions = {
            name: PolicyExecution(policy, topics, clock, in_hands) for name, policy in policies.items()
        }

    def background_tasks(self) -> Sequence[PeriodicTask]:
        """Return a task for each policy."""
        delay = self._config[keys.LOG_INITIAL_TASK_DELAY_MS]
        return [
            PeriodicTask(f"cleanup policy {name}", each.run, each.policy.interval_ms(self._config), delay)
            for name, each in self._executions.items()
        ]

    def statistics(self) -> dict[str, CleanupStatistics]:
        """Policy → what it has done since the start."""
        return {name: attrs.evolve(each.statistics) for name, each in self._executions.items()}

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


class _Promise(NamedTuple):
    """A policy has nothing to remove before a time, with a configuration and a log start."""

    config: TopicConfig
    log_start_offset: int
    not_before_ms: int

    def holds(self, partition: Partition, config: TopicConfig, now_ms: int) -> bool:
        """Return whether the policy need not be asked now."""
        unchanged = self.config is config and self.log_start_offset == partition.log_start_offset
        return unchanged and now_ms < self.not_before_ms


class PolicyExecution:
    """One policy on all logs of a broker whose topics name it."""

    def __init__(self, policy: CleanupPolicy, topics: Topics, clock: Clock, in_hands: set[Partition]) -> None:
        """`in_hands` are the partitions that some policy works on; all executions share it."""
        self.policy = policy
        self.statistics = CleanupStatistics()
        self._topics = topics
        self._clock = clock
        self._in_hands = in_hands
        self._promises: dict[Partition, _Promise] = {}
        self._messages: dict[Partition, str] = {}

    async def run(self) -> None:
        """Look at every log once."""
        seen: set[Partition] = set()
        for topic in tuple(self._topics):
            for partition in tuple(topic.partitions):
                await trio.lowlevel.checkpoint()
                if self.policy.name in topic.config[keys.CLEANUP_POLICY] and partition.offline is None:
                    seen.add(partition)
                    await self._clean(partition, topic.config)
        for gone in self._promises.keys() - seen:
            del self._promises[gone]
        for gone in self._messages.keys() - seen:
            del self._messages[gone]

    async def _clean(self, partition: Partition, config: TopicConfig) -> None:
        now_ms = self._clock()
        promise = self._promises.get(partition)
        if promise is not None:
            if promise.holds(partition, config, now_ms):
                return
            del self._promises[partition]
        if partition in self._in_hands:
            return
        self._in_hands.add(partition)
        try:
            plan = await self._plan(partition, now_ms, config)
            await self._carry_out(plan, partition)
            if plan.not_before_ms is not None:
                self._promises[partition] = _Promise(config, partition.log_start_offset, plan.not_before_ms)
        except BrokerError as error:
            if partition.offline is None:
                self._fail(partition, str(error))
        finally:
            self._in_hands.discard(partition)

    async def _plan(self, partition: Partition, now_ms: int, config: TopicConfig) -> Plan:
        """Return a plan that was checked; `NOTHING` for one that is refused, and after an error."""
        view = partial(
            LogView,
            partition.topic_partition,
            log_start_offset=partition.log_start_offset,
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
        )

        def plan() -> Plan:
            segments = partition.store.segments()
            if not segments:
                return NOTHING
            log = view(segments=tuple(segments))
            planned = self.policy.plan(log, now_ms, config)
            check_plan(planned, log)
            return planned

        try:
            found = await trio.to_thread.run_sync(plan)
        except BadPlan as error:
            self._fail(partition, f"the plan is refused: {error}")
        except OSError as error:
            if partition.offline is None:
                self._fail(partition, f"the log cannot be looked at: {error}")
        except Exception as error:
            self._fail(partition, f"no plan: {type(error).__name__}: {error}")
            _log.debug("the error of cleanup policy %s:", self.policy.name, exc_info=True)
        else:
            self._note(partition, found.warning)
            return found
        return NOTHING

    async def _carry_out(self, plan: Plan, partition: Partition) -> None:
        if plan.roll and await partition.roll():
            self.statistics.rolled_segments += 1
        if plan.delete_before is None:
            return
        before = partition.log_start_offset
        deleted = await partition.delete_segments_before(plan.delete_before)
        size_bytes = sum(segment.size_bytes for segment in deleted)
        self.statistics.deleted_segments += len(deleted)
        self.statistics.deleted_bytes += size_bytes
        if deleted:
            _log.info(
                "%s: cleanup policy %s deleted %d segment(s), %d bytes; the log starts at %d, no longer at "
                "%d (%s)",
                partition.topic_partition,
                self.policy.name,
                len(deleted),
                size_bytes,
                partition.log_start_offset,
                before,
                plan.reason or "no reason given",
            )

    def _fail(self, partition: Partition, message: str) -> None:
        self.statistics.failures += 1
        self._note(partition, message, logging.ERROR)

    def _note(self, partition: Partition, message: str, level: int = logging.WARNING) -> None:
        """Log a message about a partition, unless it was the last one already."""
        if message and message != self._messages.get(partition):
            _log.log(level, "%s: cleanup policy %s: %s", partition.topic_partition, self.policy.name, message)
        if message:
            self._messages[partition] = message
        else:
            self._messages.pop(partition, None)
