"""Times a load and finds who spent the CPU meanwhile."""

from __future__ import annotations

import os
import time

from benchmarks.procfs import OtherProcesses, Usage, cpu_seconds


class Meter:
    """Started when made; `read` gives the usage since then.

    The parent of this process is the harness, which has started everything of the benchmark.
    """

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._others = OtherProcesses(os.getppid())
        self._broker = cpu_seconds(broker_pid)
        self._client = time.process_time()
        self._wall = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self._wall

    def read(self) -> Usage:
        """The usage since the start."""
        wall = self.elapsed_s
        client = time.process_time() - self._client
        broker = cpu_seconds(self._broker_pid) - self._broker
        others, ours = self._others.read()
        return Usage(wall, client, broker, max(0.0, ours - client - broker), others)
