"""CPU time is counted where it is spent, and others are processes that the benchmark has not started."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from benchmarks.procfs import OtherProcesses, cpu_seconds, family_cpu_seconds, share_of_machine
from tests.deadlines import wait_until

if TYPE_CHECKING:
    from collections.abc import Generator

COUNT = "while True: pass"
COUNT_FOR_A_WHILE = "import time\nwhile time.process_time() < 0.2: pass"


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
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout == "True\n"


def test_a_family_keeps_what_ended_processes_have_spent() -> None:
    before = family_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", COUNT_FOR_A_WHILE], check=True)
    assert family_cpu_seconds(os.getpid()) - before > 0.15


def test_others_are_the_processes_that_the_root_has_not_started() -> None:
    with counting() as root, counting() as other:
        own, others = OtherProcesses(os.getpid()), OtherProcesses(root.pid)
        spent = cpu_seconds(other.pid)
        wait_until(lambda: cpu_seconds(other.pid) > spent + 0.3, "CPU time of another process")
        other_s, family_s = others.read()
        _, own_family_s = own.read()
    assert other_s > 0.2
    assert own_family_s > family_s + 0.2


@pytest.mark.parametrize("wall_s", [0.5, 1.0])
def test_a_share_is_of_all_processors(wall_s: float) -> None:
    assert share_of_machine(wall_s, wall_s) == pytest.approx(1 / (os.cpu_count() or 1))
    assert share_of_machine(1e9, wall_s) == 1.0
