"""336,776 real events through broker and Spark into Parquet: aggregates are those of the original file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.clients.flights import COUNT, csv_file, flights
from tests.deadlines import DEADLINE_S
from tests.plugins.spark_sink.queries import Topic, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

COLUMNS = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, "
    "dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour STRING"
)
AGGREGATES = """
    SELECT origin, carrier, count(*), count(DISTINCT tailnum), count(dep_time), sum(dep_delay), sum(distance),
        min(arr_delay), max(arr_delay), sum(air_time), count(DISTINCT time_hour, dest), max(time_hour)
    FROM {table} GROUP BY ALL ORDER BY ALL
"""


def produce(topic: Topic) -> None:
    """All flights."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": topic.bootstrap,
        "enable.idempotence": True,
        "compression.type": "lz4",
        "linger.ms": 20,
        "queue.buffering.max.messages": COUNT,
    }
    producer = Producer(settings)
    for event in flights():
        producer.produce(topic.name, event.value, event.key, timestamp=event.timestamp_ms)
    assert producer.flush(DEADLINE_S) == 0


def test_an_aggregate_over_the_flights_is_that_of_their_file(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        produce(topic)
        options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
        records = spark.readStream.format("tidelog").options(**options, startingOffsets="earliest").load()
        fields = f"from_csv(cast(value AS string), '{COLUMNS}', map('nullValue', 'NA')) AS flight"
        query = (
            records.selectExpr(fields)
            .select("flight.*")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "flights"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(DEADLINE_S))
    (tmp_path / "flights.csv").write_bytes(csv_file())
    table = spark.read.parquet(str(tmp_path / "flights"))
    original = spark.read.csv(str(tmp_path / "flights.csv"), COLUMNS, header=True, nullValue="NA")
    assert table.count() == COUNT
    found, expected = (spark.sql(AGGREGATES, table=each).collect() for each in (table, original))
    assert found == expected
    assert len(found) > 30
