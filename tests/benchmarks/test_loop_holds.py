"""The longest hold of the event loop, as the broker's log has it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from benchmarks.loop_holds import LoopHolds
from tidelog.kernel.loop_monitor import LoopMonitor, Sample


@pytest.mark.parametrize(
    ("holds", "longest"),
    [
        ([], 0),
        ([(0.009, 0.007)], 7),
        ([(0.009, 0.007), (0.030, 0.008), (0.008, 0.0061)], 7),
        # Those after the first at a place are in no line yet.
        ([(0.009, 0.007), (0.050, 0.040)], 7),
    ],
)
def test_loop_holds_reads_what_the_monitor_logs(
    holds: list[tuple[float, float]], longest: float, tmp_path: Path
) -> None:
    log = tmp_path / "tidelog.log"
    log.write_text("the event loop was held for 99 ms, 98 of them of CPU, by an earlier slice\n")
    read = LoopHolds(log)
    monitor, handler = LoopMonitor(5, {}), logging.FileHandler(log)
    logger = logging.getLogger(LoopMonitor.__module__)
    logger.addHandler(handler)
    try:
        for held, cpu in holds:
            monitor.report(held, cpu, Sample("a task", "", "a:1 (f)"))
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert read.longest_cpu_ms() == longest


def test_loop_holds_counts_those_that_were_left_out(tmp_path: Path) -> None:
    log = tmp_path / "tidelog.log"
    log.touch()
    read = LoopHolds(log)
    left_out = "(and 37 times more before, for up to 30 ms, up to 19 of CPU)"
    log.write_text(f"the event loop was held for 6 ms, 5 of them of CPU, by x, at y:1 (z) {left_out}\n")
    assert read.longest_cpu_ms() == 19
