"""A test of an application, with its server, as a whole process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most

from .launch import timed_start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

    from .context import Bench

TEST = Row(
    "application-test",
    "a test with its server: a topic, a record, a group",
    "s",
    Better.LOWER,
    (ratio_at_most(0.1),),
)
OF_MOCK = Row(
    "application-test-of-mock",
    "of which librdkafka's mock takes 1",
    "×",
    Better.LOWER,
    (value_at_most(1.5),),
)
COLD = Row("fixture-cold", "first server of a test process ready", "ms", Better.LOWER, (value_at_most(150),))
WARM = Row("fixture-warm", "further server of a test process ready", "ms", Better.LOWER, (value_at_most(30),))

_PROGRAM: Final = "benchmarks.load.application_test"
_TIMEOUT_S: Final = 120.0


@attrs.frozen
class ApplicationTest:
    """With tidelog in the process of the test, and with Apache Kafka as a process that is started for it."""

    name: str = attrs.field(default="application-test", init=False)
    rows: Sequence[Row] = attrs.field(default=(TEST, OF_MOCK, COLD, WARM), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        if kind.key == TIDELOG:
            return _with_tidelog()
        server = kind.server(work_dir)
        try:
            return [Sample(TEST.name, timed_start(server) + _run(server.bootstrap)[0])]
        finally:
            server.stop()


def _with_tidelog() -> list[Sample]:
    seconds, (cold_ms, warm_ms) = _run("tidelog")
    of_mock = seconds / _run("mock")[0]
    return [
        Sample(TEST.name, seconds),
        Sample(OF_MOCK.name, of_mock),
        Sample(COLD.name, cold_ms),
        Sample(WARM.name, warm_ms),
    ]


def _run(server: str) -> tuple[float, list[float]]:
    """Return the seconds of the whole process, and what it printed."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", _PROGRAM, server],
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    return time.perf_counter() - began, json.loads(done.stdout)
