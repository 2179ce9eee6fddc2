"""Resident memory: idle, and after everything else was measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.procfs import open_files, peak_resident_bytes, resident_bytes
from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most

if TYPE_CHECKING:
    from .context import Bench, RunningBroker

IDLE = Row("memory-idle", "resident memory, idle", "MB", Better.LOWER, (value_at_most(60),))
AFTER_LOAD = Row("memory-after-load", "resident memory after load", "MB", Better.LOWER, (ratio_at_most(0.1),))
ROWS = (IDLE, AFTER_LOAD)


def idle_memory(bench: Bench, broker: RunningBroker) -> list[Sample]:
    """Of a broker that has answered once and done nothing since."""
    time.sleep(bench.effort.settle_s)
    return [_sample(IDLE, broker)]


def memory_after_load(broker: RunningBroker) -> list[Sample]:
    """Of a broker as the loads left it."""
    return [_sample(AFTER_LOAD, broker)]


def _sample(row: Row, broker: RunningBroker) -> Sample:
    pid = broker.server.pid
    details: dict[str, object] = {"open_files": open_files(pid), "peak_mb": peak_resident_bytes(pid) / 1e6}
    return Sample(row.name, resident_bytes(pid) / 1e6, details)
