"""Work in the background leaves processors to everything else."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.plugins.cleaner.worker import scheduling
from tidelog.plugins.cleaner.worker.scheduling import (
    BACKGROUND_NICENESS,
    BACKGROUND_SLICE_NS,
    run_in_background,
)

_RUN = """\
import os, pathlib, sys
from tidelog.plugins.cleaner.worker.scheduling import run_in_background
run_in_background()
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
print(pathlib.Path("/proc/self/sched").read_text())
"""
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no batch processes")


@_LINUX
def test_run_in_background_sets_niceness_policy_and_time_slice() -> None:
    if not Path("/proc/self/sched").exists():
        pytest.skip("the system does not show time slices")
    found = subprocess.run([sys.executable, "-c", _RUN], check=True, capture_output=True, text=True).stdout
    niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + BACKGROUND_NICENESS, 19)
    assert found.split()[:2] == [str(niceness), str(os.SCHED_BATCH)]
    time_slice = re.search(r"se\.slice\s*:\s*(\d+)", found)
    release = tuple(map(int, platform.release().split(".")[:2]))
    if time_slice is None or release < (6, 12):
        pytest.skip("the system has no time slices for each process")
    assert int(time_slice[1]) == BACKGROUND_SLICE_NS


@_LINUX
@pytest.mark.parametrize("numbers", [{}, {platform.machine(): 1 << 20}])
def test_run_in_background_does_without_time_slices(
    numbers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine whose number of the system call is unknown, or on a system without it."""
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(scheduling, "_SET_ATTRIBUTES", numbers)
    monkeypatch.setattr(os, "nice", lambda by: by)
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: set_to.append((pid, policy)))
    run_in_background()
    assert set_to == [(0, os.SCHED_BATCH)]
