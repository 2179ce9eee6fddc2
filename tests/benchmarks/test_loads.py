from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.load.loads import RECEIVE_CHECK_WRITE, SEND_FILE
from benchmarks.load.machine_limit import MachineLimitResult, MachineLimitSpec
from benchmarks.load.pacing import paced
from benchmarks.load.process import Load, LoadFailedError, LoadProcesses, pausable_load, run_load
from benchmarks.procfs import process_tree
from tests.deadlines import DEADLINE_S, wait_until


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


def test_a_load_that_is_run_again_has_the_same_process(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path), 16_384, seconds=DEADLINE_S, most_bytes=200_000)
    broken = MachineLimitSpec(str(tmp_path / "nowhere"), 16_384, 1.0, 1)
    with LoadProcesses() as processes:
        before = set(process_tree(os.getpid()))
        for _ in range(2):
            processes.run(SEND_FILE, spec, DEADLINE_S)
        (pid,) = set(process_tree(os.getpid())) - before
        with pytest.raises(LoadFailedError, match="FileNotFoundError"):
            processes.run(SEND_FILE, broken, DEADLINE_S)
        assert not Path(f"/proc/{pid}").exists()
        processes.run(SEND_FILE, spec, DEADLINE_S)
        (pid,) = set(process_tree(os.getpid())) - before
    assert not Path(f"/proc/{pid}").exists()


def test_a_load_that_hangs_is_ended(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path), 16_384, seconds=60.0, most_bytes=10**15)
    with pytest.raises(LoadFailedError, match=r"did not end within 0\.5 s"):
        run_load(SEND_FILE, spec, timeout_s=0.5)


@pytest.mark.parametrize("warm_file", ["there", "missing"])
def test_pausable_load_begins_once_it_is_warm_and_ends_with_the_block(warm_file: str, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    spec = MachineLimitSpec(str(tmp_path), 16_384, seconds=600.0, most_bytes=10**15)
    if warm_file == "missing":
        with (
            pytest.raises(LoadFailedError, match="did not begin"),
            pausable_load(SEND_FILE, spec, tmp_path / warm_file, timeout_s=0.1),
        ):
            raise AssertionError("it is not warm")
        return
    with pausable_load(SEND_FILE, spec, tmp_path / warm_file, timeout_s=30) as load:
        load.pause()
        wait_until(lambda: state_of(load.pid) == "T", "the pause")
        load.resume()
        wait_until(lambda: state_of(load.pid) != "T", "the end of the pause")
        pid = load.pid
    assert not Path(f"/proc/{pid}").exists()


def state_of(pid: int) -> str:
    """The state of a process: proc(5), field 3 of its `stat`."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_pausable_load_that_ends_by_itself_tells_why(tmp_path: Path) -> None:
    spec = MachineLimitSpec(str(tmp_path / "nowhere"), 16_384, 1.0, 1)
    with (
        pytest.raises(LoadFailedError, match=r"(?s)did not begin.*FileNotFoundError"),
        pausable_load(SEND_FILE, spec, tmp_path / "never", timeout_s=DEADLINE_S),
    ):
        raise AssertionError("it did not begin")


def test_a_pace_is_kept_by_the_clock() -> None:
    assert list(paced(3, per_second=1e6)) == [0, 1, 2]
