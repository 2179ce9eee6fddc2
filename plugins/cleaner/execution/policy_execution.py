"""Runs one cleanup policy: requests its plans, checks them and carries them out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import TopicConfig, keys
from tidelog.kernel.errors import BrokerError, TidelogError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.cleanup import CleanupPolicy, CleanupStatistics, Plan, Rewrite, RewriteOutcome
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.cleaner.errors import LogCorrupt, RewriteAborted, RewriteFailed, WorkerDied
from tidelog.plugins.cleaner.execution.log_state import LogState
from tidelog.plugins.cleaner.execution.planning import LogStamp, Planned, Planner
from tidelog.plugins.cleaner.execution.workers import Workers

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.topics import Topic, Topics
    from tidelog.plugins.cleaner.execution.rewriting import Observe, Rewritten, Worker

_log = logging.getLogger(__name__)

PLANS_AT_ONCE: Final = 64
"""Logs whose plans are made by one call of a thread, and that no other policy works on meanwhile."""


class _Wanted(NamedTuple):
    """A rewrite that a policy wants; without `deletes` nothing else is done to the log."""

    partition: UnifiedLog
    config: TopicConfig
    rewrite: Rewrite
    deletes: bool = True


class PolicyExecution:
    """One policy on all logs of a broker whose topics name it."""

    def __init__(
        self,
        policy: CleanupPolicy,
        topics: Topics,
        clock: Clock,
        in_hands: set[UnifiedLog],
        workers: Workers,
        monotonic: Callable[[], float] = trio.current_time,
    ) -> None:
        """`in_hands` are the partitions that some policy works on; all executions share it and `workers`.

        `monotonic()` returns seconds.
        """
        self.policy = policy
        self.statistics = CleanupStatistics()
        self._topics = topics
        self._clock = clock
        self._in_hands = in_hands
        self._planner = Planner(policy)
        self._states: dict[UnifiedLog, LogState] = {}
        self._failing: dict[UnifiedLog, LogState] = {}
        """Those whose last rewrite failed."""
        self._workers = workers
        self._monotonic = monotonic

    async def run(self) -> None:
        """Look at every log once, and do the rewrites that the policy wants, the most urgent first."""
        wanted = await self._look_at_all()
        self.statistics.most_urgency = max([each.rewrite.urgency for each in wanted], default=0)
        waiting = sorted(wanted, key=lambda each: each.rewrite.urgency)
        async with trio.open_nursery() as nursery:
            for _ in range(min(self._workers.most, len(waiting))):
                nursery.start_soon(self._rewrite_all, waiting)

    async def _look_at_all(self) -> list[_Wanted]:
        """Carry out the plans for all logs but rewrites; return those."""
        due = await self._due()
        self._count_failed()
        wanted: list[_Wanted] = []
        for begin in range(0, len(due), PLANS_AT_ONCE):
            logs = [(partition, topic.config) for partition, topic in due[begin : begin + PLANS_AT_ONCE]]
            rewrites = await self._clean(logs)
            configs = dict(logs)
            wanted += [_Wanted(each, configs[each], rewrite) for each, rewrite in rewrites.items()]
        return wanted

    async def _due(self) -> list[tuple[UnifiedLog, Topic]]:
        """Return the logs for which the policy may have something to do; what is known of others stays.

        A broker may have tens of thousands of logs, of which nearly all are idle: here is no thread, and no
        checkpoint but by time.
        """
        states: dict[UnifiedLog, LogState] = {}
        due: list[tuple[UnifiedLog, Topic]] = []
        now_ms = self._clock()
        pace = Pace()
        for topic in tuple(self._topics):
            config = topic.config
            applies = self.policy.name in config[keys.CLEANUP_POLICY]
            for partition in [each.log for each in topic.partitions] if applies else ():
                if partition.offline is None:
                    state = states[partition] = self._states.get(partition) or LogState()
                    if not state.is_idle(LogStamp.of(partition, config), now_ms):
                        due.append((partition, topic))
                await pace.turn()
            await pace.turn()
        # Those that are gone are forgotten.
        self._states = states
        return due

    def _state(self, partition: UnifiedLog) -> LogState:
        return self._states.setdefault(partition, LogState())

    async def _clean(
        self, logs: Sequence[tuple[UnifiedLog, TopicConfig]], *, deletes: bool = True
    ) -> dict[UnifiedLog, Rewrite]:
        """Carry out the plans for some logs but rewrites, return those; without `deletes` nothing is deleted.

        A log that is in the hands of another policy is passed over.
        """
        logs = [
            (partition, config)
            for partition, config in logs
            if partition not in self._in_hands and partition.offline is None
        ]
        held = {partition for partition, _ in logs}
        # In place, as with `-=` below: all executions share this set.
        self._in_hands |= held
        wanted: dict[UnifiedLog, Rewrite] = {}
        try:
            planned = await self._planner.plans(logs, self._clock())
            for (partition, _), each in zip(logs, planned, strict=True):
                rewrite = await self._carry_out_but_rewrite(partition, each, deletes=deletes)
                if rewrite is not None:
                    wanted[partition] = rewrite
                held.discard(partition)
                self._in_hands.discard(partition)
        finally:
            self._in_hands -= held
        return wanted

    async def _carry_out_but_rewrite(
        self, partition: UnifiedLog, planned: Planned, *, deletes: bool
    ) -> Rewrite | None:
        """Carry out a plan and note what comes of it; return its rewrite if that may be tried now."""
        plan, state = planned.plan, self._state(partition)
        if planned.problem:
            # A log that was deleted meanwhile cannot be looked at, and need not.
            if partition.offline is None:
                self._fail(partition, planned.problem)
            return None
        self._note(partition, plan.warning)
        if plan.delete_before is not None and not deletes:
            plan = attrs.evolve(plan, delete_before=None, roll=False)
        try:
            await self._carry_out(plan, partition)
        except BrokerError as error:
            if partition.offline is None:
                self._fail(partition, str(error))
            return None
        state.note_plan(planned)
        if plan.rewrite is None or not state.may_be_rewritten(planned.stamp, self._monotonic()):
            return None
        return plan.rewrite

    async def _carry_out(self, plan: Plan, partition: UnifiedLog) -> None:
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

    # --- rewrites

    async def rewrite_now(
        self,
        topics: Collection[str],
        overrides: Mapping[str, object],
        observe: Observe | None = None,
        *,
        with_active_segments: bool = False,
    ) -> RewriteOutcome:
        """Rewrite logs with other settings than their own, and delete nothing. See `LogCleanup`."""
        wanted: list[_Wanted] = []
        failed: list[TopicPartition] = []
        for topic in tuple(self._topics):
            if self.policy.name in topic.config[keys.CLEANUP_POLICY] and (topic.name in topics or not topics):
                config = topic.config | overrides
                for partition in [each.log for each in topic.partitions]:
                    failures = self.statistics.failures
                    if with_active_segments:
                        await self._roll_what_is_wanted(partition, config)
                    rewrites = await self._clean([(partition, config)], deletes=False)
                    if partition in rewrites:
                        wanted.append(_Wanted(partition, config, rewrites[partition], deletes=False))
                    elif partition.offline is not None or self.statistics.failures > failures:
                        failed.append(partition.topic_partition)
        await self._rewrite_all([*wanted], observe)
        done = [each.partition.topic_partition for each in wanted if self._is_done(each)]
        failed += [each.partition.topic_partition for each in wanted if not self._is_done(each)]
        return RewriteOutcome(done, failed)

    async def _roll_what_is_wanted(self, partition: UnifiedLog, config: TopicConfig) -> None:
        """Begin a new segment if the policy would rewrite the active one then."""
        if await self._planner.wants_active_segment(partition, config, self._clock()):
            roll = Planned(Plan(roll=True), LogStamp.of(partition, config))
            await self._carry_out_but_rewrite(partition, roll, deletes=False)

    def _is_done(self, wanted: _Wanted) -> bool:
        reached = wanted.partition.store.rewritten_until(self.policy.name)
        return reached is not None and reached >= wanted.rewrite.until

    async def _rewrite_all(self, waiting: list[_Wanted], observe: Observe | None = None) -> None:
        """Do one rewrite after the other, the last first, as long as any wait."""
        while waiting:
            try:
                async with self._workers.worker() as worker:
                    while waiting and await self._rewrite_next(waiting, worker, observe):
                        pass
            except OSError as error:
                self.statistics.failures += 1
                _log.error("cleanup policy %s: no worker process: %s", self.policy.name, error)
                return

    async def _rewrite_next(self, waiting: list[_Wanted], worker: Worker, observe: Observe | None) -> bool:
        """Rewrite a log, and again as long as that gets any further; return whether the worker is of use."""
        partition, config, _, deletes = waiting.pop()
        reached = -1
        while partition.offline is None:
            # The log has changed since it was looked at.
            rewrites = await self._clean([(partition, config)], deletes=deletes)
            rewrite = rewrites.get(partition)
            # Another policy may have taken the log since the plan was carried out.
            if rewrite is None or partition in self._in_hands:
                return True
            self._in_hands.add(partition)
            try:
                rewritten = await worker.rewrite(partition, rewrite, config, self._clock(), observe)
                self._note_rewritten(partition, rewritten)
                until = rewritten.done.until
                # A truncation may have come in between.
                noted = min(until, partition.store.log_end_offset)
                await trio.to_thread.run_sync(partition.store.set_rewritten_until, self.policy.name, noted)
            except (TidelogError, OSError) as error:
                self._note_failed(partition, config, error)
                # What has failed in the middle of a job cannot be used again.
                return isinstance(error, RewriteFailed)
            finally:
                self._in_hands.discard(partition)
            if until <= reached:
                return True
            reached = until
        return True

    def _note_rewritten(self, partition: UnifiedLog, rewritten: Rewritten) -> None:
        done, statistics = rewritten.done, self.statistics
        self._state(partition).note_rewritten()
        self._failing.pop(partition, None)
        self._count_failed()
        statistics.rewrites += 1
        statistics.rewrite_read_bytes += done.bytes_read
        statistics.rewrite_kept_bytes += done.bytes_kept
        statistics.rewrite_read_records += done.records_read
        statistics.rewrite_kept_records += done.records_kept
        statistics.rewrite_seconds += rewritten.seconds
        statistics.most_rewrite_seconds = max(statistics.most_rewrite_seconds, rewritten.seconds)
        for name, count in done.counts.items():
            adds_up = isinstance(count, int)
            statistics.counts[name] = count + statistics.counts.get(name, 0) if adds_up else count
        _log.info(
            "%s: cleanup policy %s rewrote the log up to %d in %.1f s: %d of %d bytes and %d of %d records "
            "are left%s",
            partition.topic_partition,
            self.policy.name,
            done.until,
            rewritten.seconds,
            done.bytes_kept,
            done.bytes_read,
            done.records_kept,
            done.records_read,
            "".join(f"; {name}: {count:g}" for name, count in sorted(done.counts.items())),
        )

    def _note_failed(self, partition: UnifiedLog, config: TopicConfig, error: Exception) -> None:
        """Note why a rewrite did not come to its end, and when it is tried again.

        Only what cannot be read is given up. Everything else may pass, as a full disk does, or be corrected
        while the broker runs, as rights and limits are.
        """
        if isinstance(error, RewriteAborted) or partition.offline is not None:
            self.statistics.aborted_rewrites += 1
            _log.info("%s: rewriting is given up for now: %s", partition.topic_partition, error)
            return
        self.statistics.dead_workers += isinstance(error, WorkerDied)
        corrupt, state = isinstance(error, LogCorrupt), self._state(partition)
        state.note_failed(LogStamp.of(partition, config), self._monotonic(), corrupt=corrupt)
        self._failing[partition] = state
        self._count_failed()
        if corrupt:
            message = (
                f"the log cannot be rewritten: {error}; it is passed over until what is damaged is gone, the "
                "configuration of the topic changes or the broker starts again"
            )
        else:
            message = f"rewriting failed, and is tried again in {state.backoff_s:g} s: {error}"
        self._fail(partition, message)

    def _count_failed(self) -> None:
        """Set what the statistics show of the logs that were not rewritten."""
        self._failing = {each: self._states[each] for each in self._failing if each in self._states}
        failed = self._failing.values()
        postponed = [state.backoff_s for state in failed if not state.is_corrupt]
        self.statistics.unrewritable_partitions = len(failed) - len(postponed)
        self.statistics.postponed_partitions = len(postponed)
        self.statistics.longest_backoff_seconds = max(postponed, default=0)

    def _fail(self, partition: UnifiedLog, message: str) -> None:
        self.statistics.failures += 1
        self._note(partition, message, logging.ERROR)

    def _note(self, partition: UnifiedLog, message: str, level: int = logging.WARNING) -> None:
        """Log a message about a partition, unless it was the last one already."""
        state = self._state(partition)
        if message and message != state.message:
            _log.log(level, "%s: cleanup policy %s: %s", partition.topic_partition, self.policy.name, message)
        state.message = message
