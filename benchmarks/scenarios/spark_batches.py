"""Small micro-batches of Spark by the format `tidelog`, beside its own format `kafka` on the same broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import KAFKA
from benchmarks.load.loads import PRODUCE, SPARK_BATCHES
from benchmarks.load.process import run_load
from benchmarks.load.produce import ProduceSpec
from benchmarks.load.spark import CORES
from benchmarks.load.spark_batches import BATCH_RECORDS, TUNINGS, WARM_UP, SmallBatchesSpec
from benchmarks.rows import Better, Row, Sample, value_at_most
from benchmarks.topics import create_topics
from tests.peers import find_kafka_format

from .context import Bench, RunningBroker, started_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.spark_batches import SmallBatchesResult

_COST, _LATENCY = "small", "latency"
_BATCHES = WARM_UP + 40
_SECONDS = 8.0
_VALUE_BYTES = 100
_MOST_TIMES = 1.5
_MOST_MS = {"default": 250.0, "tuned": 150.0}
_TIMEOUT_S = 600.0


def _rows() -> list[Row]:
    rows: list[Row] = []
    for tuning in TUNINGS:
        cost, latency = (
            f"Spark, a micro-batch of {BATCH_RECORDS}, {tuning}",
            f"Spark, row in foreachBatch, {tuning}",
        )
        rows += [
            Row(f"spark-microbatch-{tuning}", cost, "ms", Better.LOWER),
            Row(
                f"spark-microbatch-{tuning}-times",
                f"{cost}, in the time of its own format kafka",
                "×",
                Better.LOWER,
                (value_at_most(_MOST_TIMES),),
            ),
            Row(
                f"spark-latency-{tuning}-p50",
                f"{latency}, p50",
                "ms",
                Better.LOWER,
                (value_at_most(_MOST_MS[tuning]),),
            ),
            Row(
                f"spark-latency-{tuning}-p50-times",
                f"{latency}, p50, in that of its own format kafka",
                "×",
                Better.LOWER,
            ),
            Row(f"spark-latency-{tuning}-p99", f"{latency}, p99", "ms", Better.LOWER),
            Row(
                f"spark-latency-{tuning}-limit",
                f"{latency}, p50, from a socket by Spark's own source",
                "ms",
                Better.NEITHER,
            ),
        ]
    return rows


@attrs.frozen
class SparkBatches:
    """Micro-batches of 100 records; latencies of 100 records for each of two partitions 20 times a second."""

    name: str = attrs.field(default="spark-batches", init=False)
    rows: Sequence[Row] = attrs.field(factory=_rows, init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        # What it is compared with is another format on the same broker.
        return kind.key != KAFKA

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        jars = find_kafka_format()
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, {_COST: CORES, _LATENCY: CORES})
            run_load(PRODUCE, _fill(broker), _TIMEOUT_S)
            folder = work_dir / "spark"
            folder.mkdir()
            spec = SmallBatchesSpec(
                bootstrap=broker.server.bootstrap,
                cost_topic=_COST,
                latency_topic=_LATENCY,
                repeats=bench.effort.repeats,
                seconds=_SECONDS,
                jars=str(jars),
                folder=str(folder),
            )
            found = run_load(SPARK_BATCHES, spec, _TIMEOUT_S * bench.effort.repeats)
        return [sample for tuning in TUNINGS for sample in _samples(found, tuning)]


def _samples(found: SmallBatchesResult, tuning: str) -> Iterator[Sample]:
    costs, latencies = found.costs[tuning], found.latencies[tuning]
    for own, kafka in zip(costs["tidelog"], costs["kafka"], strict=True):
        yield Sample(f"spark-microbatch-{tuning}", own)
        yield Sample(f"spark-microbatch-{tuning}-times", own / kafka, {"format_kafka": kafka})
    for own_latencies, kafka_latencies in zip(latencies["tidelog"], latencies["kafka"], strict=True):
        (p50, p99), (kafka_p50, kafka_p99) = own_latencies, kafka_latencies
        yield Sample(f"spark-latency-{tuning}-p50", p50, {"format_kafka": kafka_p50})
        yield Sample(f"spark-latency-{tuning}-p50-times", p50 / kafka_p50)
        yield Sample(f"spark-latency-{tuning}-p99", p99, {"format_kafka": kafka_p99})
    for limit in found.limits[tuning]:
        yield Sample(f"spark-latency-{tuning}-limit", limit)


def _fill(broker: RunningBroker) -> ProduceSpec:
    return ProduceSpec(
        bootstrap=broker.server.bootstrap,
        broker_pid=broker.server.pid,
        topic=_COST,
        partitions=CORES,
        value_bytes=_VALUE_BYTES,
        batch_bytes=BATCH_RECORDS * _VALUE_BYTES,
        compression="none",
        seconds=_TIMEOUT_S,
        most_bytes=_BATCHES * BATCH_RECORDS * _VALUE_BYTES,
        keys=0,
    )
