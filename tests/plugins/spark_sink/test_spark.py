"""Queries of Spark itself over the format: what its processes do with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from tests.deadlines import DEADLINE_S
from tests.plugins.spark_sink.queries import Topic, new_topic
from tidelog.plugins.client import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def topic(shared_tidelog: str) -> Iterator[Topic]:
    """Two partitions with 1000 records each."""
    with new_topic(shared_tidelog, 2) as topic:
        for partition in range(2):
            for batch in range(10):
                topic.produce(partition, [f"{partition}-{batch}-{index}" for index in range(100)])
        yield topic


def load(reader: Any, topic: Topic, **options: Any) -> DataFrame:
    """The table of the topic."""
    reader = reader.format("tidelog").option("kafka.bootstrap.servers", topic.bootstrap)
    given = {"subscribe": topic.name, **options}
    table: DataFrame = reader.options(
        **{name.replace("__", "."): text for name, text in given.items()}
    ).load()
    return table


def finish(stream: DataFrame, folder: Path, sink: str = "parquet") -> Any:
    """Run a streaming query over all that is there."""
    query = (
        stream.writeStream.format(sink)
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(int(DEADLINE_S))
    return query


def test_a_row_has_all_columns(spark: SparkSession, shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        record = NewRecord(b"value", b"key", [("h", b"1"), ("h", None)], 1_700_000_000_123)
        topic.client.produce(topic.partition(0), [record, NewRecord(None, timestamp=5)])
        rows = load(spark.read, topic, includeHeaders=True).orderBy("offset").collect()
    assert rows[0].asDict(recursive=True) == {
        "key": bytearray(b"key"),
        "value": bytearray(b"value"),
        "topic": topic.name,
        "partition": 0,
        "offset": 0,
        "timestamp": rows[0].timestamp,
        "timestampType": 0,
        "headers": [{"key": "h", "value": bytearray(b"1")}, {"key": "h", "value": None}],
    }
    assert isinstance(rows[0].timestamp, datetime)
    assert (rows[1].key, rows[1].value, rows[1].headers) == (None, None, None)
    assert (rows[0].timestamp - rows[1].timestamp).total_seconds() == 1_700_000_000.118


def test_a_streaming_query_writes_each_record_once_over_its_restarts(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        for number in range(2):
            for partition in range(2):
                topic.produce(partition, [f"{number}-{index}" for index in range(500)])
            query = finish(
                load(spark.readStream, topic, startingOffsets="earliest", maxOffsetsPerTrigger=400), tmp_path
            )
            assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [
                400,
                400,
                200,
            ]
    rows = spark.read.parquet(str(tmp_path / "table"))
    assert rows.count() == 2000
    assert rows.select("partition", "offset").distinct().count() == 2000


def test_a_view_in_sql_reads_a_topic(spark: SparkSession, topic: Topic) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW tides USING tidelog OPTIONS ("
        f"`kafka.bootstrap.servers` '{topic.bootstrap}', subscribe '{topic.name}')"
    )
    rows = spark.sql("SELECT partition, count(*) AS n, max(offset) AS last FROM tides GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in rows.collect()] == [(0, 1000, 999), (1, 1000, 999)]


def test_an_empty_batch_query_has_no_rows(spark: SparkSession, shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        assert load(spark.read, topic).count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "latest"}, "no option startingoffset; the nearest one is startingOffsets"),
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic'"),
    ],
)
def test_a_mistake_in_a_query_is_explained(
    spark: SparkSession, topic: Topic, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises((StreamingQueryException, AnalysisException), match=message):
        finish(load(spark.readStream, topic, **options), tmp_path, "noop")
