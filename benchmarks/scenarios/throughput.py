"""Produce, then consume what was produced, and the broker's CPU time for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.batch_sizes import BatchSizes, batch_sizes
from benchmarks.load.consume import ConsumeSpec
from benchmarks.load.loads import CONSUME, PRODUCE
from benchmarks.load.process import run_load
from benchmarks.load.produce import RECORD_OVERHEAD_BYTES, ProduceSpec
from benchmarks.rows import Better, Row, Sample, ratio_at_least, ratio_at_most
from benchmarks.topics import topic_for_a_run

from .context import Bench, RunningBroker, usage_details
from .machine_limits import SEND_FILE_LIMIT, receive_limit
from .shapes import BATCH_SIZES, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.load.consume import ConsumeResult
    from benchmarks.load.produce import ProduceResult
    from benchmarks.procfs import Usage

_CPU_SHAPES = {Shape(1_000, size): name for size, name in BATCH_SIZES.items()}
_TARGET_OF_CPU = ratio_at_most(0.9)


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
            produced = run_load(PRODUCE, self._produce_spec(bench, broker, topic), bench.load_timeout_s)
            # The first batch is the producer's warm-up.
            batches = batch_sizes(broker.server.data_dir / f"{topic}-0", skip=1)
            consumed = run_load(
                CONSUME,
                ConsumeSpec(
                    broker.server.bootstrap,
                    broker.server.pid,
                    topic,
                    self.shape.partitions,
                    produced.stored,
                    bench.effort.seconds,
                ),
                bench.load_timeout_s,
            )
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
            bench.effort.seconds,
            bench.effort.most_bytes,
        )

    def _produce_row(self) -> Row:
        shape = self.shape
        small_batches = (shape.value_bytes, shape.batch_bytes) == (1_000, 16_384)
        target = ratio_at_least(1.5 if small_batches else 1.0)
        # What is compressed is more on the way in than on the wire, and has no share of the limit.
        limit = receive_limit(shape.batch_bytes) if shape.compression == "none" else None
        return Row(f"produce-{shape.name}", f"produce {shape.title}", "MB/s", Better.HIGHER, (target,), limit)

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
        size = _CPU_SHAPES.get(self.shape)
        if size is None:
            return []
        return [
            Row(
                f"cpu-{way.replace(' ', '-')}-{size}",
                f"broker CPU per GB {way}, 1KB records, {size} batches",
                "s/GB",
                Better.LOWER,
                (_TARGET_OF_CPU,),
            )
            for way in ("in", "out", "in and out")
        ]

    def _cpu_samples(self, produced: ProduceResult, consumed: ConsumeResult) -> list[Sample]:
        cost_in, cost_out = (
            each.usage.broker_cpu_s / (each.records * self.shape.value_bytes / 1e9)
            for each in (produced, consumed)
        )
        costs = (cost_in, cost_out, cost_in + cost_out)
        return [Sample(row.name, cost) for row, cost in zip(self._cpu_rows(), costs, strict=False)]
