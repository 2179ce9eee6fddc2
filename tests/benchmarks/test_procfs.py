"""CPU time is counted where it is spent, and others are processes that the benchmark has not started."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from benchmarks.procfs import cpu_seconds, share_of_machine
from tests.deadlines import wait_until

if TYPE_CHECKING:
    from collections.abc import Generator

COUNT = "while True: pass"
COUNT_FOR_A_WHILE = "import time\nwhile time.process_time() < 0.2: pass"


def in_a_process(program: str) -> str:
    """What a program prints in a process whose family has no other member, such as brokers of other tests."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def counting() -> Generator[subprocess.Popen[bytes]]:
    """A process that needs a processor all the time."""
    process = subprocess.Popen([sys.executable, "-c", COUNT])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_cpu_time_of_another_process_is_counted_in_nanoseconds() -> None:
    spent: list[float] = []

    def has_many_values() -> bool:
        spent.extend(cpu_seconds(process.pid) for _ in range(200))
        return len(set(spent)) > 100

    with counting() as process:
        # On a busy machine the process may not run while it is asked.
        wait_until(has_many_values, "a hundred values")
    assert spent == sorted(spent)
    # The hundredths of a second of /proc would be the same again and again.
    assert len({round(each, 2) for each in spent}) < len(set(spent))
    assert cpu_seconds(process.pid) == 0.0


def test_cpu_time_of_this_process_is_that_of_its_own_clock() -> None:
    program = (
        "import os, time\n"
        "from benchmarks.procfs import cpu_seconds\n"
        "print(time.process_time() <= cpu_seconds(os.getpid()) <= time.process_time())"
    )
    assert in_a_process(program) == "True\n"


def test_a_family_keeps_what_ended_processes_have_spent() -> None:
    program = (
        "import os, subprocess, sys\n"
        "from benchmarks.procfs import family_cpu_seconds\n"
        "before = family_cpu_seconds(os.getpid())\n"
        f"subprocess.run([sys.executable, '-c', {COUNT_FOR_A_WHILE!r}], check=True)\n"
        "print(family_cpu_seconds(os.getpid()) - before > 0.15)"
    )
    assert in_a_process(program) == "True\n"


def test_others_are_the_processes_that_the_root_has_not_started() -> None:
    program = (
        "import os\n"
        "from benchmarks.procfs import OtherProcesses, cpu_seconds\n"
        "from tests.benchmarks.test_procfs import counting\n"
        "from tests.deadlines import wait_until\n"
        "with counting() as root, counting() as other:\n"
        "    own, others = OtherProcesses(os.getpid()), OtherProcesses(root.pid)\n"
        "    spent = cpu_seconds(other.pid)\n"
        "    wait_until(lambda: cpu_seconds(other.pid) > spent + 0.3, 'CPU time of another process')\n"
        "    other_s, family_s = others.read()\n"
        "    _, own_family_s = own.read()\n"
        "print(other_s > 0.2, own_family_s > family_s + 0.2)"
    )
    assert in_a_process(program) == "True True\n"


@pytest.mark.parametrize("wall_s", [0.5, 1.0])
def test_a_share_is_of_all_processors(wall_s: float) -> None:
    assert share_of_machine(wall_s, wall_s) == pytest.approx(1 / (os.cpu_count() or 1))
    assert share_of_machine(1e9, wall_s) == 1.0
