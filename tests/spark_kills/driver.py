"""Spark's side, a script for `tidelog spark`: see `Arguments`.

A table of Parquet files gets the records of the topic, and another topic gets what they become. When the
file `finish` is there, all that remains is done, and the rows of the table are written once more, for readers
that do not know Spark's metadata.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tests.spark_kills.names import FINISH, RECORDS, RESULT, TABLE, TRANSFORMED
from tests.spark_session import local_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# A micro-batch takes about as long as the pause before a kill, so kills are anywhere in it.
MOST_OFFSETS = "2000"
POLL_S = 0.2


class Arguments(NamedTuple):
    """The broker, the folder for everything, and `prefetchOffsets` of each query.

    That option decides how many tasks a micro-batch has, so it must not change. Whether these tasks read the
    broker's files is drawn at each start of a query.
    """

    bootstrap: str
    data_dir: str
    folder: str
    of_table: str
    of_topic: str


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


def main(given: Arguments) -> None:
    """Run both queries at once."""
    folder = Path(given.folder)
    spark = SparkSession.builder.master("local[2,8]").config(map=local_settings(folder)).getOrCreate()
    broker = {"kafka.bootstrap.servers": given.bootstrap}
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

    def records(prefetch_offsets: str) -> DataFrame:
        files = random.choice([{}, {"localLogDirs": given.data_dir}])
        way = {"prefetchOffsets": prefetch_offsets, **files}
        print("a query reads with", way, flush=True)
        return spark.readStream.format("tidelog").options(**options, **way).load()

    def into_table() -> DataStreamWriter:
        writer = records(given.of_table).select("partition", "offset", "value").writeStream.format("parquet")
        return writer.options(
            path=str(folder / TABLE), checkpointLocation=str(folder / f"{TABLE}-checkpoint")
        )

    def into_topic() -> DataStreamWriter:
        writer = (
            records(given.of_topic)
            .selectExpr(*columns)
            .writeStream.format("tidelog")
            .options(**broker, topic=TRANSFORMED)
        )
        return writer.option("checkpointLocation", str(folder / f"{TRANSFORMED}-checkpoint"))

    # In one thread: Spark finds formats of Python by the session that is active in the thread.
    queries = [EndlessQuery(make, folder / FINISH) for make in (into_table, into_topic)]
    while [query for query in queries if not query.is_done()]:
        time.sleep(POLL_S)
    spark.read.parquet(str(folder / TABLE)).coalesce(1).write.mode("overwrite").parquet(str(folder / RESULT))
    spark.stop()


if __name__ == "__main__":
    main(Arguments(*sys.argv[1:]))
