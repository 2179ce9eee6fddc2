"""When compaction has what to do, and how far it may go."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import bundle_config
from tests.tables import for_each
from tidelog.kernel.config import topic_config
from tidelog.kernel.config.types import LONG_MAX
from tidelog.kernel.seams.cleanup import NOTHING, LogView, Plan, check_plan
from tidelog.kernel.seams.storage import SegmentView, TopicPartition
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance, random_log
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.cleaner import plugin as cleaner
from tidelog.plugins.cleaner.compaction.policy import CompactionPolicy

HOUR_MS = 3_600_000
NAME = TopicPartition("flights", 0)
DIRTY = {"min.cleanable.dirty.ratio": "0"}


class TestCompaction(CleanupPolicyConformance, plugin=cleaner):
    """The policy passes the suite with each of its settings."""

    topic_settings = (
        {},
        DIRTY,
        {"min.cleanable.dirty.ratio": "1"},
        {"min.compaction.lag.ms": "1", **DIRTY},
        {"min.compaction.lag.ms": str(2**63 - 1), **DIRTY},
        {"max.compaction.lag.ms": "1"},
        {"delete.retention.ms": str(2**63 - 1), **DIRTY},
    )


def segments_of(*sizes: int, ages_ms: Sequence[int] = ()) -> tuple[SegmentView, ...]:
    """Segments of ten records each, the last one active; ages are those of all their records."""
    ages = [*ages_ms, *[0] * len(sizes)]
    return tuple(
        SegmentView(10 * index, 10 * index + (10 if size else 0), size, START_MS - ages[index], START_MS)
        for index, size in enumerate(sizes)
    )


def log_of(
    segments: Sequence[SegmentView],
    *,
    rewritten_until: int | None = None,
    log_start_offset: int = 0,
    last_stable_offset: int | None = None,
    high_watermark: int | None = None,
) -> LogView:
    """A log in which everything is committed and decided, unless it is said otherwise."""
    end = segments[-1].next_offset
    committed = end if high_watermark is None else high_watermark
    stable = end if last_stable_offset is None else last_stable_offset
    return LogView(
        NAME,
        segments,
        log_start_offset,
        stable,
        committed,
        rewritten_until,
        lambda segment: segment.max_timestamp if segment.size_bytes else -1,
    )


@pytest.mark.parametrize(
    ("log_start_offset", "delete_before"), [(0, None), (9, None), (10, 10), (15, 10), (20, 20), (25, 20)]
)
@pytest.mark.parametrize("settings", [DIRTY, {"min.cleanable.dirty.ratio": "1"}])
def test_plan_deletes_segments_below_the_log_start(
    settings: Mapping[str, str], log_start_offset: int, delete_before: int | None
) -> None:
    """They are there when the broker was killed after records were deleted."""
    log = log_of(segments_of(100, 100, 100), log_start_offset=log_start_offset)
    assert plan(log, settings).delete_before == delete_before


def test_plan_leaves_an_active_segment_below_the_log_start() -> None:
    assert plan(log_of(segments_of(100), log_start_offset=10)).delete_before is None


def plan(log: LogView, settings: Mapping[str, str] = DIRTY) -> Plan:
    """The plan for a log, which can be carried out."""
    found = CompactionPolicy().plan(log, START_MS, topic_config(bundle_config(), settings))
    check_plan(found, log)
    return found


def removes_nothing(found: Plan) -> bool:
    """Whether nothing is to be removed now."""
    return attrs.evolve(found, not_before_ms=None) == NOTHING


def span(found: Plan) -> tuple[int, int] | None:
    """Where the survey begins and the rewrite ends."""
    rewrite = found.rewrite
    return None if rewrite is None else (rewrite.survey_from, rewrite.until)


@pytest.mark.parametrize(
    ("ratio", "is_enough"), [("0", True), ("0.24", True), ("0.25", False), ("0.26", False), ("1", False)]
)
def test_plan_rewrites_above_the_cleanable_ratio(ratio: str, is_enough: bool) -> None:
    log = log_of(segments_of(100, 200, 100, 5000), rewritten_until=20)
    found = plan(log, {"min.cleanable.dirty.ratio": ratio})
    assert span(found) == ((20, 30) if is_enough else None)
    assert found.rewrite is None or found.rewrite.urgency == 0.25


def test_plan_takes_the_ratio_of_the_broker_without_one_of_the_topic() -> None:
    log = log_of(segments_of(50, 50, 1), rewritten_until=10)
    assert removes_nothing(plan(log, {}))
    assert span(plan(log_of(segments_of(50, 51, 1), rewritten_until=10), {})) == (10, 20)


@for_each(
    ("rewritten_until", "log_start_offset", "expected"),
    [
        (None, 0, (0, 30)),
        (None, 15, (15, 30)),
        (0, 0, (0, 30)),
        (10, 0, (10, 30)),
        (5, 7, (7, 30)),
        (7, 5, (7, 30)),
        (29, 0, (29, 30)),
        (30, 0, None),
        (35, 0, None),
        (40, 0, None),
        (0, 29, (29, 30)),
        (0, 30, None),
        (0, 37, None),
    ],
)
def test_plan_surveys_from_where_it_had_come(
    rewritten_until: int | None, log_start_offset: int, expected: tuple[int, int] | None
) -> None:
    log = log_of(segments_of(1, 1, 1, 1), rewritten_until=rewritten_until, log_start_offset=log_start_offset)
    assert span(plan(log)) == expected


def test_plan_counts_a_segment_as_clean_and_dirty_where_the_checkpoint_is_in_it() -> None:
    found = plan(log_of(segments_of(100, 200, 300, 9), rewritten_until=15))
    assert found.rewrite is not None
    assert found.rewrite.urgency == (200 + 300) / (100 + 200 + 200 + 300)


@for_each(("undecided", "until"), [(0, None), (9, None), (10, 10), (19, 10), (20, 20), (30, 30), (40, 30)])
@for_each("which", ["last_stable_offset", "high_watermark"])
def test_plan_ends_with_the_last_segment_that_is_decided(
    which: str, undecided: int, until: int | None
) -> None:
    segments = segments_of(1, 1, 1, 1)
    log = log_of(
        segments,
        last_stable_offset=undecided if which == "last_stable_offset" else None,
        high_watermark=undecided if which == "high_watermark" else None,
    )
    assert span(plan(log)) == (None if until is None else (0, until))


def test_plan_does_nothing_when_the_stable_offset_is_below_the_checkpoint() -> None:
    log = log_of(segments_of(1, 1, 1), rewritten_until=20, last_stable_offset=12)
    assert removes_nothing(plan(log))


@pytest.mark.parametrize("sizes", [(0,), (5,), (10**9,)])
def test_plan_never_rewrites_the_active_segment(sizes: tuple[int, ...]) -> None:
    assert removes_nothing(plan(log_of(segments_of(*sizes))))


@pytest.mark.parametrize("offset", [0, 5, 1 << 40])
def test_plan_of_an_empty_log_is_nothing(offset: int) -> None:
    empty = SegmentView(offset, offset, 0, -1, 0)
    log = attrs.evolve(log_of([empty]), log_start_offset=offset)
    settings = {**DIRTY, "max.compaction.lag.ms": "1"}
    for view in (log, attrs.evolve(log, rewritten_until=offset)):
        assert removes_nothing(plan(view, settings))


@for_each(
    ("ages_ms", "until"),
    [
        ([9, 9, 9, 9], 30),
        ([5, 5, 5, 0], 30),
        ([9, 5, 4, 9], 20),
        ([9, 4, 9, 9], 10),
        ([4, 9, 9, 9], None),
        ([-9, 9, 9, 9], None),
        ([0, 0, 0, 0], None),
    ],
)
def test_plan_leaves_segments_with_records_younger_than_the_least_lag(
    ages_ms: list[int], until: int | None
) -> None:
    log = log_of(segments_of(1, 1, 1, 1, ages_ms=ages_ms))
    found = plan(log, {"min.compaction.lag.ms": "5", **DIRTY})
    assert span(found) == (None if until is None else (0, until))


def test_least_lag_does_not_ask_for_the_age_of_clean_segments() -> None:
    log = log_of(segments_of(1, 1, 1, 1, ages_ms=[0, 0, 9, 9]), rewritten_until=20)
    assert span(plan(log, {"min.compaction.lag.ms": "5", **DIRTY})) == (20, 30)


def test_plan_without_a_least_lag_rewrites_records_from_the_future() -> None:
    log = log_of(segments_of(1, 1, 1, ages_ms=[-HOUR_MS, 0, 0]))
    assert span(plan(log)) == (0, 20)
    assert span(plan(log, {"min.compaction.lag.ms": "1", **DIRTY})) is None


def test_plan_without_a_largest_lag_reads_no_timestamps_of_batches() -> None:
    def read(_: SegmentView) -> int:
        raise AssertionError("a read for each segment, at every look")

    log = attrs.evolve(log_of(segments_of(1, 1, 1)), first_timestamp=read)
    assert span(plan(log)) == (0, 20)
    assert removes_nothing(plan(log, {"min.cleanable.dirty.ratio": "1"}))


def test_least_lag_counts_from_the_change_of_the_file_without_timestamps() -> None:
    active = SegmentView(10, 20, 1, START_MS, START_MS)
    settings = {"min.compaction.lag.ms": str(HOUR_MS), **DIRTY}
    for modified_ms, until in [(START_MS - HOUR_MS, (0, 10)), (START_MS - HOUR_MS + 1, None)]:
        log = log_of([SegmentView(0, 10, 1, -1, modified_ms), active])
        assert span(plan(log, settings)) == until


@for_each(
    ("ages_ms", "rewritten_until", "expected"),
    [
        ([HOUR_MS + 1, 0, 0], 0, (0, 20)),
        ([HOUR_MS, 0, 0], 0, None),
        ([0, HOUR_MS + 1, 0], 0, (0, 20)),
        ([HOUR_MS + 1, 0, 0], 9, (9, 20)),
        ([HOUR_MS + 1, 0, 0], 10, None),
        ([START_MS, 0, 0], 0, None),
    ],
    ids=["too old", "not older", "the second", "half of it is clean", "all of it is clean", "no timestamp"],
)
def test_plan_rewrites_what_has_waited_for_the_largest_lag(
    ages_ms: list[int], rewritten_until: int, expected: tuple[int, int] | None
) -> None:
    log = log_of(segments_of(1, 1, 1, ages_ms=ages_ms), rewritten_until=rewritten_until)
    settings = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(HOUR_MS)}
    found = plan(log, settings)
    assert (span(found), found.roll) == (expected, False)


@pytest.mark.parametrize("age_ms", [HOUR_MS + 1, 400 * HOUR_MS, START_MS])
def test_plan_leaves_the_active_segment_to_the_next_append(age_ms: int) -> None:
    """Old records that are appended late would otherwise end a segment, and have all rewritten, each time."""
    settings = {"max.compaction.lag.ms": str(HOUR_MS)}
    assert removes_nothing(plan(log_of(segments_of(1, ages_ms=[age_ms])), settings))
    found = plan(log_of(segments_of(1, 1, ages_ms=[0, age_ms])), settings)
    assert (found.roll, span(found)) == (False, (0, 10))


@for_each(
    ("sizes", "ages_ms", "settings", "rewritten_until", "not_before_ms"),
    [
        ((1,), [0], DIRTY, None, LONG_MAX),
        ((1, 1), [0, 0], {"min.cleanable.dirty.ratio": "1"}, None, LONG_MAX),
        ((1, 1), [5, 0], {"min.compaction.lag.ms": "9", **DIRTY}, None, START_MS + 4),
        ((1, 1, 1), [9, 5, 0], {"min.compaction.lag.ms": "9"}, 10, START_MS + 4),
        ((1, 1), [5, 0], {"min.compaction.lag.ms": str(LONG_MAX), **DIRTY}, None, LONG_MAX),
        ((1, 1), [5, 0], {"max.compaction.lag.ms": "9", "min.cleanable.dirty.ratio": "1"}, 0, START_MS + 5),
        ((1, 1), [5, 0], {"max.compaction.lag.ms": "9", "min.cleanable.dirty.ratio": "1"}, 10, LONG_MAX),
        (
            (1, 1),
            [START_MS, 0],
            {"max.compaction.lag.ms": "9", "min.cleanable.dirty.ratio": "1"},
            0,
            LONG_MAX,
        ),
        (
            (1, 1, 1, 1),
            [9, 7, 2, 0],
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "10", "min.cleanable.dirty.ratio": "1"},
            0,
            START_MS + 2,
        ),
        (
            (1, 1, 1, 1),
            [9, 7, 4, 0],
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "30", "min.cleanable.dirty.ratio": "1"},
            0,
            START_MS + 1,
        ),
    ],
)
def test_plan_that_removes_nothing_names_when_that_may_change(
    sizes: Sequence[int],
    ages_ms: Sequence[int],
    settings: Mapping[str, str],
    rewritten_until: int | None,
    not_before_ms: int,
) -> None:
    """With age, that is, as long as nothing is appended: a lag passes, or never."""
    log = log_of(segments_of(*sizes, ages_ms=ages_ms), rewritten_until=rewritten_until)
    assert plan(log, settings) == Plan(not_before_ms=not_before_ms)


def test_plan_passes_on_how_long_tombstones_stay() -> None:
    found = plan(log_of(segments_of(1, 1)), {"delete.retention.ms": "1234", **DIRTY})
    assert found.rewrite is not None
    assert found.rewrite.delete_retention_ms == 1234


def test_make_filter_shares_the_buffer_among_the_workers() -> None:
    found = plan(log_of(segments_of(1, 1)))
    assert found.rewrite is not None
    shares = [
        vars(
            found.rewrite.make_filter(
                bundle_config({"log.cleaner.dedupe.buffer.size": "6000000", "log.cleaner.threads": threads})
            )
        )["_buffer_bytes"]
        for threads in ("0", "1", "4")
    ]
    assert shares == [6_000_000, 6_000_000, 1_500_000]


def test_interval_ms_is_0_without_the_cleaner() -> None:
    policy = CompactionPolicy()
    assert policy.interval_ms(bundle_config()) == 15_000
    assert policy.interval_ms(bundle_config({"log.cleaner.backoff.ms": "0"})) == 1
    assert policy.interval_ms(bundle_config({"log.cleaner.enable": "false"})) == 0


@given(
    seed=st.integers(0, 2**32),
    ratio=st.sampled_from(["0", "0.3", "0.5", "1"]),
    min_lag_ms=st.sampled_from([0, 1, 86_400_000]),
    max_lag_ms=st.sampled_from([1, 86_400_000, 2**63 - 1]),
    reached=st.none() | st.floats(0, 1),
)
def test_plan_can_be_carried_out_wherever_the_last_one_had_come(
    seed: int, ratio: str, min_lag_ms: int, max_lag_ms: int, reached: float | None
) -> None:
    log = random_log(random.Random(seed))
    first, end = log.segments[0].base_offset, log.log_end_offset
    # Below the log's first segment too: that may be gone since.
    until = None if reached is None else max(int(first - 3 + reached * (end - first + 3)), 0)
    log = attrs.evolve(log, rewritten_until=until, first_timestamp=lambda segment: segment.max_timestamp)
    settings = {
        "min.cleanable.dirty.ratio": ratio,
        "min.compaction.lag.ms": str(min_lag_ms),
        "max.compaction.lag.ms": str(max(max_lag_ms, min_lag_ms)),
    }
    found = plan(log, settings)
    assert (found.delete_before or 0) <= log.log_start_offset
    rewrite = found.rewrite
    if rewrite is None:
        return
    assert rewrite.survey_from == max(until or 0, log.log_start_offset)
    assert rewrite.survey_from < rewrite.until <= log.active.base_offset
    assert 0 < rewrite.urgency <= 1
    dirty = [
        segment
        for segment in log.segments
        if segment.base_offset < rewrite.until and segment.next_offset > rewrite.survey_from
    ]
    assert min_lag_ms == 0 or all(each.age_timestamp <= START_MS - min_lag_ms for each in dirty)
