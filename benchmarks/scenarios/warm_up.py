"""A broker is measured warm: a JVM's first seconds are several times slower than its later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .latency import latencies
from .shapes import Shape
from .throughput import Throughput

if TYPE_CHECKING:
    from .context import Bench, RunningBroker

_SHAPES = (Shape(1_000, 16_384), Shape(1_000, 1_000_000))


def warm_up(bench: Bench, broker: RunningBroker) -> None:
    """Produce, consume, acknowledge and deliver for a while, none of it counted."""
    effort = bench.effort
    if not effort.warm_up_s:
        return
    longer = attrs.evolve(bench, effort=attrs.evolve(effort, seconds=effort.warm_up_s))
    for shape in _SHAPES:
        Throughput(shape).measure(longer, broker)
    for latency in latencies():
        if not latency.at_rate:
            latency.measure(bench, broker)
