"""Bytes are spread over time, by the limit that holds now."""

from __future__ import annotations

import pytest

from tidelog.plugins.cleaner.worker.__main__ import ByteRate


def test_byte_rate_spreads_bytes_over_time() -> None:
    now = [100.0]
    rate = ByteRate(1000, lambda: now[0])
    assert rate.spend(500) == 0.5
    assert rate.spend(250) == 0.75
    now[0] += 0.75
    assert rate.spend(100) == pytest.approx(0.1)
    # What was not used is not saved up.
    now[0] += 60
    assert rate.spend(1000) == 1


def test_byte_rate_that_changes_counts_for_what_is_still_waited_for() -> None:
    now = [100.0]
    rate = ByteRate(1000, lambda: now[0])
    assert rate.spend(1000) == 1
    rate.bytes_per_second = 4000
    assert rate.spend(0) == 0.25
    now[0] += 0.125
    assert rate.spend(4000) == 1.125
