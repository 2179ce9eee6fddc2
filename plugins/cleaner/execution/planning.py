"""Asking a cleanup policy for plans, many logs at once in one thread, and what a plan was made from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.pace import ThreadPace
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.cleanup import NOTHING, BadPlan, CleanupPolicy, LogView, Plan, check_plan
from tidelog.kernel.seams.storage import SegmentView

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog

_log = logging.getLogger(__name__)

_described = RateLimit(600.0)
"""Shared by all policies, which fail for the same reason in many logs."""


class LogStamp(NamedTuple):
    """All that a plan depends on, but for the time: while it stays, so does the plan.

    Offsets change with appends, commits and DeleteRecords, the revision with everything else that changes
    segments. What a policy has rewritten changes only together with one of these.
    """

    config: TopicConfig
    revision: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int

    @classmethod
    def of(cls, partition: UnifiedLog, config: TopicConfig) -> LogStamp:
        """Return the present stamp of a log whose topic has this configuration."""
        offsets = partition.watermarks
        return cls(
            config,
            partition.revision,
            offsets.log_start_offset,
            offsets.last_stable_offset,
            offsets.high_watermark,
            offsets.log_end_offset,
        )

    def may_have_lost_records(self, earlier: LogStamp) -> bool:
        """Return whether more than appends happened since an earlier stamp: corrupt batches may be gone."""
        return self[:3] != earlier[:3]


class Planned(NamedTuple):
    """A plan that was checked and what it was made from; `NOTHING` and the reason if there is none."""

    plan: Plan
    stamp: LogStamp
    problem: str = ""


class Planner:
    """Asks one policy. Plans are made in a thread, since they read segments and may take long."""

    def __init__(self, policy: CleanupPolicy) -> None:
        self._policy = policy

    async def plans(self, logs: Sequence[tuple[UnifiedLog, TopicConfig]], now_ms: int) -> list[Planned]:
        """Return a plan for each log; one call of a thread makes all of them."""
        # Before the segments are looked at: what changes meanwhile changes the stamp.
        stamps = [LogStamp.of(partition, config) for partition, config in logs]

        def make() -> list[Planned]:
            pace = ThreadPace()
            planned: list[Planned] = []
            for (partition, _), stamp in zip(logs, stamps, strict=True):
                planned.append(self._planned(partition, stamp, now_ms))
                pace.turn()
            return planned

        return await trio.to_thread.run_sync(make)

    async def wants_active_segment(self, partition: UnifiedLog, config: TopicConfig, now_ms: int) -> bool:
        """Return whether the policy would rewrite the active segment as well if another one followed it.

        An error is no answer: the next plan has it, too, and reports it.
        """

        def ask() -> bool:
            stamp = LogStamp.of(partition, config)
            segments = partition.store.segments()
            if not segments or not segments[-1].size_bytes:
                return False
            end = segments[-1].next_offset
            rolled = (*segments, SegmentView(end, end, 0, NO_TIMESTAMP, now_ms))
            plan = self._policy.plan(self._view(partition, rolled, stamp), now_ms, config)
            return plan.rewrite is not None and plan.rewrite.until == end

        try:
            return await trio.to_thread.run_sync(ask)
        except Exception as error:
            self._describe(error)
            return False

    def _describe(self, error: Exception) -> None:
        """Log the traceback of a policy's error, which may come for each log, once in ten minutes."""
        if _described.admit(f"{self._policy.name} {error!r:.200}") is not None:
            _log.warning("the error of cleanup policy %s:", self._policy.name, exc_info=error)

    def _planned(self, partition: UnifiedLog, stamp: LogStamp, now_ms: int) -> Planned:
        """Blocking: make one plan; an error is the problem of this log alone."""
        try:
            return Planned(self._plan(partition, stamp, now_ms), stamp)
        except BadPlan as error:
            return Planned(NOTHING, stamp, f"the plan is refused: {error}")
        except OSError as error:
            return Planned(NOTHING, stamp, f"the log cannot be looked at: {error}")
        except Exception as error:
            self._describe(error)
            return Planned(NOTHING, stamp, f"no plan: {type(error).__name__}: {error}")

    def _plan(self, partition: UnifiedLog, stamp: LogStamp, now_ms: int) -> Plan:
        segments = partition.store.segments()
        if not segments:
            return NOTHING
        log = self._view(partition, segments, stamp)
        plan = self._policy.plan(log, now_ms, stamp.config)
        check_plan(plan, log)
        return plan

    def _view(self, partition: UnifiedLog, segments: Sequence[SegmentView], stamp: LogStamp) -> LogView:
        return LogView(
            partition.topic_partition,
            tuple(segments),
            log_start_offset=stamp.log_start_offset,
            last_stable_offset=stamp.last_stable_offset,
            high_watermark=stamp.high_watermark,
            rewritten_until=self._rewritten_until(partition),
            first_timestamp=partial(_first_timestamp, partition),
        )

    def _rewritten_until(self, partition: UnifiedLog) -> int | None:
        """Blocking: return how far the policy has rewritten a log; one that ends below it is dirty again.

        Its end may have been lost, and what is appended in its place was never looked at.
        """
        store, name = partition.store, self._policy.name
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


def _first_timestamp(partition: UnifiedLog, segment: SegmentView) -> int:
    return partition.store.first_timestamp(segment.base_offset)
