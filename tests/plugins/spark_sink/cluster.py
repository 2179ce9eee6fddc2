"""Run queries in a Spark whose executors are processes of their own, and print the values that they found.

    python -m tests.plugins.spark_sink.cluster BOOTSTRAP TOPIC COPY FOLDER

TOPIC is streamed until its end, copied into the topic COPY by as many tasks as there are executors, and COPY
is read. Prints a JSON object: `executors`, and the values by `streamed` and `copied`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import SparkSession

from tidelog.plugins.spark_sink.environment import prepare_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXECUTORS = 2


def main(bootstrap: str, topic: str, copy: str, folder: str) -> None:
    """Run the queries."""
    prepare_spark()
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    spark = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.worker.dir", folder)
        .getOrCreate()
    )
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    found: dict[str, Any] = {"streamed": [], "copied": []}

    def collect(rows: DataFrame, _: int) -> None:
        found["streamed"] += _values(rows)

    rows = spark.readStream.format("tidelog").options(**source).load()
    query = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint").foreachBatch(collect)
    query.trigger(availableNow=True).start().awaitTermination()
    batch = spark.read.format("tidelog").options(**source, minPartitions=str(EXECUTORS)).load()
    batch.select("key", "value").write.format("tidelog").mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap, "topic": copy}
    ).save()
    found["copied"] = _values(spark.read.format("tidelog").options(**{**source, "subscribe": copy}).load())
    # The driver has a block manager, too.
    jvm: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    found["executors"] = jvm.sc().getExecutorMemoryStatus().size() - 1
    spark.stop()
    print(json.dumps(found))


def _values(rows: DataFrame) -> list[str]:
    return [bytes(row.value).decode() for row in rows.select("value").collect()]


if __name__ == "__main__":
    main(*sys.argv[1:])
