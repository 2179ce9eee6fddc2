"""The speeds of a producer on two brokers that take turns, for what one of them does beside the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.load.loads import RAW_PRODUCE
from benchmarks.load.raw_produce import RawProduceSpec
from benchmarks.topics import topic_for_a_run

from .latency import VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .context import Bench, RunningBroker

_BATCH_BYTES: Final = 16_384
_TURNS: Final = 6


def produce_speeds(bench: Bench, one: RunningBroker, other: RunningBroker) -> Sequence[tuple[float, float]]:
    """Return pairs of speeds in MB/s, on one broker and on the other."""
    # The first pair is a warm-up.
    return [_pair(bench, one, other, turn) for turn in range(1 + _TURNS)][1:]


def _pair(bench: Bench, one: RunningBroker, other: RunningBroker, turn: int) -> tuple[float, float]:
    """Return both speeds; the one that is measured first changes, as it may find the machine otherwise."""
    if turn % 2:
        return _produce(bench, one), _produce(bench, other)
    speed = _produce(bench, other)
    return _produce(bench, one), speed


def _produce(bench: Bench, broker: RunningBroker) -> float:
    """Return MB/s."""
    with topic_for_a_run(broker.admin) as topic:
        spec = RawProduceSpec(
            broker.server.bootstrap,
            broker.server.pid,
            topic,
            1,
            VALUE_BYTES,
            _BATCH_BYTES,
            bench.effort.slice_s,
            bench.effort.most_bytes,
        )
        produced = broker.loads.run(RAW_PRODUCE, spec, bench.load_timeout_s)
    return produced.batches * produced.bytes_per_batch / 1e6 / produced.usage.wall_s
