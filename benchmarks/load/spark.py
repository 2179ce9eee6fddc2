"""Read topics with Spark, by the format `tidelog` and by Spark's own format `kafka` in turn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.spark_sink.environment import prepare_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("tidelog", "kafka")
SINKS = ("noop", "parquet")
CORES = 2


@attrs.frozen
class SparkSpec:
    """Topics to read from `bootstrap`; `jars` is the folder of the format `kafka`, `folder` an empty one."""

    bootstrap: str
    topics: list[str]
    jars: str
    folder: str


@attrs.frozen
class SparkResult:
    """Records a second, by topic, sink and format."""

    rates: dict[str, dict[str, dict[str, float]]]


def read_with_spark(spec: SparkSpec) -> SparkResult:
    """Read each topic into each sink by each format, after a query of each kind that is not measured."""
    prepare_spark()
    reading = _Reading(spec, spark_session(spec.jars, spec.folder))
    for sink in SINKS:
        for format_name in FORMATS:
            reading.rate(spec.topics[0], sink, format_name)
    return SparkResult(
        {
            topic: {sink: {name: reading.rate(topic, sink, name) for name in FORMATS} for sink in SINKS}
            for topic in spec.topics
        }
    )


class _Reading:
    def __init__(self, spec: SparkSpec, spark: SparkSession) -> None:
        self._spec = spec
        self._spark = spark
        self._records = dict[str, int]()

    def rate(self, topic: str, sink: str, format_name: str) -> float:
        """Run a query over the whole topic, with a checkpoint; records a second of its micro-batch.

        Start and end of the query are not counted: the same for all formats, and large. Raises RuntimeError
        when it did not read as many records as the query before.
        """
        folder = Path(self._spec.folder, "query")
        options = {
            "kafka.bootstrap.servers": self._spec.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        rows = self._spark.readStream.format(format_name).options(**options).load()
        query = (
            rows.writeStream.format(sink)
            .option("path", str(folder / "table"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        done = [each for each in query.recentProgress if each.numInputRows]
        shutil.rmtree(folder)
        records = sum(each.numInputRows for each in done)
        if records != self._records.setdefault(topic, records):
            raise RuntimeError(f"{format_name} read {records} records of {self._records[topic]} in {topic}")
        return records * 1000 / sum(each.durationMs["addBatch"] for each in done)


def spark_session(jars: str, folder: str) -> SparkSession:
    """A local session with a core for each task, which has the format `kafka` of the folder `jars`."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraClassPath", f"{jars}/*")
        .config("spark.local.dir", folder)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
