from __future__ import annotations

import pytest

from benchmarks.rows import Target, ratio_at_least, ratio_at_most, value_at_least, value_at_most
from tests.tables import for_each


@for_each(
    ("target", "value", "ratio", "met"),
    [
        (ratio_at_least(1.5), 9.0, 1.5, True),
        (ratio_at_least(1.5), 9.0, 1.49, False),
        (ratio_at_least(1.5), 9.0, None, None),
        (ratio_at_most(0.3), 9.0, 0.3, True),
        (ratio_at_most(0.3), 9.0, 0.31, False),
        (ratio_at_most(0.3), None, None, None),
        (value_at_least(1.5), 1.5, 0.1, True),
        (value_at_least(1.5), 1.4, 2.0, False),
        (value_at_least(1.5), None, 2.0, None),
        (value_at_most(60), 60.0, None, True),
        (value_at_most(60), 61.0, 0.1, False),
        (value_at_most(60), None, None, None),
    ],
)
def test_a_target_knows_whether_it_is_met(
    target: Target, value: float | None, ratio: float | None, met: bool | None
) -> None:
    assert target.is_met(value, ratio) is met


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
