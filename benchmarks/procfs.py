"""What a process and the machine have used, as Linux tells it in /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/PID/stat behind the command's closing parenthesis: utime and stime (proc(5), fields 14 and 15).
_UTIME, _STIME = 11, 12
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

    The kernel counts in hundredths of a second. A process that is gone counts as 0.
    """
    return sum(map(_own_cpu_seconds, process_tree(pid)))


def _own_cpu_seconds(pid: int) -> float:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S


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


@attrs.frozen
class Usage:
    """What a stretch of time cost."""

    wall_s: float
    client_cpu_s: float
    broker_cpu_s: float
    other_cpu_s: float
    """CPU time of whatever else ran on the machine."""


def as_usage(told: Usage | Mapping[str, float]) -> Usage:
    """A usage that crossed a process border as plain values."""
    return told if isinstance(told, Usage) else Usage(**told)
