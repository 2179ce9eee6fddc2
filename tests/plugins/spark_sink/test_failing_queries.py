"""Streaming queries of Spark that fail: with an error that says why, and a restart that continues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.deadlines import DEADLINE_S, wait_until
from tests.plugins.spark_sink.queries import Topic, new_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


def stream(spark: SparkSession, topic: Topic, *, fail_on_data_loss: bool = True) -> DataFrame:
    """The rows of the topic from its start."""
    options: dict[str, str | bool] = {
        "kafka.bootstrap.servers": topic.bootstrap,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "failOnDataLoss": fail_on_data_loss,
    }
    return spark.readStream.format("tidelog").options(**options).load()


def start(rows: DataFrame, folder: Path, on_batch: Callable[[DataFrame, int], None]) -> Any:
    """Start a query that goes on until something fails."""
    return rows.writeStream.option("checkpointLocation", str(folder)).foreachBatch(on_batch).start()


def finish(query: Any) -> None:
    """Wait until the query has failed, and raise its error."""
    try:
        assert query.awaitTermination(int(DEADLINE_S)), "the query goes on"
    finally:
        query.stop()


@pytest.mark.long
def test_a_micro_batch_whose_function_raises_is_repeated_by_a_restart(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    batches: list[tuple[int, list[str]]] = []
    bad = {"high"}

    def parse(rows: DataFrame, batch: int) -> None:
        values = [bytes(row.value).decode() for row in rows.collect()]
        batches.append((batch, values))
        for each in bad.intersection(values):
            raise ValueError(f"{each} is no height")

    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["1.5", "high"])
        with pytest.raises(StreamingQueryException, match="high is no height"):
            finish(start(stream(spark, topic), tmp_path, parse))
        bad = {"low"}
        topic.produce(0, ["low"])
        with pytest.raises(StreamingQueryException, match="low is no height"):
            finish(start(stream(spark, topic), tmp_path, parse))
    assert batches == [(0, ["1.5", "high"]), (0, ["1.5", "high"]), (1, ["low"])]


@pytest.mark.long
def test_a_topic_that_is_deleted_under_a_query_fails_it_and_a_restart_reads_the_next_one(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path
) -> None:
    found: list[str] = []

    def collect(rows: DataFrame, _: int) -> None:
        found.extend(bytes(row.value).decode() for row in rows.collect())

    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["old"])
        query = start(stream(spark, topic), tmp_path, collect)
        wait_until(lambda: found == ["old"] or not query.isActive, "the first row")
        topic.delete()
        with pytest.raises(StreamingQueryException, match=f"{topic.name}.* (was deleted|is gone)"):
            finish(query)
        with new_topic(shared_tidelog, name=topic.name) as again:
            again.produce(0, ["first", "new"])
            query = start(stream(spark, again, fail_on_data_loss=False), tmp_path, collect)
            # Its first plan has the id of the topic that is gone, and may find nothing yet.
            wait_until(lambda: found[1:] != [] or not query.isActive, "a row of the next topic")
            query.stop()
    assert found == ["old", "first", "new"]
