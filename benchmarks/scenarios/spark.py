"""Spark reads topics by the format `tidelog`, beside Spark's own format `kafka` on the same broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.brokers import KAFKA
from benchmarks.load.loads import PRODUCE, SPARK, SPARK_ENDLESS
from benchmarks.load.process import pausable_load, run_load
from benchmarks.load.produce import ProduceSpec
from benchmarks.load.spark import CORES, FILES, READY, SINKS, SparkEndlessSpec, SparkSpec
from benchmarks.rows import Better, Row, Sample, value_at_least, value_at_most
from benchmarks.topics import create_topics
from tests.peers import find_kafka_format

from .context import Bench, RunningBroker, started_broker
from .latency import acknowledge_p99
from .spark_batches import SparkBatches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind
    from benchmarks.load.process import PausableProcesses
    from benchmarks.load.spark import SparkResult

_CODECS = ("none", "lz4", "zstd")
_LEAST_TIMES = {"noop": 1.5, "parquet": 1.0}
_LEAST_MILLIONS = {"noop": (value_at_least(2.0),), "parquet": ()}
_VALUE_BYTES = 100
_BATCH_BYTES = 110_000
_KEYS = 100_000
_TIMEOUT_S = 600.0
_LIMIT = "spark-noop-limit"
_READ, _BESIDE_TOPIC = "read", "beside"
_BESIDE = {
    "tidelog": Row(
        "spark-beside",
        "acknowledge p99 at a fixed rate beside Spark, in p99 without",
        "×",
        Better.LOWER,
        (value_at_most(1.5),),
    ),
    FILES: Row(
        "spark-beside-files",
        "acknowledge p99 at a fixed rate beside Spark that reads the broker's files, in p99 without",
        "×",
        Better.LOWER,
        (value_at_most(1.5),),
    ),
    "kafka": Row(
        "spark-beside-kafka",
        "acknowledge p99 at a fixed rate beside Spark with its own format kafka, in p99 without",
        "×",
        Better.LOWER,
    ),
    READY: Row(
        "spark-beside-limit",
        "acknowledge p99 at a fixed rate beside Spark with rows that lie ready, in p99 without",
        "×",
        Better.NEITHER,
    ),
}


def _rows() -> list[Row]:
    rows: list[Row] = []
    for sink in SINKS:
        for codec in _CODECS:
            title = f"Spark reads into {sink}, {codec}"
            rows += [
                Row(f"spark-{sink}-{codec}", title, "M/s", Better.HIGHER, _LEAST_MILLIONS[sink]),
                Row(
                    f"spark-{sink}-{codec}-times",
                    f"{title}, in the rate of its own format kafka",
                    "×",
                    Better.HIGHER,
                    (value_at_least(_LEAST_TIMES[sink]),),
                ),
                Row(f"spark-{sink}-{codec}-files", f"{title}, from the broker's files", "M/s", Better.HIGHER),
            ]
    rows.append(Row(_LIMIT, "Spark takes rows that lie ready in Python into noop", "M/s", Better.NEITHER))
    return rows


@attrs.frozen
class SparkReads:
    """Records of about 115 bytes in two partitions, a topic for each codec."""

    records: int
    name: str = attrs.field(default="spark", init=False)
    rows: Sequence[Row] = attrs.field(factory=_rows, init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        # What it is compared with is another format on the same broker.
        return kind.key != KAFKA

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        jars = find_kafka_format()
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, dict.fromkeys(_CODECS, CORES))
            for codec in _CODECS:
                run_load(PRODUCE, _fill(broker, codec, codec, self.records), _TIMEOUT_S)
            folder = work_dir / "spark"
            folder.mkdir()
            repeats = bench.effort.repeats
            spec = SparkSpec(
                broker.server.bootstrap,
                str(broker.server.data_dir),
                list(_CODECS),
                repeats,
                str(jars),
                str(folder),
            )
            found = run_load(SPARK, spec, _TIMEOUT_S * repeats)
        reads = [sample for codec in _CODECS for sink in SINKS for sample in _samples(found, codec, sink)]
        return [*reads, *(Sample(_LIMIT, limit / 1e6) for limit in found.limits)]


@attrs.frozen
class BesideSpark:
    """How long a producer waits while Spark reads flat out on one processor, compared with before."""

    records: int
    name: str = attrs.field(default="spark-beside", init=False)
    rows: Sequence[Row] = attrs.field(factory=lambda: list(_BESIDE.values()), init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key != KAFKA

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        jars = find_kafka_format()
        samples: list[Sample] = []
        with started_broker(kind, work_dir) as broker:
            create_topics(broker.admin, {_READ: 1, _BESIDE_TOPIC: 1})
            run_load(PRODUCE, _fill(broker, _READ, "none", self.records, partitions=1), _TIMEOUT_S)
            for reader, row in _BESIDE.items():
                folder = work_dir / reader
                folder.mkdir()
                warm_file = folder / "warm"
                spec = SparkEndlessSpec(
                    broker.server.bootstrap,
                    str(broker.server.data_dir),
                    _READ,
                    self.records,
                    reader,
                    str(jars),
                    str(folder),
                    str(warm_file),
                )
                with pausable_load(SPARK_ENDLESS, spec, warm_file, _TIMEOUT_S) as reading:
                    samples += _beside(bench, broker, row, reading)
        return samples


def _beside(bench: Bench, broker: RunningBroker, row: Row, reading: PausableProcesses) -> Iterator[Sample]:
    records = bench.effort.rate_records
    acknowledge_p99(bench, broker, _BESIDE_TOPIC, records)
    for _ in range(bench.effort.repeats):
        reading.pause()
        alone_us = acknowledge_p99(bench, broker, _BESIDE_TOPIC, records)
        reading.resume()
        beside_us = acknowledge_p99(bench, broker, _BESIDE_TOPIC, records)
        yield Sample(row.name, beside_us / alone_us, {"alone_us": alone_us, "beside_us": beside_us})


def _samples(found: SparkResult, codec: str, sink: str) -> Iterator[Sample]:
    rates = found.rates[codec][sink]
    for own, kafka, files in zip(rates["tidelog"], rates["kafka"], rates[FILES], strict=True):
        yield Sample(f"spark-{sink}-{codec}", own / 1e6)
        yield Sample(f"spark-{sink}-{codec}-files", files / 1e6)
        yield Sample(f"spark-{sink}-{codec}-times", own / kafka, {"format_kafka": kafka / 1e6})


def _fill(
    broker: RunningBroker, topic: str, codec: str, records: int, partitions: int = CORES
) -> ProduceSpec:
    return ProduceSpec(
        bootstrap=broker.server.bootstrap,
        broker_pid=broker.server.pid,
        topic=topic,
        partitions=partitions,
        value_bytes=_VALUE_BYTES,
        batch_bytes=_BATCH_BYTES,
        compression=codec,
        seconds=_TIMEOUT_S,
        most_bytes=records * _VALUE_BYTES,
        keys=_KEYS,
    )


def spark_scenarios(records: int) -> list[SparkReads | SparkBatches | BesideSpark]:
    """None for no records: a run without Spark."""
    return [SparkReads(records), SparkBatches(), BesideSpark(records)] if records else []
