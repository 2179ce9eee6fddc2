"""Spark's side, a script for `tidelog spark`: it gets the broker's address and data directory, and a folder.

A table of Parquet files gets the records of the topic, and another topic gets what they become. When the
file `finish` is there, all that remains is done, and the rows of the table are written once more, for readers
that do not know Spark's metadata.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from tests.spark_kills.names import FINISH, RECORDS, RESULT, TABLE, TRANSFORMED
from tests.spark_session import local_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# A micro-batch takes about as long as the pause before a kill, so kills are anywhere in it.
MOST_OFFSETS = "2000"
POLL_S = 0.2


def ways_to_read(data_dir: Path) -> list[Mapping[str, str]]:
    """Options of the source: rows come with the plan, by tasks from the broker, by tasks from its files."""
    by_tasks = {"prefetchOffsets": "0"}
    return [{}, by_tasks, {**by_tasks, "localLogDirs": str(data_dir)}]


class EndlessQuery:
    """A query that starts again when it fails, until it has read what there was when `finish` appeared."""

    def __init__(self, make: Callable[[], DataStreamWriter], finish: Path) -> None:
        self._make = make
        self._finish = finish
        self._query: StreamingQuery | None = None
        self._is_last = False

    def is_done(self) -> bool:
        """Start it, or start it again, unless it runs or has read everything."""
        if self._query is not None and self._query.isActive:
            if self._finish.exists() and not self._is_last:
                self._query.stop()
            return False
        error = self._query.exception() if self._query is not None else None
        if self._is_last and error is None:
            return True
        if error is not None:
            print("a query failed:", str(error).splitlines()[0], flush=True)
        self._start()
        return False

    def _start(self) -> None:
        self._is_last = self._finish.exists()
        writer = self._make()
        trigger = (
            writer.trigger(availableNow=True) if self._is_last else writer.trigger(processingTime="0 seconds")
        )
        self._query = trigger.start()


def main(bootstrap: str, data_dir: Path, folder: Path) -> None:
    """Run both queries at once; each start of one is another draw of how it reads."""
    spark = SparkSession.builder.master("local[2,8]").config(map=local_settings(folder)).getOrCreate()
    broker = {"kafka.bootstrap.servers": bootstrap}
    options = {
        **broker,
        "subscribe": RECORDS,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": MOST_OFFSETS,
    }
    columns = (
        "CAST(partition AS STRING) AS key",
        "concat(`partition`, ' ', `offset`, ' ', upper(CAST(value AS STRING))) AS value",
    )

    def records() -> DataFrame:
        way = random.choice(ways_to_read(data_dir))
        print("a query reads with", dict(way), flush=True)
        return spark.readStream.format("tidelog").options(**options, **way).load()

    def into_table() -> DataStreamWriter:
        writer = records().select("partition", "offset", "value").writeStream.format("parquet")
        return writer.options(
            path=str(folder / TABLE), checkpointLocation=str(folder / f"{TABLE}-checkpoint")
        )

    def into_topic() -> DataStreamWriter:
        writer = (
            records().selectExpr(*columns).writeStream.format("tidelog").options(**broker, topic=TRANSFORMED)
        )
        return writer.option("checkpointLocation", str(folder / f"{TRANSFORMED}-checkpoint"))

    # In one thread: Spark finds formats of Python by the session that is active in the thread.
    queries = [EndlessQuery(make, folder / FINISH) for make in (into_table, into_topic)]
    while [query for query in queries if not query.is_done()]:
        time.sleep(POLL_S)
    spark.read.parquet(str(folder / TABLE)).coalesce(1).write.mode("overwrite").parquet(str(folder / RESULT))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
