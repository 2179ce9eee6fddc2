"""Checks of plans: no policy can remove what is needed."""

from __future__ import annotations

import math

from tidelog.kernel.seams.cleanup import LogView, Plan, Rewrite


class BadPlan(ValueError):
    """A plan that must not be carried out; the message says why."""


def check_plan(plan: object, log: LogView) -> None:
    """Check that a plan removes nothing that is needed.

    Raises:
        BadPlan: it deletes what is not committed, or in the active segment without rolling it; it rolls an
            active segment that is empty; or it rewrites what is not committed, or the active segment.
    """
    if not isinstance(plan, Plan):
        raise BadPlan(f"it is no plan, but {plan!r}")
    if plan.roll and not log.active.size_bytes:
        raise BadPlan(f"it rolls the active segment at {log.active.base_offset}, which is empty")
    if plan.delete_before is not None:
        _check_deletion(plan.delete_before, log, roll=plan.roll)
    if plan.rewrite is not None:
        _check_rewrite(plan.rewrite, log)


def _check_deletion(offset: int, log: LogView, *, roll: bool) -> None:
    if not 0 <= offset <= log.high_watermark:
        raise BadPlan(f"it deletes up to {offset}, but only offsets below {log.high_watermark} are committed")
    if offset > log.active.base_offset and not roll:
        raise BadPlan(
            f"it deletes up to {offset}, which is in the active segment at {log.active.base_offset}, without "
            "rolling that"
        )


def _check_rewrite(rewrite: Rewrite, log: LogView) -> None:
    until = rewrite.until
    if until not in [segment.base_offset for segment in log.segments[1:]]:
        raise BadPlan(f"it rewrites up to {until}, where no segment begins after the first")
    decided = min(log.last_stable_offset, log.high_watermark)
    if until > decided:
        raise BadPlan(f"it rewrites up to {until}, but transactions are open from {decided} on")
    if not 0 <= rewrite.survey_from <= until:
        raise BadPlan(f"it surveys from {rewrite.survey_from} on and rewrites up to {until}")
    if not math.isfinite(rewrite.urgency):
        raise BadPlan(f"its urgency is {rewrite.urgency}")
    if rewrite.delete_retention_ms < 0:
        raise BadPlan(f"it keeps tombstones for {rewrite.delete_retention_ms} ms")
