from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.load.loads import RECEIVE_CHECK_WRITE, SEND_FILE
from benchmarks.load.machine_limit import MachineLimitResult, MachineLimitSpec
from benchmarks.load.pacing import paced
from benchmarks.load.process import Load, LoadFailedError, run_load
from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("load", [RECEIVE_CHECK_WRITE, SEND_FILE], ids=lambda load: load.name)
def test_a_load_runs_in_a_process_of_its_own(
    load: Load[MachineLimitSpec, MachineLimitResult], tmp_path: Path
) -> None:
    spec = MachineLimitSpec(str(tmp_path), chunk_bytes=16_384, seconds=DEADLINE_S, most_bytes=200_000)
    result = run_load(load, spec, timeout_s=DEADLINE_S)
    assert 200_000 <= result.bytes < 200_000 + 16_384
    assert 0 < result.usage.wall_s < DEADLINE_S
    assert list(tmp_path.iterdir()) == []


def test_a_load_that_fails_tells_why(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path / "nowhere"), 16_384, 1.0, 1)
    with pytest.raises(LoadFailedError, match=r"(?s)send-file failed.*FileNotFoundError"):
        run_load(SEND_FILE, spec, timeout_s=DEADLINE_S)


def test_a_load_that_hangs_is_ended(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path), 16_384, seconds=60.0, most_bytes=10**15)
    with pytest.raises(LoadFailedError, match=r"did not end within 0\.5 s"):
        run_load(SEND_FILE, spec, timeout_s=0.5)


def test_a_pace_is_kept_by_the_clock() -> None:
    assert list(paced(3, per_second=1e6)) == [0, 1, 2]
