"""Read topics with Spark, by the format `tidelog`, by Spark's own format `kafka` and from files in turn."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs

from tidelog.plugins.spark_sink.environment import prepare_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("tidelog", "kafka")
FILES = "files"
"""The format `tidelog` with the broker's segment files."""
READERS = (*FORMATS, FILES)
READY = "ready"
"""The format `ReadyRows`, which reads from no broker."""
SINKS = ("noop", "parquet")
CORES = 2


@attrs.frozen
class SparkSpec:
    """Topics to read from the broker at `bootstrap`, which has its files in `data_dir`.

    `jars` is the folder of the format `kafka`, `folder` an empty one; `repeats` is how often each topic is
    read in each way.
    """

    bootstrap: str
    data_dir: str
    topics: list[str]
    repeats: int
    jars: str
    folder: str


@attrs.frozen
class SparkResult:
    """Records a second of each repeat, by topic, sink and `READERS`; `limits` are of rows that lie ready.

    Those go into no sink, as many as a topic has.
    """

    rates: dict[str, dict[str, dict[str, list[float]]]]
    limits: list[float]


@attrs.frozen
class SparkEndlessSpec:
    """A topic of `records` to read by one of `READERS` again and again, or as many rows of `READY`.

    `warm_file` is created after the first time.
    """

    bootstrap: str
    data_dir: str
    topic: str
    records: int
    reader: str
    jars: str
    folder: str
    warm_file: str


@attrs.frozen
class SparkEndlessResult:
    """Nothing: it reads until it is killed."""


def read_with_spark(spec: SparkSpec) -> SparkResult:
    """Read each topic into each sink by each format, after a query of each kind that is not measured."""
    prepare_spark()
    reading = _Reading(spec, spark_session(spec.jars, spec.folder))
    for sink in SINKS:
        for reader in READERS:
            reading.rate(spec.topics[0], sink, reader)
    records = reading.records[spec.topics[0]]
    reading.limit(records)
    rates = {
        topic: {sink: {name: list[float]() for name in READERS} for sink in SINKS} for topic in spec.topics
    }
    limits: list[float] = []
    for _ in range(spec.repeats):
        limits.append(reading.limit(records))
        for topic in spec.topics:
            for sink in SINKS:
                for name in READERS:
                    rates[topic][sink][name].append(reading.rate(topic, sink, name))
    return SparkResult(rates, limits)


def read_endlessly(spec: SparkEndlessSpec) -> NoReturn:
    """Read into no sink with one task, all of it on the last processor of the machine."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    prepare_spark()
    reading = _Reading(spec, spark_session(spec.jars, spec.folder, cores=1))
    while True:
        if spec.reader == READY:
            reading.limit(spec.records, tasks=1)
        else:
            reading.rate(spec.topic, "noop", spec.reader)
        Path(spec.warm_file).touch()


class _Reading:
    def __init__(self, spec: SparkSpec | SparkEndlessSpec, spark: SparkSession) -> None:
        self._bootstrap = spec.bootstrap
        self._data_dir = spec.data_dir
        self._folder = Path(spec.folder, "query")
        self._spark = spark
        self.records = dict[str, int]()
        """How many each topic has, as soon as it was read."""

    def rate(self, topic: str, sink: str, reader: str) -> float:
        """Run a query over the whole topic, with a checkpoint; records a second of its micro-batch.

        Start and end of the query are not counted: the same for all readers, and large. Raises RuntimeError
        when it did not read as many records as the query before.
        """
        options = {
            "kafka.bootstrap.servers": self._bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **({"localLogDirs": self._data_dir} if reader == FILES else {}),
        }
        format_name = "tidelog" if reader == FILES else reader
        rows = self._spark.readStream.format(format_name).options(**options).load()
        records, rate = self._finish(rows, sink)
        if records != self.records.setdefault(topic, records):
            raise RuntimeError(f"{reader} read {records} records of {self.records[topic]} in {topic}")
        return rate

    def limit(self, records: int, tasks: int = CORES) -> float:
        """Return how many rows a second Spark takes that lie ready, as many as there are records."""
        from .spark_limit import ReadyRows

        self._spark.dataSource.register(ReadyRows)
        options = {"rows": str(records), "tasks": str(tasks)}
        rows = self._spark.readStream.format(ReadyRows.name()).options(**options).load()
        return self._finish(rows, "noop")[1]

    def _finish(self, rows: DataFrame, sink: str) -> tuple[int, float]:
        """Run a query over all rows; return how many these were, and how many a second."""
        query = (
            rows.writeStream.format(sink)
            .option("path", str(self._folder / "table"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        done = [each for each in query.recentProgress if each.numInputRows]
        shutil.rmtree(self._folder)
        records = sum(each.numInputRows for each in done)
        return records, records * 1000 / sum(each.durationMs["addBatch"] for each in done)


def spark_session(jars: str, folder: str, cores: int = CORES) -> SparkSession:
    """A local session with a core for each task, which has the format `kafka` of the folder `jars`."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraClassPath", f"{jars}/*")
        .config("spark.local.dir", folder)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
