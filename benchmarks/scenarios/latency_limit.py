"""How soon a client of this machine can have an answer at all."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.loads import ACKNOWLEDGE
from benchmarks.load.process import CHECKOUT, run_load
from benchmarks.rows import Better, Row, Sample
from benchmarks.summaries import percentile

from .context import Bench, usage_details
from .latency import PERCENTILES, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_ONE_AT_A_TIME = 0.0


@attrs.frozen
class LatencyLimit:
    """Acknowledgements of something that keeps nothing."""

    name: str = attrs.field(default="limit-acknowledge", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        return [
            Row(f"{self.name}-{name}", f"bare answer to a producer, {name}", "µs", Better.NEITHER)
            for name in PERCENTILES
        ]

    def measure(self, bench: Bench) -> list[Sample]:
        with _responder() as (bootstrap, pid):
            count = bench.effort.latency_records
            spec = LatencySpec(bootstrap, pid, "limit", VALUE_BYTES, count, _ONE_AT_A_TIME)
            result = run_load(ACKNOWLEDGE, spec, bench.load_timeout_s)
        details = {"records": count, **usage_details(result.usage)}
        return [
            Sample(f"{self.name}-{name}", percentile(result.latencies_us, percent), details)
            for name, percent in PERCENTILES.items()
        ]


@contextmanager
def _responder() -> Generator[tuple[str, int]]:
    """Its bootstrap address and process id."""
    command = [sys.executable, "-m", "benchmarks.load.bare_responder"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()
