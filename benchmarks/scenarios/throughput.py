"""Produce, then consume what was produced, and the broker's CPU time for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.batch_sizes import BatchSizes, batch_sizes
from benchmarks.load.consume import ConsumeSpec
from benchmarks.load.loads import CONSUME, PRODUCE
from benchmarks.load.produce import RECORD_OVERHEAD_BYTES, ProduceSpec
from benchmarks.rows import Better, Row, Sample, ratio_at_least, ratio_at_most
from benchmarks.topics import topic_for_a_run

from .client_limits import produce_limit
from .context import Bench, RunningBroker, usage_details
from .machine_limits import SEND_FILE_LIMIT, receive_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.load.consume import ConsumeResult
    from benchmarks.load.produce import ProduceResult
    from benchmarks.procfs import Usage
    from benchmarks.rows import Target

    from .shapes import Shape

_EVENT_BYTES = 1_000
_LARGE_BATCH = 1_000_000
_CPU_TARGET = ratio_at_most(0.9)


@attrs.frozen
class Throughput:
    """One shape of load."""

    shape: Shape

    @property
    def name(self) -> str:
        return f"throughput-{self.shape.name}"

    @property
    def rows(self) -> Sequence[Row]:
        return [self._produce_row(), self._consume_row(), *self._cpu_rows()]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        with topic_for_a_run(broker.admin, self.shape.partitions) as topic:
            to_produce = self._produce_spec(bench, broker, topic)
            produced = broker.loads.run(PRODUCE, to_produce, bench.load_timeout_s)
            # The first batch is the producer's warm-up.
            batches = batch_sizes(broker.server.data_dir / f"{topic}-0", skip=1)
            to_consume = ConsumeSpec(
                broker.server.bootstrap,
                broker.server.pid,
                topic,
                self.shape.partitions,
                produced.stored,
                bench.effort.slice_s,
            )
            consumed = broker.loads.run(CONSUME, to_consume, bench.load_timeout_s)
        return [
            self._rate(self._produce_row(), produced.records, produced.usage, self._batch_details(batches)),
            self._rate(self._consume_row(), consumed.records, consumed.usage, {"passes": consumed.passes}),
            *self._cpu_samples(produced, consumed),
        ]

    def _produce_spec(self, bench: Bench, broker: RunningBroker, topic: str) -> ProduceSpec:
        return ProduceSpec(
            broker.server.bootstrap,
            broker.server.pid,
            topic,
            self.shape.partitions,
            self.shape.value_bytes,
            self.shape.batch_bytes,
            self.shape.compression,
            bench.effort.slice_s,
            bench.effort.most_bytes,
        )

    def _produce_row(self) -> Row:
        shape = self.shape
        # What is compressed is more on the way in than on the wire: its limit is the client.
        limit = receive_limit(shape.batch_bytes) if shape.compression == "none" else produce_limit(shape)
        return Row(
            f"produce-{shape.name}",
            f"produce {shape.title}",
            "MB/s",
            Better.HIGHER,
            (_produce_target(shape),),
            limit,
        )

    def _consume_row(self) -> Row:
        shape = self.shape
        limit = SEND_FILE_LIMIT if shape.compression == "none" else None
        return Row(
            f"consume-{shape.name}",
            f"consume {shape.title}",
            "MB/s",
            Better.HIGHER,
            (ratio_at_least(1.0),),
            limit,
        )

    def _rate(self, row: Row, records: int, usage: Usage, details: dict[str, object]) -> Sample:
        value_bytes = records * self.shape.value_bytes
        more = {
            "records": records,
            "records_per_s": records / usage.wall_s,
            "broker_cpu_s_per_gb": usage.broker_cpu_s / (value_bytes / 1e9),
            **usage_details(usage),
            **details,
        }
        return Sample(row.name, value_bytes / 1e6 / usage.wall_s, more)

    def _batch_details(self, batches: BatchSizes | None) -> dict[str, object]:
        """What the log holds, and how much of the nominal size of a batch that is before compression."""
        if batches is None:
            return {}
        filled_bytes = batches.median_records * (self.shape.value_bytes + RECORD_OVERHEAD_BYTES)
        return {**attrs.asdict(batches), "batch_fill": filled_bytes / self.shape.batch_bytes}

    def _cpu_rows(self) -> list[Row]:
        shape = self.shape
        return [
            Row(
                f"cpu-{way.replace(' ', '-')}-{shape.name}",
                f"broker CPU per GB {way}, {shape.title}",
                "s/GB",
                Better.LOWER,
                (_cpu_target(shape, way),),
            )
            for way in ("in", "out", "in and out")
        ]

    def _cpu_samples(self, produced: ProduceResult, consumed: ConsumeResult) -> list[Sample]:
        cost_in, cost_out = (
            each.usage.broker_cpu_s / (each.records * self.shape.value_bytes / 1e9)
            for each in (produced, consumed)
        )
        costs = (cost_in, cost_out, cost_in + cost_out)
        usages = (produced.usage, consumed.usage, produced.usage)
        return [
            Sample(row.name, cost, usage_details(usage))
            for row, cost, usage in zip(self._cpu_rows(), costs, usages, strict=True)
        ]


def _produce_target(shape: Shape) -> Target:
    if shape.compression != "none":
        return ratio_at_least(1.2, pure=0.9)
    # The client is the limit with small records.
    if shape.value_bytes < _EVENT_BYTES:
        return ratio_at_least(1.0)
    return (
        ratio_at_least(2.0, pure=1.5) if shape.batch_bytes < _LARGE_BATCH else ratio_at_least(1.3, pure=1.1)
    )


def _cpu_target(shape: Shape, way: str) -> Target:
    if shape.compression != "none":
        return ratio_at_most(1.0, pure=1.5)
    # All that either broker does with a large batch on the way out is `sendfile`.
    return ratio_at_most(1.0, pure=1.1) if (way, shape.batch_bytes) == ("out", _LARGE_BATCH) else _CPU_TARGET
