"""Rates over samples, and token buckets, as Apache Kafka computes them."""

from __future__ import annotations

import math

import pytest

from tidelog.kernel.rates import SampledRate, SampleWindows, TokenBucket

ELEVEN = SampleWindows(11, 1)


def excess(limit: float, additions: list[tuple[float, float]], windows: SampleWindows = ELEVEN) -> float:
    """The excess after additions of (time, amount)."""
    rate = SampledRate(windows)
    for now, amount in additions:
        rate.add(amount, now)
    return rate.excess_seconds(limit, additions[-1][0])


@pytest.mark.parametrize(
    ("additions", "seconds"),
    [
        # A rate of 10 over ten seconds is 100 in all.
        ([(0.0, 100)], 0.0),
        ([(0.0, 101)], 0.1),
        ([(0.0, 200)], 10.0),
        # The time since the first sample counts once it is more than the ten that are missing.
        ([(0.0, 100), (0.5, 10)], 0.5),
        ([(0.0, 100), (9.5, 10)], 0.5),
        ([(0.0, 100), (10.5, 10)], 0.5),
        # A sample counts until eleven seconds after its last addition.
        ([(0.0, 50), (0.9, 50), (11.5, 50)], 3.5),
        ([(0.0, 100), (11.0, 50)], 0.0),
        # What is taken back does not count.
        ([(0.0, 500), (0.0, -500)], 0.0),
    ],
)
def test_sampled_rate_is_above_its_limit_for_as_long_as_it_needs_to_fall(
    additions: list[tuple[float, float]], seconds: float
) -> None:
    assert excess(10.0, additions) == pytest.approx(seconds)


def test_sampled_rate_over_one_sample_has_no_whole_second() -> None:
    one = SampleWindows(1, 2)
    assert one.whole_seconds == 0
    # As in Kafka the window is a millisecond then.
    assert excess(10.0, [(0.0, 1)], one) == pytest.approx(0.099)


def test_sampled_rate_with_a_limit_of_0_never_falls_to_it() -> None:
    assert excess(0.0, [(0.0, 1)]) == math.inf
    assert excess(0.0, [(0.0, 0)]) == 0.0


def test_sampled_rate_is_idle_when_it_is_as_good_as_new() -> None:
    rate = SampledRate(ELEVEN)
    assert rate.is_idle(0.0)
    rate.add(1, 5.0)
    assert not rate.is_idle(15.9)
    assert rate.is_idle(16.0)


def test_token_bucket_begins_full_and_fills_by_its_rate() -> None:
    bucket = TokenBucket(ELEVEN)
    bucket.take(22.0, 2.0, 100.0)
    assert bucket.excess_seconds(2.0, 100.0) == 0.0
    bucket.take(5.0, 2.0, 100.0)
    assert bucket.excess_seconds(2.0, 100.0) == 2.5
    assert bucket.excess_seconds(2.0, 102.0) == 0.5
    assert not bucket.is_idle(113.4)
    assert bucket.is_idle(113.5)
    # It is never fuller than full.
    bucket.take(23.0, 2.0, 1e6)
    assert bucket.excess_seconds(2.0, 1e6) == 0.5


def test_token_bucket_with_a_limit_of_0_never_fills() -> None:
    bucket = TokenBucket(ELEVEN)
    assert bucket.excess_seconds(0.0, 1.0) == 0.0
    bucket.take(1.0, 0.0, 1.0)
    assert bucket.excess_seconds(0.0, 1e6) == math.inf
