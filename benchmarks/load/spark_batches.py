"""Small micro-batches of Spark, by the format `tidelog` and by Spark's own format `kafka` in turn.

How soon rows can be in `foreachBatch` at all shows Spark's own source of lines from a socket: it only puts
them into a list, so what is left is what Spark does for each micro-batch.
"""

from __future__ import annotations

import socket
import statistics
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
    from collections.abc import Callable, Iterator

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
_VALUE = b"%-100d"
"""A value of 100 bytes: when it was sent, in nanoseconds."""
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

    A cost is a median; of latencies there are the median and the 99th percentile. `limits` are medians of
    the latencies of a source that does nothing, by tuning.
    """

    costs: dict[str, dict[str, list[float]]]
    latencies: dict[str, dict[str, list[list[float]]]]
    limits: dict[str, list[float]]


def small_batches(spec: SmallBatchesSpec) -> SmallBatchesResult:
    """Measure each format with each tuning, after a query of each format that is not measured."""
    prepare_spark()
    batches = _Batches(spec, spark_session(spec.jars, spec.folder))
    for name in FORMATS:
        batches.cost(name)
    costs = {tuning: {name: list[float]() for name in FORMATS} for tuning in TUNINGS}
    latencies = {tuning: {name: list[list[float]]() for name in FORMATS} for tuning in TUNINGS}
    limits = {tuning: list[float]() for tuning in TUNINGS}
    for tuning, settings in TUNINGS.items():
        for key, text in settings.items():
            batches.spark.conf.set(key, text)
        for _ in range(spec.repeats):
            for name in FORMATS:
                costs[tuning][name].append(batches.cost(name))
            for name in FORMATS:
                latencies[tuning][name].append(batches.latency(name))
            limits[tuning].append(batches.least_latency())
    return SmallBatchesResult(costs, latencies, limits)


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
        rows = self._rows(format_name, self._spec.latency_topic, startingOffsets="latest")
        latencies = self._latencies(format_name, rows, self._produce)
        return [statistics.median(latencies), percentile(latencies, 99.0)]

    def least_latency(self) -> float:
        """Return the median for the same rows from a socket, by Spark's own source.

        Raises RuntimeError when the query fails or no row comes.
        """
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
            rows = self.spark.readStream.format("socket").options(host=host, port=port, numPartitions=CORES)

            def send(begun: Event) -> None:
                with listener.accept()[0] as connection:
                    for _ in self._turns(begun):
                        lines = (_VALUE % time.time_ns() + b"\n" for _ in range(CORES * BATCH_RECORDS))
                        connection.sendall(b"".join(lines))

            return statistics.median(self._latencies("socket", rows.load(), send))

    def _latencies(self, source: str, rows: DataFrame, send: Callable[[Event], None]) -> list[float]:
        """Return the milliseconds from each value to its row in `foreachBatch`, while `send` sends values."""
        latencies: list[float] = []
        begun = Event()

        def collect(rows: DataFrame, _: int) -> None:
            values = [int(row.value) for row in rows.select("value").collect()]
            now_ns = time.time_ns()
            latencies.extend((now_ns - sent_ns) / 1e6 for sent_ns in values)
            if values:
                begun.set()

        sender = Thread(target=send, args=[begun], daemon=True)
        sender.start()
        query = self._writer(rows).foreachBatch(collect).start()
        if not begun.wait(_PATIENCE_S):
            raise RuntimeError(f"{source} brought no row: {query.exception()}")
        # The first micro-batches are slower, and their records have waited for the start of the query.
        time.sleep(_WARM_UP_S)
        latencies.clear()
        sender.join()
        query.stop()
        return latencies

    def _produce(self, begun: Event) -> None:
        producer = Producer(prompt_producer_config(self._spec.bootstrap))
        for _ in self._turns(begun):
            for partition in range(CORES):
                for _ in range(BATCH_RECORDS):
                    producer.produce(self._spec.latency_topic, _VALUE % time.time_ns(), None, partition)
            producer.poll(0)
        producer.flush(_PATIENCE_S)

    def _turns(self, begun: Event) -> Iterator[float]:
        """Pace until the query has begun, while it gets warm, and for `seconds` afterwards."""
        left = int((_WARM_UP_S + self._spec.seconds) * _PER_SECOND)
        for turn in paced(int((_PATIENCE_S + self._spec.seconds) * _PER_SECOND), _PER_SECOND):
            yield turn
            left -= begun.is_set()
            if left <= 0:
                break

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
