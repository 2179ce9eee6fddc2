"""Acknowledge and end-to-end latency, one record at a time and at a modest rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.loads import ACKNOWLEDGE, END_TO_END
from benchmarks.rows import Better, Row, Sample, Target, ratio_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.load.acknowledge import LatencyResult
    from benchmarks.load.process import Load

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
VALUE_BYTES = 1_000


@attrs.frozen
class Latency:
    """One way to send, and one moment to stop the watch."""

    load: Load[LatencySpec, LatencyResult]
    title: str
    at_rate: bool
    targets: Mapping[str, Target]

    @property
    def name(self) -> str:
        return f"{self.load.name}-{'at-rate' if self.at_rate else 'one-at-a-time'}"

    @property
    def rows(self) -> Sequence[Row]:
        way = "at a fixed rate" if self.at_rate else "one at a time"
        return [
            Row(
                f"{self.name}-{name}",
                f"{self.title} {name}, {way}",
                "µs",
                Better.LOWER,
                (self.targets[name],) if name in self.targets else (),
            )
            for name in PERCENTILES
        ]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        effort = bench.effort
        count = effort.rate_slice_records if self.at_rate else effort.latency_records
        rate = effort.rate_per_s if self.at_rate else 0.0
        with topic_for_a_run(broker.admin) as topic:
            spec = LatencySpec(broker.server.bootstrap, broker.server.pid, topic, VALUE_BYTES, count, rate)
            result = broker.loads.run(self.load, spec, bench.load_timeout_s)
        details = {"records": count, "per_second": rate or None, **usage_details(result.usage)}
        return [
            Sample(f"{self.name}-{name}", percentile(result.latencies_us, percent), details)
            for name, percent in PERCENTILES.items()
        ]


def acknowledge_p99(bench: Bench, broker: RunningBroker, topic: str, records: int) -> float:
    """Return the p99 of records sent to the only partition of a topic at a fixed rate, in microseconds."""
    server = broker.server
    spec = LatencySpec(server.bootstrap, server.pid, topic, VALUE_BYTES, records, bench.effort.rate_per_s)
    return percentile(broker.loads.run(ACKNOWLEDGE, spec, bench.load_timeout_s).latencies_us, 99.0)


def latencies() -> list[Latency]:
    """Acknowledge and end to end, each in both ways."""
    closed_loop = {"p50": ratio_at_most(1.0), "p99": ratio_at_most(0.3)}
    at_rate = {"p50": ratio_at_most(0.7, pure=0.8), "p99": ratio_at_most(0.5, pure=0.6)}
    return [
        Latency(ACKNOWLEDGE, "acknowledge", False, closed_loop),
        Latency(ACKNOWLEDGE, "acknowledge", True, at_rate),
        Latency(END_TO_END, "end to end", False, {"p99": closed_loop["p99"]}),
        Latency(END_TO_END, "end to end", True, at_rate),
    ]
