"""The interval of a ratio contains the true one as often as it says, whatever a busy machine does."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.effort import WHOLE
from benchmarks.ratios import CONFIDENCE, LEAST_PAIRS, Interval, Ratio
from benchmarks.turns import turns
from tests.tables import for_each

RUNS = 1_000
FIGURES = st.floats(min_value=1e-3, max_value=1e6)


@st.composite
def both_sides(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    slices = draw(st.integers(min_value=1, max_value=20))
    ours, theirs = (draw(st.lists(FIGURES, min_size=slices, max_size=slices)) for _ in range(2))
    return ours, theirs


def found(ours: list[float], theirs: list[float]) -> Ratio:
    ratio = Ratio.of(ours, theirs)
    assert ratio is not None
    return ratio


def simulated(random: Random, true_ratio: float, slices: int, others: str) -> dict[str, list[float]]:
    """Slices of two brokers in turns, on a machine that gets slower and has others that come and go."""
    sides: dict[str, list[float]] = {"ours": [], "theirs": []}
    speed = 100.0
    for side in turns(tuple(sides), slices):
        speed *= math.exp(random.gauss(0, 0.05) - 0.01)
        noise = math.exp(random.gauss(0, 0.1))
        if others == "bursts" and random.random() < 0.2:
            noise *= random.uniform(0.2, 0.9)
        sides[side].append(speed * noise * (true_ratio if side == "ours" else 1.0))
    return sides


@pytest.mark.parametrize(("slices", "others"), [*product([LEAST_PAIRS, 10, 30], ["steady", "bursts"])])
def test_an_interval_contains_the_true_ratio_as_often_as_it_says(slices: int, others: str) -> None:
    random = Random(slices)
    contained = 0
    for _ in range(RUNS):
        interval = found(**simulated(random, 1.2, slices, others)).interval
        assert interval is not None
        contained += interval.low <= 1.2 <= interval.high
    # Of 1,000 runs, within three standard deviations.
    assert contained / RUNS > CONFIDENCE - 3 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / RUNS)


def test_more_slices_make_an_interval_narrower() -> None:
    widths: list[float] = []
    for slices in (LEAST_PAIRS, 20, 100):
        interval = found(**simulated(Random(1), 1.2, slices, "bursts")).interval
        assert interval is not None
        widths.append(interval.high / interval.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1.15


@given(st.lists(FIGURES, min_size=LEAST_PAIRS, max_size=20))
def test_a_ratio_of_equal_sides_is_one(figures: list[float]) -> None:
    ratio = found(figures, figures)
    assert (ratio.value, ratio.interval) == (1.0, Interval(1.0, 1.0))


@given(both_sides(), st.floats(min_value=0.01, max_value=100), st.floats(min_value=0.01, max_value=100))
def test_units_do_not_matter(sides: tuple[list[float], list[float]], ours: float, theirs: float) -> None:
    plain = found(*sides)
    scaled = found([ours * each for each in sides[0]], [theirs * each for each in sides[1]])
    assert scaled.value == pytest.approx(plain.value * ours / theirs)
    if plain.interval is not None:
        assert scaled.interval is not None
        assert scaled.interval.low == pytest.approx(plain.interval.low * ours / theirs)
        assert scaled.interval.high == pytest.approx(plain.interval.high * ours / theirs)


@given(both_sides())
def test_sides_that_swap_have_the_inverse_ratio(sides: tuple[list[float], list[float]]) -> None:
    ratio, inverse = found(*sides), found(*reversed(sides))
    assert inverse.value == pytest.approx(1 / ratio.value)
    if ratio.interval is not None:
        assert inverse.interval is not None
        assert inverse.interval.low == pytest.approx(1 / ratio.interval.high)


@given(both_sides())
def test_an_interval_needs_six_pairs_and_contains_the_estimate(
    sides: tuple[list[float], list[float]],
) -> None:
    ratio = found(*sides)
    assert ratio.pairs == len(sides[0])
    assert (ratio.interval is None) == (ratio.pairs < LEAST_PAIRS)
    if ratio.interval is not None:
        assert ratio.interval.low <= ratio.value <= ratio.interval.high


def test_one_slice_that_was_disturbed_moves_the_estimate_little() -> None:
    ours = [120.0, 121.0, 119.0, 120.5, 119.5, 120.0, 121.0, 119.0, 120.0, 119.0, 121.0, 20.0]
    ratio = found(ours, [100.0] * WHOLE.slices)
    assert ratio.interval is not None
    assert 1.18 < ratio.interval.low < ratio.value < 1.21


@for_each(
    ("ours", "theirs", "pairs"),
    [
        ([], [], None),
        ([1.0], [], None),
        ([1.0, 0.0], [1.0, 1.0], None),
        ([1.0], [0.0], None),
        ([3.0, 3.0, 9.0], [2.0, 2.0], 2),
    ],
)
def test_only_pairs_of_figures_above_zero_have_a_ratio(
    ours: list[float], theirs: list[float], pairs: int | None
) -> None:
    ratio = Ratio.of(ours, theirs)
    assert (ratio and ratio.pairs) == pairs
    if ratio:
        assert ratio.value == pytest.approx(1.5)


# Tables of the test have the critical sums 0, 2, 3, 5, 8, 13, 25 and 52 for 6 pairs and more.
@pytest.mark.parametrize(
    ("pairs", "rank"), [(5, 0), (6, 1), (7, 3), (8, 4), (9, 6), (10, 9), (12, 14), (15, 26), (20, 53)]
)
def test_ends_of_an_interval_are_those_of_the_signed_rank_test(pairs: int, rank: int) -> None:
    powers = [2.0**n for n in range(pairs)]
    averages = sorted(math.sqrt(a * b) for n, a in enumerate(powers) for b in powers[n:])
    interval = found(powers, [1.0] * pairs).interval
    assert (interval and interval.low) == (pytest.approx(averages[rank - 1]) if rank else None)


def test_turns_cancel_what_drifts_and_have_no_rhythm() -> None:
    order = "".join(turns("ab", WHOLE.slices))
    blocks = [order[start : start + 4] for start in range(0, len(order), 4)]
    assert Counter(blocks) == {"abba": WHOLE.slices / 4, "baab": WHOLE.slices / 4}
    assert blocks[0::2] != blocks[1::2]
    assert "".join(turns("abc", 3)) == "abccbaabc"
    assert "".join(turns("a", 2)) == "aa"
