"""Times a load and tells who spent the CPU meanwhile."""

from __future__ import annotations

import time

from benchmarks.procfs import Usage, cpu_seconds, machine_busy_seconds


class Meter:
    """Started when made; `read` gives the usage since then of this process, the broker and the rest."""

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._machine = machine_busy_seconds()
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
        machine = machine_busy_seconds() - self._machine
        return Usage(wall, client, broker, max(0.0, machine - client - broker))
