from __future__ import annotations

from benchmarks.brokers import BASELINE, KAFKA, TIDELOG
from benchmarks.results import MACHINE, Results
from benchmarks.rows import Sample
from benchmarks.summaries import Summary
from tests.benchmarks.some_results import LIMIT, NEVER_MEASURED, PRODUCE, READY, some_results


def test_medians_are_compared() -> None:
    results = some_results()
    assert results.summary("produce", TIDELOG) == Summary(300.0, 290.0, 310.0)
    assert results.ratio("produce") == 3.0
    assert results.verdicts(PRODUCE) == [True]


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
    assert results.verdicts(READY) == [False]
    assert results.verdicts(NEVER_MEASURED) == []
    assert results.subjects("never") == []


def test_ratio_to_another_tidelog_meets_no_target() -> None:
    results = Results((PRODUCE,), BASELINE)
    for subject, value in ((TIDELOG, 300.0), (BASELINE, 200.0), (KAFKA, 100.0)):
        results.add(subject, [Sample("produce", value)])
    assert results.ratio("produce") == 1.5
    assert results.verdicts(PRODUCE) == [None]
