"""What a process and the machine have used, as Linux counts it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat behind the command's closing parenthesis: utime, stime, and the same of children that have
# ended and were waited for (proc(5), fields 14 to 17).
_CPU_TIMES = slice(11, 15)
# The clock of all threads of a process, running and ended ones (CPUCLOCK_SCHED in Linux' posix-timers.h).
_PROCESS_CLOCK = 2
# Of the "cpu" line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)


def process_tree(pid: int) -> list[int]:
    """`pid` and all that it started and that still run, whichever thread started them."""
    found = [pid]
    for each in found:
        for children in (_PROC / str(each) / "task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system CPU time of all threads of `pid` and of its children, ended threads included.

    In nanoseconds, not in the hundredths of a second of /proc. A process that is gone counts as 0.
    """
    return sum(map(_own_cpu_seconds, process_tree(pid)))


def _own_cpu_seconds(pid: int) -> float:
    try:
        # clock_getcpuclockid(3) of C makes the same number.
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def family_cpu_seconds(pid: int) -> float:
    """CPU time of `pid` and of all that it started, ended processes included, in hundredths of a second."""
    return sum(map(_cpu_seconds_with_ended_children, process_tree(pid)))


def _cpu_seconds_with_ended_children(pid: int) -> float:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, stat.rpartition(")")[2].split()[_CPU_TIMES])) / _TICKS_PER_S


def machine_busy_seconds() -> float:
    """CPU time that all processors together have spent on anything but idling, since boot."""
    columns = (_PROC / "stat").read_text().splitlines()[0].split()[1:]
    return sum(int(columns[each]) for each in _BUSY_COLUMNS) / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """Resident memory of `pid` and its children; pages of files that they map count too."""
    return sum(_status_kib(each, "VmRSS") for each in process_tree(pid)) * 1024


def peak_resident_bytes(pid: int) -> int:
    """The most that `pid` alone ever had resident."""
    return _status_kib(pid, "VmHWM") * 1024


def _status_kib(pid: int, key: str) -> int:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)


def open_files(pid: int) -> int:
    """How many file descriptors `pid` has open."""
    return len(os.listdir(_PROC / str(pid) / "fd"))  # noqa: PTH208 (thousands of entries, only their number counts)


class OtherProcesses:
    """CPU time that others take from the machine, from the construction on.

    Others are all processes but `root_pid` and what that started. What a hypervisor takes away counts too.
    """

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._family = family_cpu_seconds(root_pid)
        self._machine = machine_busy_seconds()

    def read(self) -> tuple[float, float]:
        """Return the CPU time of others and that of the family, in seconds."""
        machine = machine_busy_seconds() - self._machine
        family = family_cpu_seconds(self._root_pid) - self._family
        return max(0.0, machine - family), family


def share_of_machine(cpu_s: float, wall_s: float) -> float:
    """CPU time as a share of what all processors have in `wall_s`."""
    return min(1.0, cpu_s / wall_s / (os.cpu_count() or 1))


@attrs.frozen
class Usage:
    """CPU time by who spent it, in `wall_s`, all in seconds."""

    wall_s: float
    client_cpu_s: float
    broker_cpu_s: float
    idle_cpu_s: float
    """Of the benchmark's other processes: the harness, the broker that waits and its clients."""
    other_cpu_s: float
    """Of processes that are not the benchmark's."""


def as_usage(values: Usage | Mapping[str, float]) -> Usage:
    """A usage that crossed a process border as plain values."""
    return values if isinstance(values, Usage) else Usage(**values)
