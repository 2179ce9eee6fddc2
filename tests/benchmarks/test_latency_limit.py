"""The bare responder is taken for a broker by a real producer, so that its rows measure an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.effort import SMOKE
from benchmarks.scenarios import Bench, LatencyLimit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("at_rate", [False, True])
def test_an_idempotent_producer_is_answered(tmp_path: Path, at_rate: bool) -> None:
    limit = LatencyLimit(at_rate)
    samples = limit.measure(Bench(SMOKE, tmp_path))
    assert [sample.row for sample in samples] == [row.name for row in limit.rows]
    p50, p99, p999 = (sample.value for sample in samples)
    assert 0 < p50 <= p99 <= p999
