"""Which segments retention deletes, by each of its rules and by all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import bundle_config
from tests.tables import for_each
from tidelog.kernel.config import topic_config
from tidelog.kernel.config.keys import CLEANUP_POLICY
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.cleanup import LogView, Plan
from tidelog.kernel.seams.storage import SegmentView, TopicPartition
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.retention import plugin as retention
from tidelog.plugins.retention.policy import RetentionPolicy

HOUR_MS = 3_600_000
FOREVER = {"retention.ms": "-1"}
NAME = TopicPartition("flights", 0)
IDLE = Plan(not_before_ms=LONG_MAX)
"""Nothing is to be removed as long as the log stays as it is."""


class TestRetention(CleanupPolicyConformance, plugin=retention):
    """The policy passes the suite with each of its rules."""

    topic_settings = (
        {},
        FOREVER,
        {"retention.bytes": "0"},
        {"retention.bytes": "1000", **FOREVER},
        {"retention.bytes": "2000", "retention.ms": "1"},
        {"retention.ms": "0"},
        {"retention.ms": str(2**63 - 1)},
    )


def segments_of(*sizes: int, ages_ms: Sequence[int] = ()) -> tuple[SegmentView, ...]:
    """Segments of ten records each, the last one active; ages are those of their newest records."""
    ages = [*ages_ms, *[0] * len(sizes)]
    return tuple(
        SegmentView(10 * index, 10 * index + (10 if size else 0), size, START_MS - ages[index], START_MS)
        for index, size in enumerate(sizes)
    )


def plan(
    segments: Sequence[SegmentView],
    settings: Mapping[str, str],
    *,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
) -> Plan:
    """The plan for a log; everything is committed unless `high_watermark` says otherwise."""
    end = segments[-1].next_offset
    committed = end if high_watermark is None else high_watermark
    log = LogView(NAME, segments, log_start_offset, committed, committed)
    return RetentionPolicy().plan(log, START_MS, topic_config(bundle_config(), settings))


@for_each(
    ("retention_bytes", "delete_before"),
    [
        (400, None),
        (301, None),
        (300, 10),
        (299, 10),
        (201, 10),
        (200, 20),
        (100, 30),
        (99, 30),
        (1, 30),
        (0, 40),
    ],
)
def test_retention_bytes_keeps_at_least_so_much(retention_bytes: int, delete_before: int | None) -> None:
    found = plan(segments_of(100, 100, 100, 100), {"retention.bytes": str(retention_bytes), **FOREVER})
    assert found.delete_before == delete_before
    assert found.roll is (delete_before == 40)


@pytest.mark.parametrize(
    ("ages_ms", "delete_before"),
    [
        ([HOUR_MS + 1, HOUR_MS + 1, 0, 0], 20),
        ([HOUR_MS, HOUR_MS + 1, 0, 0], None),
        ([HOUR_MS + 1, 0, HOUR_MS + 1, 0], 10),
        ([HOUR_MS + 1, -1, HOUR_MS + 1, 0], 10),
        ([HOUR_MS + 1] * 4, 40),
    ],
    ids=["two are too old", "not older", "stops at a young one", "stops at the future", "the whole log"],
)
def test_retention_ms_deletes_from_the_oldest_on(ages_ms: list[int], delete_before: int | None) -> None:
    found = plan(segments_of(1, 1, 1, 1, ages_ms=ages_ms), {"retention.ms": str(HOUR_MS)})
    assert found.delete_before == delete_before
    assert found.roll is (delete_before == 40)


def test_retention_ms_counts_from_the_change_of_the_file_without_timestamps() -> None:
    def segment(modified_ms: int) -> SegmentView:
        return SegmentView(0, 10, 100, -1, modified_ms)

    active = SegmentView(10, 20, 100, START_MS, START_MS)
    settings = {"retention.ms": str(HOUR_MS)}
    assert plan((segment(START_MS - HOUR_MS), active), settings).delete_before is None
    assert plan((segment(START_MS - HOUR_MS - 1), active), settings).delete_before == 10


def test_logs_are_cleaned_by_retention_unless_something_else_is_set() -> None:
    (policy,) = retention.tidelog_cleanup_policies()
    assert topic_config(bundle_config(), {})[CLEANUP_POLICY] == (policy.name,)


def test_plan_warns_of_a_segment_from_the_future() -> None:
    ahead_ms = 60_001
    found = plan(segments_of(1, 1, 1, ages_ms=[HOUR_MS, -ahead_ms, HOUR_MS]), {"retention.ms": "0"})
    assert found.delete_before == 10
    assert found.warning == (
        f"the segment at 10 has a record from the future (timestamp {START_MS + ahead_ms}); nothing is "
        "deleted by age until 0 ms after that"
    )


@for_each("ahead_ms", [5, 60_000])
def test_plan_does_not_warn_of_records_that_came_after_the_clock_was_read(ahead_ms: int) -> None:
    """Neither of the clock of a client that is a minute fast at most."""
    found = plan(segments_of(1, 1, ages_ms=[HOUR_MS, -ahead_ms]), {"retention.ms": "0"})
    assert (found.delete_before, found.warning) == (10, "")


@for_each(
    ("log_start_offset", "delete_before"), [(0, None), (9, None), (10, 10), (25, 20), (39, 30), (40, 30)]
)
def test_segments_below_the_log_start_go(log_start_offset: int, delete_before: int | None) -> None:
    found = plan(segments_of(1, 1, 1, 1), FOREVER, log_start_offset=log_start_offset)
    assert (found.delete_before, found.roll) == (delete_before, False)


@pytest.mark.parametrize(
    ("high_watermark", "delete_before"), [(0, None), (9, None), (10, 10), (29, 20), (39, 30), (40, 40)]
)
@pytest.mark.parametrize("settings", [{"retention.ms": "0"}, {"retention.bytes": "0", **FOREVER}], ids=str)
def test_nothing_goes_that_is_not_committed(
    settings: dict[str, str], high_watermark: int, delete_before: int | None
) -> None:
    segments = segments_of(1, 1, 1, 1, ages_ms=[HOUR_MS] * 4)
    assert plan(segments, settings, high_watermark=high_watermark).delete_before == delete_before


def test_an_active_segment_without_records_stays() -> None:
    segments = segments_of(1, 1, 0, ages_ms=[HOUR_MS] * 3)
    assert plan(segments, {"retention.ms": "0"}) == Plan(20, reason="retention.ms = 0")
    assert plan(segments[2:], {"retention.ms": "0"}) == IDLE


def test_an_inactive_segment_that_compaction_emptied_goes() -> None:
    segments = segments_of(1, 0, 1, ages_ms=[HOUR_MS] * 3)
    assert plan(segments, {"retention.ms": "0"}) == Plan(30, roll=True, reason="retention.ms = 0")


def test_plan_names_each_rule_that_took_something() -> None:
    segments = segments_of(1, 1, 1, 1, ages_ms=[0, 0, HOUR_MS, 0])
    found = plan(segments, {"retention.bytes": "2", "retention.ms": "5"}, log_start_offset=10)
    assert found == Plan(30, reason="below the log start, retention.bytes = 2, retention.ms = 5")


def test_plan_asks_not_before_the_oldest_segment_is_too_old() -> None:
    segments = segments_of(1, 1, ages_ms=[HOUR_MS, 2 * HOUR_MS])
    settings = {"retention.ms": str(3 * HOUR_MS)}
    due = Plan(not_before_ms=START_MS + 2 * HOUR_MS + 1)
    assert plan(segments, settings) == due
    assert plan(segments, {**settings, "retention.bytes": "9"}) == due
    assert plan(segments_of(1, 0, ages_ms=[HOUR_MS]), settings) == due
    assert plan(segments_of(0, 1, ages_ms=[HOUR_MS]), settings) == due


def test_plan_asks_at_the_time_that_counts_without_a_timestamp() -> None:
    settings = {"retention.ms": str(HOUR_MS)}
    log = [SegmentView(0, 10, 100, -1, START_MS - 5)]
    assert plan(log, settings) == Plan(not_before_ms=START_MS + HOUR_MS - 4)


@for_each(
    ("sizes", "settings", "high_watermark"),
    [
        ((0,), {"retention.ms": "0"}, None),
        ((1, 1), FOREVER, None),
        ((1, 1), {"retention.bytes": "2", **FOREVER}, None),
        ((1, 1), {"retention.bytes": "0", **FOREVER}, 0),
    ],
)
def test_plan_without_a_segment_that_ages_waits_for_a_change(
    sizes: Sequence[int], settings: Mapping[str, str], high_watermark: int | None
) -> None:
    assert plan(segments_of(*sizes), settings, high_watermark=high_watermark) == IDLE


def test_plan_that_waits_for_the_high_watermark_is_due_at_once() -> None:
    found = plan(segments_of(1, 1, ages_ms=[HOUR_MS]), {"retention.ms": "0"}, high_watermark=0)
    assert found.delete_before is None
    assert found.not_before_ms is not None
    assert found.not_before_ms <= START_MS


def test_plan_does_not_warn_of_a_segment_of_now() -> None:
    settings = {"retention.ms": "5"}
    assert plan(segments_of(1, ages_ms=[0]), settings) == Plan(not_before_ms=START_MS + 6)
    assert plan(segments_of(1, ages_ms=[-1]), settings).warning is not None


def one_rule_after_the_other(
    log: LogView, now_ms: int, retention_ms: int, retention_bytes: int
) -> list[SegmentView]:
    """The segments that stay when Apache Kafka's three rules delete them one by one."""
    kept = list(log.segments)

    def may_go() -> bool:
        segment, is_last = kept[0], len(kept) == 1
        end = segment.next_offset if is_last else kept[1].base_offset
        return log.high_watermark >= end and not (is_last and segment.size_bytes == 0)

    while len(kept) > 1 and kept[1].base_offset <= log.log_start_offset and may_go():
        del kept[0]
    while kept and 0 <= retention_bytes <= sum(segment.size_bytes for segment in kept[1:]) and may_go():
        del kept[0]
    while kept and 0 <= retention_ms < now_ms - kept[0].age_timestamp and may_go():
        del kept[0]
    return kept


SIZES = st.sampled_from([1, 10, 100])
AGES_MS = st.integers(-2, 5)


@given(
    filled=st.lists(st.tuples(SIZES, AGES_MS), max_size=6),
    active=st.tuples(st.sampled_from([0, 1, 10, 100]), AGES_MS),
    high_watermark=st.integers(0, 70),
    log_start=st.integers(0, 70),
    retention_ms=st.integers(-1, 4),
    retention_bytes=st.integers(-1, 300),
)
def test_plan_deletes_what_one_rule_after_the_other_deletes(
    filled: list[tuple[int, int]],
    active: tuple[int, int],
    high_watermark: int,
    log_start: int,
    retention_ms: int,
    retention_bytes: int,
) -> None:
    sizes, ages = zip(*filled, active, strict=True)
    segments = segments_of(*sizes, ages_ms=ages)
    committed = min(high_watermark, segments[-1].next_offset)
    start = min(log_start, committed)
    settings = {"retention.ms": str(retention_ms), "retention.bytes": str(retention_bytes)}
    found = plan(segments, settings, log_start_offset=start, high_watermark=committed)
    log = LogView(NAME, segments, start, committed, committed)
    kept = one_rule_after_the_other(log, START_MS, retention_ms, retention_bytes)
    gone = segments[: len(segments) - len(kept)]
    if not gone:
        assert found.delete_before is None
    else:
        assert found.delete_before == (kept[0].base_offset if kept else segments[-1].next_offset)
    assert found.roll is not bool(kept)
