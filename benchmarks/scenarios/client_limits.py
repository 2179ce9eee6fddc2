"""What a client of this machine reaches with something that answers at once and keeps nothing."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.loads import ACKNOWLEDGE, PRODUCE
from benchmarks.load.process import CHECKOUT, run_load
from benchmarks.load.produce import ProduceSpec
from benchmarks.rows import Better, Row, Sample
from benchmarks.summaries import percentile

from .context import Bench, usage_details
from .latency import PERCENTILES, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from .shapes import Shape

_ONE_AT_A_TIME = 0.0


@attrs.frozen
class LatencyLimit:
    """Acknowledgements of something that keeps nothing."""

    at_rate: bool = False

    @property
    def name(self) -> str:
        return "limit-acknowledge-at-rate" if self.at_rate else "limit-acknowledge"

    @property
    def rows(self) -> Sequence[Row]:
        way = " at a fixed rate" if self.at_rate else ""
        return [
            Row(f"{self.name}-{name}", f"bare answer to a producer{way}, {name}", "µs", Better.NEITHER)
            for name in PERCENTILES
        ]

    def measure(self, bench: Bench) -> list[Sample]:
        with _responder(partitions=1) as (bootstrap, pid):
            effort = bench.effort
            count = effort.rate_slice_records if self.at_rate else effort.latency_records
            rate = effort.rate_per_s if self.at_rate else _ONE_AT_A_TIME
            spec = LatencySpec(bootstrap, pid, "limit", VALUE_BYTES, count, rate)
            result = run_load(ACKNOWLEDGE, spec, bench.load_timeout_s)
        details = {"records": count, **usage_details(result.usage)}
        return [
            Sample(f"{self.name}-{name}", percentile(result.latencies_us, percent), details)
            for name, percent in PERCENTILES.items()
        ]


@attrs.frozen
class ProduceLimit:
    """A shape of load, acknowledged by something that keeps nothing."""

    shape: Shape

    @property
    def name(self) -> str:
        return produce_limit(self.shape)

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, f"no broker, {self.shape.title}", "MB/s", Better.NEITHER)]

    def measure(self, bench: Bench) -> list[Sample]:
        shape, effort = self.shape, bench.effort
        with _responder(shape.partitions) as (bootstrap, pid):
            spec = ProduceSpec(
                bootstrap,
                pid,
                "limit",
                shape.partitions,
                shape.value_bytes,
                shape.batch_bytes,
                shape.compression,
                effort.slice_s,
                effort.most_bytes,
            )
            result = run_load(PRODUCE, spec, bench.load_timeout_s)
        rate = result.records * shape.value_bytes / 1e6 / result.usage.wall_s
        return [Sample(self.name, rate, {"records": result.records, **usage_details(result.usage)})]


def produce_limit(shape: Shape) -> str:
    """The name of the row that limits produce with a shape of load."""
    return f"limit-produce-{shape.name}"


@contextmanager
def _responder(partitions: int) -> Generator[tuple[str, int]]:
    """Its bootstrap address and process id."""
    command = [sys.executable, "-m", "benchmarks.load.bare_responder", str(partitions)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.kill()
