"""A Spark application: a batch query, and a streaming query whose micro-batch is replayed.

    python spark_program.py BOOTSTRAP TOPIC DIRECTORY

The class of the data source is made in a function, so that Spark sends it to its workers.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def data_source() -> Any:
    from pyspark.sql.datasource import DataSource

    class WriterOnly(DataSource):
        @classmethod
        def name(cls) -> str:
            return "written"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            from tidelog.plugins.spark_sink.writer.writers import batch_writer

            return batch_writer(self.options, schema, overwrite=overwrite)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            from tidelog.plugins.spark_sink.writer.writers import stream_writer

            return stream_writer(self.options, schema, overwrite=overwrite)

    return WriterOnly


def write_batch(spark: SparkSession, options: dict[str, str]) -> None:
    frame = spark.range(2000).selectExpr(
        "cast(id as string) as key",
        "concat('batch ', id) as value",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers",
        "cast(id % 2 as int) as partition",
        "cast(timestamp_millis(id) as timestamp) as timestamp",
    )
    frame.write.format("written").options(**options).mode("append").save()


def write_stream(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    lines = spark.readStream.format("text").load(str(directory / "lines"))
    writer = lines.repartition(2).writeStream.format("written").options(**options)
    query = (
        writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    )
    query.awaitTermination()


def refusal(spark: SparkSession, options: dict[str, str], mode: str = "append", **columns: str) -> str:
    frame = spark.range(1).selectExpr(*[f"{text} as {name}" for name, text in columns.items()])
    try:
        frame.write.format("written").options(**options).mode(mode).save()
    except PySparkException as error:
        return str(error)
    return "written"


def main(bootstrap: str, topic: str, directory: Path) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(data_source())
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    write_batch(spark, options)
    lines = directory / "lines"
    lines.mkdir()
    (lines / "first").write_text("".join(f"stream {index}\n" for index in range(500)))
    write_stream(spark, options, directory)
    # As after a kill between the end of the micro-batch and Spark's note of it.
    shutil.rmtree(directory / "checkpoint" / "commits")
    write_stream(spark, options, directory)
    for message in (
        refusal(spark, options, other="1"),
        refusal(spark, options, "overwrite", value="'v'"),
    ):
        print(message.replace("\n", " "))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
