"""Queries of Spark itself over the format: what its processes do with it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tests.deadlines import DEADLINE_S
from tests.plugins.spark_sink.queries import Topic, new_topic
from tests.plugins.spark_sink.writer.written import committed
from tidelog.plugins.client import GroupOffset, NewRecord
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa
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


def test_register_lets_every_thread_write(spark: SparkSession, shared_tidelog: str, tmp_path: Path) -> None:
    """And no session is active in a new thread."""
    import_module("pyspark_tidelog").register(spark)
    with new_topic(shared_tidelog) as topic:
        options = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name}
        rows = spark.createDataFrame([("batch",)], "value string")

        def write() -> None:
            rows.write.save(format="TIDELOG", mode="append", **options)

        def write_stream() -> None:
            topic.produce(0, ["read"])
            stream = load(spark.readStream, topic, startingOffsets="earliest").select("value")
            writer = stream.writeStream.format("tidelog").options(**options)
            checkpoint = str(tmp_path / "checkpoint")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination(int(DEADLINE_S))

        with ThreadPoolExecutor(1) as threads:
            for each in (write, write_stream):
                threads.submit(each).result(DEADLINE_S)
        assert committed(topic.client, [topic.partition(0)]) == ["batch", "batch", "read", "read"]


def test_source_progress_completes_what_spark_reports(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        topic.produce(0, [str(index) for index in range(5)])
        query = finish(
            load(spark.readStream, topic, startingOffsets="earliest", maxOffsetsPerTrigger=2), tmp_path
        )
        assert query.recentProgress[0]["sources"][0]["metrics"] == {}
        [found] = import_module("pyspark_tidelog").source_progress(query.recentProgress[0])
        assert found["description"] == f"tidelog[{topic.name}]"
        assert found["metrics"]["maxOffsetsBehindLatest"] == "3"


def test_a_streaming_query_writes_each_record_once_over_its_restarts(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        for number in range(2):
            for partition in range(2):
                topic.produce(partition, [f"{number}-{index}" for index in range(300)])
            query = finish(
                load(
                    spark.readStream,
                    topic,
                    startingOffsets="earliest",
                    maxOffsetsPerTrigger=400,
                    kafka__group__id=topic.name,
                ),
                tmp_path,
            )
            ends = [GroupOffset(300 * (number + 1))] * 2
            assert [*topic.client.committed_offsets(topic.name).values()] == ends
            progress = query.recentProgress
            assert [each.numInputRows for each in progress if each.numInputRows] == [400, 200], progress
    rows = spark.read.parquet(str(tmp_path / "table")).select("partition", "offset").collect()
    assert sorted(tuple(row) for row in rows) == [
        (partition, offset) for partition in range(2) for offset in range(600)
    ]


def test_tasks_of_small_micro_batches_need_no_python(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    class NoTasks(StreamReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            raise AssertionError(f"a task reads {partition}")

    class NoTasksSource(TidelogDataSource):
        @classmethod
        def name(cls) -> str:
            return "tidelog-without-tasks"

        def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
            return NoTasks(parse_options(self.options, streaming=True))

    spark.dataSource.register(NoTasksSource)
    with new_topic(shared_tidelog, 2) as topic:
        for partition in range(2):
            topic.produce(partition, ["a", "b", "c"])
        options = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
        finish(spark.readStream.format("tidelog-without-tasks").options(**options).load(), tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).selectExpr(
        "partition", "offset", "cast(value AS string)"
    )
    assert sorted(tuple(row) for row in rows.collect()) == [
        (partition, offset, value) for partition in range(2) for offset, value in enumerate("abc")
    ]


def test_a_view_in_sql_reads_a_topic(spark: SparkSession, topic: Topic) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW tides USING tidelog OPTIONS ("
        f"`kafka.bootstrap.servers` '{topic.bootstrap}', subscribe '{topic.name}')"
    )
    rows = spark.sql("SELECT partition, count(*) AS n, max(offset) AS last FROM tides GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in rows.collect()] == [(0, 1000, 999), (1, 1000, 999)]


def save(frame: DataFrame, topic: Topic, mode: str = "append", **options: str) -> None:
    """Write rows into the topic."""
    given = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name, **options}
    frame.write.format("tidelog").options(**given).mode(mode).save()


def test_a_table_that_is_written_is_read_again(spark: SparkSession, shared_tidelog: str) -> None:
    frame = spark.range(200).selectExpr(
        "cast(cast(id AS string) AS binary) AS key",
        "cast(concat('batch ', id) AS binary) AS value",
        "cast(id % 2 AS int) AS partition",
        "timestamp_millis(id) AS timestamp",
        "array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers",
    )
    with new_topic(shared_tidelog, 2) as topic:
        save(frame, topic)
        found = load(spark.read, topic, includeHeaders=True).select(frame.columns)
        assert sorted(found.collect()) == sorted(frame.collect())


@pytest.mark.long
def test_a_micro_batch_that_is_repeated_is_written_once(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog, 2) as source, new_topic(shared_tidelog, 2) as sink:
        source.produce(0, [f"stream {index}" for index in range(500)])
        rows = load(spark.readStream, source, startingOffsets="earliest").select("value").repartition(2)

        def write() -> None:
            given = {"kafka.bootstrap.servers": sink.bootstrap, "topic": sink.name}
            writer = rows.writeStream.format("tidelog").options(**given)
            query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
            query.awaitTermination(int(DEADLINE_S))

        write()
        # As after a kill between the end of the micro-batch and Spark's note of it.
        shutil.rmtree(tmp_path / "commits")
        write()
        written = committed(sink.client, [sink.partition(0), sink.partition(1)])
    assert written == sorted(f"stream {index}" for index in range(500))


@pytest.mark.long
def test_a_checkpoint_that_was_set_back_fails_the_query_that_writes_a_topic(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    with new_topic(shared_tidelog) as source, new_topic(shared_tidelog, 2) as sink:
        rows = load(spark.readStream, source, startingOffsets="earliest", maxOffsetsPerTrigger=10)
        given = {"kafka.bootstrap.servers": sink.bootstrap, "topic": sink.name}
        writer = rows.select("value").writeStream.format("tidelog").options(**given)

        def write() -> None:
            query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
            query.awaitTermination(int(DEADLINE_S))

        source.produce(0, [f"{index:02}" for index in range(30)])
        write()
        for folder, number in itertools.product(("offsets", "commits"), (1, 2)):
            for name in (str(number), f".{number}.crc"):
                (tmp_path / folder / name).unlink(missing_ok=True)
        source.produce(0, [f"{index:02}" for index in range(30, 35)])
        message = "micro-batch 1 is to be written, and the query has written micro-batch 2 already"
        with pytest.raises(StreamingQueryException, match=message):
            write()
        written = committed(sink.client, [sink.partition(0), sink.partition(1)])
    assert written == [f"{index:02}" for index in range(30)]


@pytest.mark.parametrize(
    ("column", "mode", "message"),
    [
        ("other", "append", "there is no column value among other"),
        ("value", "overwrite", "records cannot be overwritten: use the mode append"),
    ],
)
def test_a_mistake_in_writing_is_explained(
    spark: SparkSession, topic: Topic, column: str, mode: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        save(spark.range(1).selectExpr(f"'v' AS {column}"), topic, mode)


def test_an_empty_batch_query_has_no_rows(spark: SparkSession, shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        assert load(spark.read, topic).count() == 0


def test_a_mistake_in_a_query_is_explained(spark: SparkSession, topic: Topic) -> None:
    message = "no option startingoffset; the nearest one is startingOffsets"
    with pytest.raises(AnalysisException, match=message):
        load(spark.read, topic, startingOffset="latest").collect()


def test_a_mistake_in_a_streaming_query_is_explained(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    options = {"subscribe": "no-such-topic", "fetchOffset__numRetries": "1"}
    with pytest.raises(StreamingQueryException, match="topic 'no-such-topic'"):
        finish(load(spark.readStream, topic, **options), tmp_path, "noop")
