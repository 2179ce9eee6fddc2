"""The Python processes of a Spark."""

from __future__ import annotations

from pathlib import Path

from benchmarks.procfs import process_tree


def python_workers(driver: int) -> list[int]:
    """Return the processes of a driver that read, write and plan, and the daemons that fork them."""
    return [pid for pid in process_tree(driver) if b"pyspark" in _python_module(pid)]


def _python_module(pid: int) -> bytes:
    """The module that a Python process was started with, empty if there is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return words[2] if words[1:2] == [b"-m"] else b""
