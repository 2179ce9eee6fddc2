from __future__ import annotations

import pytest

from benchmarks.brokers import BASELINE, KAFKA, TIDELOG
from benchmarks.ratios import Interval, Ratio
from benchmarks.results import MACHINE, Results
from benchmarks.rows import Sample, Verdict
from benchmarks.summaries import Summary
from tests.benchmarks.some_results import LIMIT, NEVER_MEASURED, PRODUCE, READY, some_results


def test_neighbouring_slices_are_compared() -> None:
    results = some_results()
    assert results.summary("produce", TIDELOG) == Summary(300.0, 280.0, 310.0)
    ratio = results.ratio("produce")
    assert ratio is not None
    assert ratio.interval is not None
    assert [round(each, 9) for each in (ratio.value, ratio.interval.low, ratio.interval.high)] == [3.0] * 3
    assert ratio.pairs == 6
    assert results.verdicts(PRODUCE) == [Verdict.MET]


def test_neighbours_are_of_the_same_turn_though_the_machine_got_slower() -> None:
    results = Results((PRODUCE,))
    for ours, theirs in ((400.0, 200.0), (200.0, 100.0), (100.0, 50.0)):
        results.add(TIDELOG, [Sample("produce", ours)])
        results.add(KAFKA, [Sample("produce", theirs)])
    assert results.ratio("produce") == Ratio(2.0, 3)


def test_a_failed_slice_leaves_the_pairs_before_it_and_no_verdict() -> None:
    results = some_results()
    results.fail(KAFKA, [PRODUCE], "produce, Apache Kafka", "it broke")
    results.add(TIDELOG, [Sample("produce", 1.0)])
    assert results.verdicts(PRODUCE) == [None]
    assert results.errors("produce") == {KAFKA: "it broke"}
    assert results.failures == ["produce, Apache Kafka: it broke"]
    ratio = results.ratio("produce")
    assert ratio is not None
    assert ratio.pairs == 6
    results.fail(TIDELOG, [NEVER_MEASURED], "never", "it broke")
    assert NEVER_MEASURED in results.measured


def test_the_share_of_others_is_that_of_the_middle_slice() -> None:
    results = some_results()
    assert results.other_share("produce", KAFKA) == 0.25
    assert results.other_share("ready", TIDELOG) is None


def test_a_share_of_the_limit_needs_a_limit() -> None:
    results = some_results()
    assert results.share_of_limit(PRODUCE, TIDELOG) == 0.3
    assert results.share_of_limit(PRODUCE, KAFKA) == 0.1
    assert results.share_of_limit(READY, TIDELOG) is None
    assert results.share_of_limit(LIMIT, MACHINE) is None


def test_what_was_not_measured_has_no_figures() -> None:
    results = some_results()
    assert results.summary("never", TIDELOG) is None
    assert results.ratio("ready") is None
    assert results.verdicts(READY) == [Verdict.MISSED]
    assert results.verdicts(NEVER_MEASURED) == []
    assert results.subjects("never") == []


def test_ratio_to_another_tidelog_meets_no_target() -> None:
    results = Results((PRODUCE,), BASELINE)
    for subject, value in ((TIDELOG, 300.0), (BASELINE, 200.0), (KAFKA, 100.0)):
        results.add(subject, [Sample("produce", value)] * 6)
    ratio = results.ratio("produce")
    assert ratio is not None
    assert ratio.value == pytest.approx(1.5)
    assert ratio.interval == Interval(ratio.value, ratio.value)
    assert results.verdicts(PRODUCE) == [None]
