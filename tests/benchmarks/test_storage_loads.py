"""The loads about storage do what their rows say, in small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.load.loads import APPEND_COST, LOOK_UP, OPEN_LOG, RECEIVE_APPEND, RECOVER
from benchmarks.load.machine_limit import MachineLimitSpec
from benchmarks.load.process import run_load
from benchmarks.load.segments import LookUpSpec, OpenSpec, RecoverSpec
from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

FORMATS = ["sparse", "memory"]


def test_appending_is_measured_with_and_without_a_socket(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path), chunk_bytes=16_384, seconds=DEADLINE_S, most_bytes=400_000)
    received = run_load(RECEIVE_APPEND, spec, timeout_s=DEADLINE_S)
    assert 400_000 <= received.bytes < 400_000 + 16_384
    cost = run_load(APPEND_COST, spec, timeout_s=DEADLINE_S)
    assert 16_000 < cost.batch_bytes <= 16_384
    assert cost.bare_microseconds > 0
    assert 0 < cost.microseconds < 100_000


@pytest.mark.parametrize("index_format", FORMATS)
def test_a_log_of_many_segments_is_opened(tmp_path: Path, index_format: str) -> None:
    result = run_load(OPEN_LOG, OpenSpec(str(tmp_path), 20, 1_000_000, index_format), timeout_s=DEADLINE_S)
    assert 0 < result.seconds < DEADLINE_S
    assert len(list((tmp_path / "log-0").glob("*.log"))) == 20
    assert (result.log_bytes > 19_000_000) == (index_format == "sparse")


def test_recovery_goes_through_everything(tmp_path: Path) -> None:
    result = run_load(RECOVER, RecoverSpec(str(tmp_path), logs=2, log_bytes=1_000_000), timeout_s=DEADLINE_S)
    assert 1_900_000 < result.bytes <= 2_000_000
    assert result.seconds > 0


@pytest.mark.parametrize("index_format", FORMATS)
def test_look_ups_are_timed(tmp_path: Path, index_format: str) -> None:
    result = run_load(LOOK_UP, LookUpSpec(str(tmp_path), 2_000_000, 300, index_format), timeout_s=DEADLINE_S)
    assert 0 < result.by_offset < 100_000
    assert 0 < result.by_time < 100_000
