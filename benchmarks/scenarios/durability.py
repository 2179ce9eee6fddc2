"""The durability modes: what it costs to acknowledge nothing before it is on the device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import NO_SETTINGS
from benchmarks.load.flush_limit import FlushLimitSpec
from benchmarks.load.loads import FLUSH_LIMIT, MANY_PRODUCERS
from benchmarks.load.many_producers import ManyProducersSpec
from benchmarks.load.process import run_load
from benchmarks.rows import Better, Row, Sample, ratio_at_least, ratio_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details
from .latency import VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.many_producers import ManyProducersResult
    from benchmarks.rows import Target

_MODES: Mapping[str, tuple[str, Mapping[str, str]]] = MappingProxyType(
    {
        "durable": ("flush.messages=1", {"flush.messages": "1"}),
        "timed": ("flush.ms=1000", {"flush.ms": "1000"}),
        "cached": ("no flush", {}),
    }
)
"""Name of rows → what titles call the mode, and the configuration of its topics."""
_SETTLE_S = 0.3
"""Connections of many producers are made one after the other: the first ones have sent for long by then."""
_RATE, _P50, _P99, _FLUSHES = "rate", "p50", "p99", "flushes"


@attrs.frozen
class DurableProduce:
    """So many producers with one record in flight each."""

    producers: int
    partitions: int
    targets: Mapping[str, Target] = attrs.field(factory=dict[str, "Target"])
    mode: str = "durable"
    settings: Mapping[str, str] = attrs.field(default=NO_SETTINGS, init=False)

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.producers}x{self.partitions}p"

    @property
    def rows(self) -> Sequence[Row]:
        producers = f"{self.producers} producer{'s' if self.producers > 1 else ''}"
        partitions = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        mode, _ = _MODES[self.mode]
        figures = (
            (_RATE, "acknowledged records", "records/s", Better.HIGHER),
            (_P50, "acknowledge p50", "µs", Better.LOWER),
            (_P99, "acknowledge p99", "µs", Better.LOWER),
            (_FLUSHES, "calls that flush", "calls/s", Better.NEITHER),
        )
        return [
            Row(
                f"{self.name}-{figure}",
                f"{mode}, {producers}, {partitions}: {title}",
                unit,
                better,
                (self.targets[figure],) if figure in self.targets else (),
            )
            for figure, title, unit, better in figures
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        server = broker.server
        with topic_for_a_run(broker.admin, self.partitions, _MODES[self.mode][1]) as topic:
            spec = ManyProducersSpec(
                server.bootstrap,
                server.pid,
                topic,
                self.partitions,
                self.producers,
                VALUE_BYTES,
                min(_SETTLE_S, bench.effort.slice_s),
                2 * bench.effort.slice_s,
            )
            return self._samples(broker.loads.run(MANY_PRODUCERS, spec, bench.load_timeout_s))

    def _samples(self, result: ManyProducersResult) -> list[Sample]:
        latencies_us, seconds = result.latencies_us, result.usage.wall_s
        figures = {
            _RATE: len(latencies_us) / seconds,
            _P50: percentile(latencies_us, 50.0),
            _P99: percentile(latencies_us, 99.0),
        }
        if result.sync_calls is not None:
            figures[_FLUSHES] = result.sync_calls / seconds
        details = {"records": len(latencies_us), **usage_details(result.usage)}
        return [Sample(f"{self.name}-{figure}", value, details) for figure, value in figures.items()]


@attrs.frozen
class FlushLimit:
    """What the disk reaches without a broker."""

    files: int

    @property
    def name(self) -> str:
        return f"limit-flush-{self.files}"

    @property
    def rows(self) -> Sequence[Row]:
        files = f"{self.files} file{'s' if self.files > 1 else ''}"
        return [Row(self.name, f"bare write and flush of 1KB, {files}", "flushes/s", Better.NEITHER)]

    def measure(self, bench: Bench) -> list[Sample]:
        spec = FlushLimitSpec(str(bench.disk), self.files, VALUE_BYTES, bench.effort.seconds)
        result = run_load(FLUSH_LIMIT, spec, bench.load_timeout_s)
        wall_s = result.usage.wall_s
        details: dict[str, object] = {"flushes": result.flushes}
        return [Sample(self.name, result.flushes / wall_s, details)]


def durability() -> list[DurableProduce]:
    """One producer, and many that can share a flush, in one partition and in many; and the other modes."""
    targets = {_RATE: ratio_at_least(1.5), _P99: ratio_at_most(0.7)}
    return [
        DurableProduce(1, 1),
        DurableProduce(16, 1, targets),
        DurableProduce(16, 16, targets),
        DurableProduce(64, 16),
        DurableProduce(16, 16, mode="timed"),
        DurableProduce(16, 16, mode="cached"),
    ]


def flush_limits() -> list[FlushLimit]:
    """One file, and as many as the rows have partitions."""
    return [FlushLimit(1), FlushLimit(16)]
