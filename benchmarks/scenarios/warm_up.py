"""A broker is measured warm: a JVM's first seconds are several times slower than its later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.procfs import cpu_seconds

from .latency import latencies
from .shapes import Shape
from .throughput import Throughput

if TYPE_CHECKING:
    from collections.abc import Callable

    from .context import Bench, RunningBroker

_SHAPES = (Shape(1_000, 16_384), Shape(1_000, 1_000_000))
_SLICES = 4
_MOST_TIMES = 20


def warm_up(bench: Bench, broker: RunningBroker) -> None:
    """Produce, consume, acknowledge and deliver for a while, none of it counted."""
    slice_s = _SLICES * bench.effort.slice_s
    longer = attrs.evolve(bench, effort=attrs.evolve(bench.effort, slice_s=slice_s))

    def all_kinds() -> None:
        for shape in _SHAPES:
            Throughput(shape).measure(longer, broker)
        for latency in latencies():
            if not latency.at_rate:
                latency.measure(bench, broker)

    repeat_until_warm(broker, all_kinds, bench.effort.warm_up_cpu_s)
    broker.loads.end()


def repeat_until_warm(broker: RunningBroker, load: Callable[[], object], cpu_s: float) -> None:
    """Load a broker once, so that clients are connected, and a JVM until it has spent `cpu_s` on it.

    CPU time, since beside other work a JVM takes longer to compile what it runs.
    """
    pid = broker.server.pid
    until = cpu_seconds(pid) + cpu_s
    for _ in range(_MOST_TIMES if broker.kind.compiles_while_it_runs else 1):
        load()
        if cpu_seconds(pid) >= until:
            break
