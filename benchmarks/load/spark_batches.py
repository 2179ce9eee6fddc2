"""Small micro-batches of Spark, by the format `tidelog` and by Spark's own format `kafka` in turn."""

from __future__ import annotations

import statistics
import struct
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import attrs
from confluent_kafka import Producer

from benchmarks.summaries import percentile
from tidelog.plugins.spark_sink.environment import prepare_spark

from .clients import prompt_producer_config
from .pacing import paced
from .spark import CORES, FORMATS, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TUNINGS: dict[str, dict[str, str]] = {
    "default": {},
    # Without the forks of Hadoop's local file system, and without a checksum file for each of the checkpoint.
    "tuned": {
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    },
}
BATCH_RECORDS = 100
_SENT_AT = struct.Struct(">q")
_REST = b"v" * 92
_PER_SECOND = 20
WARM_UP = 10
"""Micro-batches at the start of a query that do not count."""
_WARM_UP_S = 2.0
_PATIENCE_S = 60.0


@attrs.frozen
class SmallBatchesSpec:
    """`cost_topic` has records for micro-batches of 100; `latency_topic` is empty; `folder` too.

    `repeats` is how often each figure is taken, `seconds` how long each query of latencies gets records;
    `jars` is the folder of the format `kafka`.
    """

    bootstrap: str
    cost_topic: str
    latency_topic: str
    repeats: int
    seconds: float
    jars: str
    folder: str


@attrs.frozen
class SmallBatchesResult:
    """In milliseconds, by tuning and format, of each repeat.

    A cost is a median; of latencies there are the median and the 99th percentile.
    """

    costs: dict[str, dict[str, list[float]]]
    latencies: dict[str, dict[str, list[list[float]]]]


def small_batches(spec: SmallBatchesSpec) -> SmallBatchesResult:
    """Measure each format with each tuning, after a query of each format that is not measured."""
    prepare_spark()
    batches = _Batches(spec, spark_session(spec.jars, spec.folder))
    for name in FORMATS:
        batches.cost(name)
    costs = {tuning: {name: list[float]() for name in FORMATS} for tuning in TUNINGS}
    latencies = {tuning: {name: list[list[float]]() for name in FORMATS} for tuning in TUNINGS}
    for tuning, settings in TUNINGS.items():
        for key, text in settings.items():
            batches.spark.conf.set(key, text)
        for _ in range(spec.repeats):
            for name in FORMATS:
                costs[tuning][name].append(batches.cost(name))
            for name in FORMATS:
                latencies[tuning][name].append(batches.latency(name))
    return SmallBatchesResult(costs, latencies)


class _Batches:
    def __init__(self, spec: SmallBatchesSpec, spark: SparkSession) -> None:
        self._spec = spec
        self.spark = spark
        self._queries = 0

    def cost(self, format_name: str) -> float:
        """Return how long a micro-batch of 100 records takes, from its trigger to the end, with no sink."""
        rows = self._rows(format_name, self._spec.cost_topic, maxOffsetsPerTrigger=BATCH_RECORDS)
        query = self._writer(rows).format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        done = [each for each in query.recentProgress if each.numInputRows][WARM_UP:]
        return float(statistics.median(each.durationMs["triggerExecution"] for each in done))

    def latency(self, format_name: str) -> list[float]:
        """Return median and 99th percentile of the time from `produce` to the row in `foreachBatch`.

        Raises RuntimeError when the query fails or no row comes.
        """
        latencies: list[float] = []
        begun = Event()

        def collect(rows: DataFrame, _: int) -> None:
            values = [bytes(row.value) for row in rows.select("value").collect()]
            now_ns = time.time_ns()
            latencies.extend((now_ns - _SENT_AT.unpack_from(each)[0]) / 1e6 for each in values)
            begun.set()

        rows = self._rows(format_name, self._spec.latency_topic, startingOffsets="latest")
        query = self._writer(rows).foreachBatch(collect).start()
        producer = Thread(target=self._produce, args=[begun], daemon=True)
        producer.start()
        if not begun.wait(_PATIENCE_S):
            raise RuntimeError(f"{format_name} brought no row: {query.exception()}")
        # The first micro-batches are slower, and their records have waited for the start of the query.
        time.sleep(_WARM_UP_S)
        latencies.clear()
        producer.join()
        query.stop()
        return [statistics.median(latencies), percentile(latencies, 99.0)]

    def _produce(self, begun: Event) -> None:
        """Send records until the query has begun, while it gets warm, and for `seconds` afterwards."""
        producer = Producer(prompt_producer_config(self._spec.bootstrap))
        left = int((_WARM_UP_S + self._spec.seconds) * _PER_SECOND)
        for _ in paced(int((_PATIENCE_S + self._spec.seconds) * _PER_SECOND), _PER_SECOND):
            for partition in range(CORES):
                for _ in range(BATCH_RECORDS):
                    value = _SENT_AT.pack(time.time_ns()) + _REST
                    producer.produce(self._spec.latency_topic, value, None, partition)
            producer.poll(0)
            left -= begun.is_set()
            if left <= 0:
                break
        producer.flush(_PATIENCE_S)

    def _rows(self, format_name: str, topic: str, **options: Any) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": self._spec.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        return self.spark.readStream.format(format_name).options(**given).load()

    def _writer(self, rows: DataFrame) -> Any:
        self._queries += 1
        checkpoint = Path(self._spec.folder, f"checkpoint-{self._queries}")
        return rows.writeStream.option("checkpointLocation", str(checkpoint))
