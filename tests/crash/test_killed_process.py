"""A real process is killed at any of its operations on files: the next start finds all that was acknowledged.

Unlike the replay of a recording, it is ended with all its threads, mapped files and buffers as they are. A
sample of the operations is tried; `TIDELOG_KILL_STRIDE=1` has the long test try them all.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.crash.checks import check_going_on, check_second_start, check_start
from tests.crash.core import Core
from tests.crash.interposers import Unsynced
from tests.crash.killed_process import read_history

ROOT = Path(__file__).resolve().parents[2]
SHORT_STRIDE = 150
STRIDE = int(os.environ.get("TIDELOG_KILL_STRIDE", "47"))
AT_ONCE = 16
LEAST_OPERATIONS = 450


def statuses(place: Path, numbers: Iterable[int]) -> dict[int, int]:
    """Kill a process before each of these operations; how each of them ended."""
    command = [sys.executable, "-m", "tests.crash.killed_process", str(place), *map(str, numbers)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lines = (line.split() for line in ended.stdout.splitlines())
    return {int(number): int(status) for number, status in lines}


async def check_killed(place: Path) -> None:
    """Start where a process was killed."""
    expected, phase = read_history(place / "history")
    try:
        core = Core(place)
        with Unsynced().installed():
            await check_start(core, expected, power_was_lost=False)
            await check_second_start(core)
            await check_going_on(core, expected, power_was_lost=False)
    except BaseException as error:
        error.add_note(f"killed in {phase!r}; see {place}")
        raise
    shutil.rmtree(place)


@pytest.mark.parametrize("stride", [SHORT_STRIDE, pytest.param(STRIDE, marks=pytest.mark.long)])
async def test_a_process_may_be_killed_at_any_operation(place: Path, stride: int) -> None:
    tried: list[int] = []
    while True:
        first = tried[-1] + stride if tried else 0
        for number, status in statuses(place, range(first, first + AT_ONCE * stride, stride)).items():
            if not status:
                print(f"killed before {len(tried)} of up to {number} operations")
                assert len(tried) * stride >= LEAST_OPERATIONS
                return
            assert status == signal.SIGKILL, f"the process failed before operation {number}"
            await check_killed(place / str(number))
            tried.append(number)
