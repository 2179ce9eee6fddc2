from __future__ import annotations

import pytest

from benchmarks import rows
from benchmarks.ratios import Interval, Ratio
from benchmarks.rows import Target, Verdict, ratio_at_least, ratio_at_most, value_at_least, value_at_most
from tests.tables import for_each


def between(low: float, high: float) -> Ratio:
    return Ratio((low * high) ** 0.5, 10, Interval(low, high))


@for_each(
    ("target", "value", "ratio", "verdict"),
    [
        (ratio_at_least(1.5), 9.0, between(1.5, 1.7), Verdict.MET),
        (ratio_at_least(1.5), 9.0, between(1.3, 1.49), Verdict.MISSED),
        (ratio_at_least(1.5), 9.0, between(1.49, 1.51), Verdict.UNDECIDED),
        (ratio_at_least(1.5), 9.0, Ratio(3.0, 5), Verdict.UNDECIDED),
        (ratio_at_least(1.5), 9.0, None, None),
        (ratio_at_most(0.3), 9.0, between(0.2, 0.3), Verdict.MET),
        (ratio_at_most(0.3), 9.0, between(0.31, 0.4), Verdict.MISSED),
        (ratio_at_most(0.3), 9.0, between(0.29, 0.31), Verdict.UNDECIDED),
        (ratio_at_most(0.3), None, None, None),
        (value_at_least(1.5), 1.5, between(0.1, 0.1), Verdict.MET),
        (value_at_least(1.5), 1.4, between(2.0, 2.0), Verdict.MISSED),
        (value_at_least(1.5), None, between(2.0, 2.0), None),
        (value_at_most(60), 60.0, None, Verdict.MET),
        (value_at_most(60), 61.0, between(0.1, 0.1), Verdict.MISSED),
        (value_at_most(60), None, None, None),
    ],
)
def test_verdict_of_a_target_is_that_of_the_whole_interval(
    target: Target, value: float | None, ratio: Ratio | None, verdict: Verdict | None
) -> None:
    assert target.verdict(value, ratio) is verdict


@pytest.mark.parametrize(("compiled", "bound"), [(True, 2.0), (False, 1.5)])
def test_some_bounds_depend_on_what_runs(
    compiled: bool, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "COMPILED", compiled)
    made = (ratio_at_least(2.0, pure=1.5), ratio_at_most(2.0, pure=1.5), value_at_most(2.0, pure=1.5))
    assert {target.bound for target in made} == {bound}
    assert ratio_at_least(2.0).bound == 2.0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (ratio_at_least(1.5), "≥ 1.5×"),
        (ratio_at_most(0.3), "≤ 0.3×"),
        (value_at_most(0.4), "≤ 0.4"),
        (value_at_least(0.4), "≥ 0.4"),
    ],
)
def test_a_target_reads_as_people_write_it(target: Target, text: str) -> None:
    assert str(target) == text
