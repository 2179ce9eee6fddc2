"""Runs one cleanup policy: requests its plans, checks them and carries them out."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from tidelog.kernel.clock import Clock
from tidelog.kernel.config import TopicConfig, keys
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.cleanup import (
    NOTHING,
    BadPlan,
    CleanupPolicy,
    CleanupStatistics,
    LogView,
    Plan,
    Rewrite,
    check_plan,
)
from tidelog.kernel.seams.partition import Partition
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.topics import Topics
from tidelog.plugins.cleaner.errors import RewriteAborted, RewriteFailed, WorkerDied
from tidelog.plugins.cleaner.execution.workers import Workers

if TYPE_CHECKING:
    from tidelog.plugins.cleaner.execution.rewriting import Observe, Rewritten, Worker

_log = logging.getLogger(__name__)

MOST_DEATHS = 3
"""Number of workers that may end while they rewrite a partition, before the partition is skipped."""


class _Promise(NamedTuple):
    """A policy has nothing to remove before a time, with a configuration and a log start."""

    config: TopicConfig
    log_start_offset: int
    not_before_ms: int

    def holds(self, partition: Partition, config: TopicConfig, now_ms: int) -> bool:
        """Return whether the policy need not be asked now."""
        unchanged = self.config is config and self.log_start_offset == partition.log_start_offset
        return unchanged and now_ms < self.not_before_ms


class RewriteOutcome(NamedTuple):
    """The logs that were rewritten as far as their policy wanted, and those that could not be."""

    done: Sequence[TopicPartition]
    failed: Sequence[TopicPartition]


class _Wanted(NamedTuple):
    """A rewrite that a policy wants; without `deletes` nothing else is done to the log."""

    partition: Partition
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
        in_hands: set[Partition],
        workers: Workers,
    ) -> None:
        """`in_hands` are the partitions that some policy works on; all executions share it and `workers`."""
        self.policy = policy
        self.statistics = CleanupStatistics()
        self._topics = topics
        self._clock = clock
        self._in_hands = in_hands
        self._promises: dict[Partition, _Promise] = {}
        self._messages: dict[Partition, str] = {}
        self._workers = workers
        self._deaths: dict[Partition, int] = {}
        self._unrewritable: dict[Partition, TopicConfig] = {}

    async def run(self) -> None:
        """Look at every log once, and do the rewrites that the policy wants, the most urgent first."""
        wanted = await self._look_at_all()
        self.statistics.most_urgency = max([each.rewrite.urgency for each in wanted], default=0)
        if wanted and self._workers.most:
            waiting = sorted(wanted, key=lambda each: each.rewrite.urgency)
            async with trio.open_nursery() as nursery:
                for _ in range(min(self._workers.most, len(waiting))):
                    nursery.start_soon(self._rewrite_all, waiting)

    async def _look_at_all(self) -> list[_Wanted]:
        """Carry out the plans for all logs but rewrites; return those."""
        wanted: list[_Wanted] = []
        seen: set[Partition] = set()
        for topic in tuple(self._topics):
            for partition in tuple(topic.partitions):
                await trio.lowlevel.checkpoint()
                if self.policy.name in topic.config[keys.CLEANUP_POLICY] and partition.offline is None:
                    seen.add(partition)
                    rewrite = await self._clean(partition, topic.config)
                    if rewrite is not None:
                        wanted.append(_Wanted(partition, topic.config, rewrite))
        for known in (self._promises, self._messages, self._deaths, self._unrewritable):
            for gone in known.keys() - seen:
                del known[gone]
        self.statistics.unrewritable_partitions = len(self._unrewritable)
        return wanted

    async def _clean(
        self, partition: Partition, config: TopicConfig, *, deletes: bool = True
    ) -> Rewrite | None:
        """Carry out the plan for a log but its rewrite, return that; without `deletes` nothing is deleted."""
        now_ms = self._clock()
        promise = self._promises.get(partition)
        if promise is not None:
            if promise.holds(partition, config, now_ms):
                return None
            del self._promises[partition]
        if partition in self._in_hands:
            return None
        self._in_hands.add(partition)
        try:
            plan = await self._plan(partition, now_ms, config)
            if plan.delete_before is not None and not deletes:
                plan = attrs.evolve(plan, delete_before=None, roll=False)
            await self._carry_out(plan, partition)
            if plan.not_before_ms is not None:
                self._promises[partition] = _Promise(config, partition.log_start_offset, plan.not_before_ms)
            return None if self._unrewritable.get(partition) is config else plan.rewrite
        except BrokerError as error:
            if partition.offline is None:
                self._fail(partition, str(error))
        finally:
            self._in_hands.discard(partition)
        return None

    async def _plan(self, partition: Partition, now_ms: int, config: TopicConfig) -> Plan:
        """Return a plan that was checked; `NOTHING` for one that is refused, and after an error."""
        view = partial(
            LogView,
            partition.topic_partition,
            log_start_offset=partition.log_start_offset,
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
            first_timestamp=lambda segment: partition.store.first_timestamp(segment.base_offset),
        )

        def plan() -> Plan:
            segments = partition.store.segments()
            if not segments:
                return NOTHING
            log = view(segments=tuple(segments), rewritten_until=self._rewritten_until(partition))
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

    def _rewritten_until(self, partition: Partition) -> int | None:
        """Blocking: return how far the policy has rewritten a log; one that ends below it is dirty again.

        Its end may have been lost, and what is appended in its place was never looked at.
        """
        store, name = partition.store, self.policy.name
        until, end = store.rewritten_until(name), store.log_end_offset
        if until is None or until <= end:
            return until
        _log.warning(
            "%s: cleanup policy %s is said to have rewritten the log up to %d, but it ends at %d; it is "
            "rewritten from its start on",
            partition.topic_partition,
            name,
            until,
            end,
        )
        store.set_rewritten_until(name, store.log_start_offset)
        return store.log_start_offset

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

    # --- rewrites

    async def rewrite_now(
        self, topics: Collection[str], overrides: Mapping[str, object], observe: Observe
    ) -> RewriteOutcome:
        """Rewrite logs with other settings than their own, and delete nothing. See `LogCleanup`."""
        wanted: list[_Wanted] = []
        failed: list[TopicPartition] = []
        for topic in tuple(self._topics):
            if self.policy.name in topic.config[keys.CLEANUP_POLICY] and (topic.name in topics or not topics):
                config = topic.config | overrides
                for partition in topic.partitions:
                    failures = self.statistics.failures
                    # Rolling comes first; what is to be rewritten then is seen by the next plan.
                    await self._clean(partition, config, deletes=False)
                    rewrite = await self._clean(partition, config, deletes=False)
                    if rewrite is not None:
                        wanted.append(_Wanted(partition, config, rewrite, deletes=False))
                    elif partition.offline is not None or self.statistics.failures > failures:
                        failed.append(partition.topic_partition)
        await self._rewrite_all([*wanted], observe)
        done = [each.partition.topic_partition for each in wanted if self._is_done(each)]
        failed += [each.partition.topic_partition for each in wanted if not self._is_done(each)]
        return RewriteOutcome(done, failed)

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
            rewrite = await self._clean(partition, config, deletes=deletes)
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
            except RewriteFailed as error:
                self._give_up(partition, config, str(error))
                return True
            except (RewriteAborted, WorkerDied, BrokerError, OSError) as error:
                self._note_broken_off(partition, config, error)
                return False
            finally:
                self._in_hands.discard(partition)
            if until <= reached:
                return True
            reached = until
        return True

    def _note_rewritten(self, partition: Partition, rewritten: Rewritten) -> None:
        done, statistics = rewritten.done, self.statistics
        self._deaths.pop(partition, None)
        self._unrewritable.pop(partition, None)
        statistics.unrewritable_partitions = len(self._unrewritable)
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

    def _note_broken_off(self, partition: Partition, config: TopicConfig, error: Exception) -> None:
        """Note that a rewrite did not come to its end, through no fault of the log."""
        if isinstance(error, RewriteAborted) or partition.offline is not None:
            self.statistics.aborted_rewrites += 1
            _log.info("%s: rewriting is given up for now: %s", partition.topic_partition, error)
            return
        if isinstance(error, WorkerDied):
            self.statistics.dead_workers += 1
            self._deaths[partition] = self._deaths.get(partition, 0) + 1
            if self._deaths[partition] >= MOST_DEATHS:
                self._give_up(partition, config, str(error))
                return
        self._fail(partition, f"rewriting is given up for now: {error}")

    def _give_up(self, partition: Partition, config: TopicConfig, reason: str) -> None:
        self._unrewritable[partition] = config
        self.statistics.unrewritable_partitions = len(self._unrewritable)
        self._fail(
            partition,
            f"the log cannot be rewritten: {reason}; it is passed over until the configuration of the topic "
            "changes or the broker starts again",
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
