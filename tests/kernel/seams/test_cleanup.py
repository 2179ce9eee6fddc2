"""`check_plan` accepts what removes nothing that is needed, up to each limit, and refuses the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.tables import for_each
from tidelog.kernel.config import Config
from tidelog.kernel.seams.cleanup import NOTHING, BadPlan, LogView, Plan, RecordFilter, Rewrite, check_plan
from tidelog.kernel.seams.storage import SegmentView, TopicPartition


def view(*, stable: int = 30, committed: int = 30, active_bytes: int = 100) -> LogView:
    """A log of three segments at 0, 10 and 20, of which the last one is active."""
    segments = [
        SegmentView(base, base + (10 if size else 0), size, 1, 1)
        for base, size in ((0, 100), (10, 100), (20, active_bytes))
    ]
    return LogView(TopicPartition("flights", 0), segments, 0, stable, committed)


def no_filter(config: Config) -> RecordFilter:
    """A plan is checked without its filter."""
    raise AssertionError(config)


def rewrite(until: int, **more: Any) -> Plan:
    fields: dict[str, Any] = {"urgency": 0.5, "survey_from": 0, "make_filter": no_filter, **more}
    return Plan(rewrite=Rewrite(until, **fields))


ACCEPTED = [
    (NOTHING, view()),
    (Plan(roll=True), view()),
    (Plan(0), view()),
    (Plan(20), view()),
    (Plan(20), view(committed=20)),
    (Plan(20), view(active_bytes=0, committed=20)),
    (Plan(21, roll=True), view()),
    (Plan(30, roll=True), view()),
    (rewrite(10), view()),
    (rewrite(20), view()),
    (rewrite(20), view(stable=20)),
    (rewrite(20), view(stable=20, committed=20)),
    (rewrite(10), view(stable=19)),
    (rewrite(20, survey_from=20), view()),
    (rewrite(20, urgency=0), view()),
    (rewrite(20, urgency=1e300), view()),
    (rewrite(20, delete_retention_ms=2**63 - 1), view()),
]


@for_each(("plan", "log"), ACCEPTED)
def test_check_plan_accepts_what_reaches_a_limit(plan: Plan, log: LogView) -> None:
    check_plan(plan, log)


REFUSED = [
    (None, view(), "it is no plan, but None"),
    (Plan(roll=True), view(active_bytes=0), "it rolls the active segment at 20, which is empty"),
    (Plan(-1), view(), "it deletes up to -1, but only offsets below 30 are committed"),
    (Plan(31, roll=True), view(), "it deletes up to 31, but only offsets below 30 are committed"),
    (Plan(20), view(committed=19), "it deletes up to 20, but only offsets below 19 are committed"),
    (Plan(21), view(), "it deletes up to 21, which is in the active segment at 20, without rolling that"),
    (rewrite(0), view(), "it rewrites up to 0, where no segment begins after the first"),
    (rewrite(15), view(), "it rewrites up to 15, where no segment begins after the first"),
    (rewrite(30), view(), "it rewrites up to 30, where no segment begins after the first"),
    (rewrite(20), view(stable=19), "it rewrites up to 20, but transactions are open from 19 on"),
    (rewrite(20), view(committed=19), "it rewrites up to 20, but transactions are open from 19 on"),
    (rewrite(20, survey_from=-1), view(), "it surveys from -1 on and rewrites up to 20"),
    (rewrite(20, survey_from=21), view(), "it surveys from 21 on and rewrites up to 20"),
    (rewrite(20, urgency=math.nan), view(), "its urgency is nan"),
    (rewrite(20, urgency=math.inf), view(), "its urgency is inf"),
    (rewrite(20, urgency=-math.inf), view(), "its urgency is -inf"),
    (rewrite(20, delete_retention_ms=-1), view(), "it keeps tombstones for -1 ms"),
]


@for_each(("plan", "log", "reason"), REFUSED, ids=[reason for _, _, reason in REFUSED])
def test_check_plan_refuses_what_is_beyond_a_limit(plan: object, log: LogView, reason: str) -> None:
    with pytest.raises(BadPlan, match=f"^{reason}$"):
        check_plan(plan, log)
