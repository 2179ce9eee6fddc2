"""Spark reads topics by the format `tidelog`, beside Spark's own format `kafka` on the same broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.load.loads import PRODUCE, SPARK
from benchmarks.load.process import run_load
from benchmarks.load.produce import ProduceSpec
from benchmarks.load.spark import CORES, SINKS, SparkSpec
from benchmarks.rows import Better, Row, Sample, value_at_least
from benchmarks.topics import create_topics
from tests.peers import find_kafka_format

from .context import Bench, RunningBroker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

_CODECS = ("none", "lz4", "zstd")
_LEAST_TIMES = {"noop": 1.5, "parquet": 1.0}
_LEAST_MILLIONS = {"noop": (value_at_least(2.0),), "parquet": ()}
_VALUE_BYTES = 100
_BATCH_BYTES = 110_000
_KEYS = 100_000
_TIMEOUT_S = 600.0


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
            ]
    return rows


@attrs.frozen
class SparkReads:
    """Records of about 115 bytes in two partitions, a topic for each codec."""

    records: int
    name: str = attrs.field(default="spark", init=False)
    rows: Sequence[Row] = attrs.field(factory=_rows, init=False)

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        jars = find_kafka_format()
        server = kind.server(work_dir)
        try:
            server.start()
            broker = RunningBroker.of(kind, server)
            create_topics(broker.admin, dict.fromkeys(_CODECS, CORES))
            for codec in _CODECS:
                run_load(PRODUCE, self._fill(broker, codec), _TIMEOUT_S)
            folder = work_dir / "spark"
            folder.mkdir()
            spec = SparkSpec(server.bootstrap, list(_CODECS), str(jars), str(folder))
            rates = run_load(SPARK, spec, _TIMEOUT_S).rates
        finally:
            server.stop()
        samples: list[Sample] = []
        for codec, of_codec in rates.items():
            for sink, of_sink in of_codec.items():
                own, kafka = of_sink["tidelog"], of_sink["kafka"]
                samples += [
                    Sample(f"spark-{sink}-{codec}", own / 1e6),
                    Sample(f"spark-{sink}-{codec}-times", own / kafka, {"format_kafka": kafka / 1e6}),
                ]
        return samples

    def _fill(self, broker: RunningBroker, codec: str) -> ProduceSpec:
        return ProduceSpec(
            bootstrap=broker.server.bootstrap,
            broker_pid=broker.server.pid,
            topic=codec,
            partitions=CORES,
            value_bytes=_VALUE_BYTES,
            batch_bytes=_BATCH_BYTES,
            compression=codec,
            seconds=_TIMEOUT_S,
            most_bytes=self.records * _VALUE_BYTES,
            keys=_KEYS,
        )


def spark_reads(records: int) -> list[SparkReads]:
    """None for no records."""
    return [SparkReads(records)] if records else []
