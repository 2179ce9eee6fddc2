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
from tidelog.plugins.cleaner.worker.scheduling import run_in_background

NICENESS, SLICE_NS = 10, 4_000_000
"""As docs/compaction.md says."""
_RUN = """\
import os, pathlib, sys
from tidelog.plugins.cleaner.worker import scheduling
if sys.argv[1:] == ["unknown"]:
    scheduling._SET_ATTRIBUTES.clear()
scheduling.run_in_background()
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
print(pathlib.Path("/proc/self/sched").read_text())
"""
_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no batch processes")


def in_background(*arguments: str) -> str:
    """Run a process in the background; return what the system says of it."""
    command = [sys.executable, "-c", _RUN, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def niceness() -> int:
    """That of a process in the background that this one starts."""
    return min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)


@_LINUX
def test_run_in_background_sets_niceness_policy_and_time_slice() -> None:
    if not Path("/proc/self/sched").exists():
        pytest.skip("the system does not show time slices")
    found = in_background()
    assert found.split()[:2] == [str(niceness()), str(os.SCHED_BATCH)]
    time_slice = re.search(r"se\.slice\s*:\s*(\d+)", found)
    release = tuple(map(int, platform.release().split(".")[:2]))
    if time_slice is None or release < (6, 12):
        pytest.skip("the system has no time slices for each process")
    assert int(time_slice[1]) == SLICE_NS


@_LINUX
def test_run_in_background_sets_niceness_and_policy_on_a_machine_it_does_not_know() -> None:
    assert in_background("unknown").split()[:2] == [str(niceness()), str(os.SCHED_BATCH)]


def test_run_in_background_knows_the_number_of_the_system_call_on_each_machine() -> None:
    """As in Linux's tables of system calls: a wrong number would be another call."""
    numbers = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}
    assert numbers == scheduling._SET_ATTRIBUTES  # pyright: ignore[reportPrivateUsage]


def test_run_in_background_lowers_the_priority_on_a_system_without_batch_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lowered: list[int] = []
    monkeypatch.setattr(os, "nice", lowered.append)
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    run_in_background()
    assert lowered == [NICENESS]


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
