"""Latency at a fixed rate beside everything that a busy broker does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.brokers import TIDELOG
from benchmarks.load.acknowledge import LatencySpec
from benchmarks.load.loads import ACKNOWLEDGE, END_TO_END, MIXED
from benchmarks.load.mixed import MixedSpec
from benchmarks.load.process import pausable_load, run_load
from benchmarks.loop_holds import LoopHolds
from benchmarks.rows import Better, Row, Sample, ratio_at_most, value_at_most
from benchmarks.summaries import percentile
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details
from .latency import PERCENTILES, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.brokers import BrokerKind
    from benchmarks.procfs import Usage

_GROUPS: Final = 10
_SETTINGS: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.bytes": str(16 * 1024 * 1024),
    "group.initial.rebalance.delay.ms": "0",
    "event.loop.stall.ms": "5",
}
_HOLD: Final = Row(
    "mixed-hold",
    "longest hold of the event loop meanwhile, its processor time",
    "ms",
    Better.LOWER,
    (value_at_most(10, pure=20),),
)
_LOADS: Final = {"mixed-acknowledge": ACKNOWLEDGE, "mixed-end-to-end": END_TO_END}


@attrs.frozen
class MixedLoad:
    """A broker of its own with small segments, so that logs roll and are compacted all the time."""

    name: str = attrs.field(default="mixed", init=False)
    settings: Mapping[str, str] = attrs.field(default=_SETTINGS, init=False)

    @property
    def rows(self) -> Sequence[Row]:
        latencies = [
            Row(
                f"{name}-{each}",
                f"{load.name} {each} at a fixed rate beside a producer at full speed, {_GROUPS} groups that "
                "rebalance, compaction and descriptions",
                "µs",
                Better.LOWER,
                (ratio_at_most(1.0),) if each == "p99" else (),
            )
            for name, load in _LOADS.items()
            for each in PERCENTILES
        ]
        return [*latencies, _HOLD]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        timeout_s, server = bench.load_timeout_s, broker.server
        holds = LoopHolds(server.process.log_path) if broker.kind.key == TIDELOG else None
        samples: list[Sample] = []
        with (
            topic_for_a_run(broker.admin) as full,
            topic_for_a_run(broker.admin, 2 * _GROUPS) as of_groups,
            topic_for_a_run(broker.admin, config={"cleanup.policy": "compact"}) as compacted,
            topic_for_a_run(broker.admin) as measured,
            tempfile.TemporaryDirectory(dir=bench.folder) as folder,
        ):
            warm_file = Path(folder, "warm")
            spec = MixedSpec(
                server.bootstrap, full, of_groups, compacted, VALUE_BYTES, _GROUPS, str(warm_file)
            )
            effort = bench.effort
            latency = LatencySpec(
                server.bootstrap,
                server.pid,
                measured,
                VALUE_BYTES,
                effort.rate_slice_records,
                effort.rate_per_s,
            )
            with pausable_load(MIXED, spec, warm_file, timeout_s) as beside:
                for name, load in _LOADS.items():
                    before_s = beside.cpu_seconds()
                    result = run_load(load, latency, timeout_s)
                    details = _details(result.usage, beside.cpu_seconds() - before_s)
                    samples += [
                        Sample(f"{name}-{each}", percentile(result.latencies_us, percent), details)
                        for each, percent in PERCENTILES.items()
                    ]
        if holds is not None:
            samples.append(Sample(_HOLD.name, holds.longest_cpu_ms()))
        return samples


def _details(usage: Usage, beside_cpu_s: float) -> dict[str, object]:
    """Who was busy; the clients of the mixed load are no processes that wait."""
    rest_s = max(0.0, usage.idle_cpu_s - beside_cpu_s)
    details = usage_details(attrs.evolve(usage, idle_cpu_s=rest_s))
    return {**details, "beside_cores": beside_cpu_s / usage.wall_s}
