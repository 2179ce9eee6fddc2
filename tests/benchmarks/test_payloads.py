from __future__ import annotations

import lz4.frame
import pytest

from benchmarks.payloads import make_values


@pytest.mark.parametrize("value_bytes", [100, 1_000])
def test_values_are_distinct_of_one_size_and_compress_like_events(value_bytes: int) -> None:
    values = make_values(value_bytes)
    assert {len(value) for value in values} == {value_bytes}
    assert len(set(values)) == len(values)
    whole = b"".join(values)[:1_000_000]
    assert 0.3 < len(lz4.frame.compress(whole)) / len(whole) < 0.6


def test_a_seed_gives_the_same_values_again() -> None:
    assert make_values(500, seed=7) == make_values(500, seed=7)
    assert make_values(500, seed=7) != make_values(500, seed=8)
