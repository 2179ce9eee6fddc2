"""From process start to the first answer, and what importing tidelog takes of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most
from tests.peers import LOOPBACK, wait_until_answers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind, BrokerServer

    from .context import Bench

READY = Row(
    "ready",
    "process start to first answer",
    "s",
    Better.LOWER,
    (value_at_most(0.4), ratio_at_most(0.2)),
)
IMPORTS = Row("imports", "of which imports", "s", Better.LOWER, (value_at_most(0.2),))

_START_TIMEOUT_S = 60.0
_PROBE_INTERVAL_S = 0.001
_IMPORT_TIMEOUT_S = 60.0
# Everything that serving imports: the command and each plugin that is installed.
_TIME_IMPORTS = """
import time
start = time.perf_counter()
import tidelog.kernel.__main__
from importlib.metadata import entry_points
for point in entry_points(group="tidelog"):
    point.load()
print(time.perf_counter() - start)
"""


def timed_start(server: BrokerServer) -> float:
    """Start a broker and ask it every millisecond: seconds from process start to its first answer.

    What has to be done before, such as formatting a directory, is not counted. Raises ServerFailedError
    when it does not answer within a minute.
    """
    server.prepare()
    server.process.start()
    try:
        answered_at = wait_until_answers(
            LOOPBACK,
            server.port,
            _START_TIMEOUT_S,
            interval_s=_PROBE_INTERVAL_S,
            still_running=lambda: server.process.is_running,
        )
    except (TimeoutError, ConnectionAbortedError) as error:
        server.kill()
        raise server.process.failed("did not become ready") from error
    return answered_at - server.process.started_at


@attrs.frozen
class TimeToReady:
    """Start on a directory without topics."""

    name: str = attrs.field(default="ready", init=False)
    rows: Sequence[Row] = attrs.field(default=(READY,), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        server = kind.server(work_dir)
        try:
            return [Sample(READY.name, timed_start(server))]
        finally:
            server.stop()


@attrs.frozen
class ImportTime:
    """A fresh interpreter that imports what `tidelog serve` does, and nothing else."""

    name: str = attrs.field(default="imports", init=False)
    rows: Sequence[Row] = attrs.field(default=(IMPORTS,), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        told = subprocess.run(
            [sys.executable, "-c", _TIME_IMPORTS],
            capture_output=True,
            text=True,
            timeout=_IMPORT_TIMEOUT_S,
            check=True,
        )
        return [Sample(IMPORTS.name, float(told.stdout))]
