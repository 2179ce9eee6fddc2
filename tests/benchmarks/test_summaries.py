from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.summaries import Summary, percentile
from tests.tables import for_each

FIGURES = st.floats(min_value=0, max_value=1e9)


@for_each(
    ("count", "percent", "expected"),
    [
        (1, 50, 1),
        (2, 50, 1),
        (3, 50, 2),
        (100, 50, 50),
        (100, 99, 99),
        (100, 99.9, 100),
        (1_000, 99.9, 999),
        (1_001, 99.9, 1_000),
        (10, 100, 10),
    ],
)
def test_percentile_is_the_nearest_rank(count: int, percent: float, expected: int) -> None:
    assert percentile(range(count, 0, -1), percent) == expected


@given(st.lists(FIGURES, min_size=1), st.floats(min_value=0.1, max_value=100))
def test_a_percentile_is_a_value_that_enough_values_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-3


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_what_is_no_percentile_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="not a percentile"):
        percentile([1.0], percent)


def test_nothing_has_neither_percentile_nor_summary() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    with pytest.raises(ValueError, match="no values"):
        Summary.of([])


def test_summary() -> None:
    assert Summary.of([3.0, 1.0, 2.0]) == Summary(median=2.0, least=1.0, most=3.0)
