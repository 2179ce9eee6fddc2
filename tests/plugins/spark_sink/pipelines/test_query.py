"""The queries of pipelines, in Spark: rows become what the configuration says, and errors are explained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deadlines import DEADLINE_S, wait_until
from tests.plugins.spark_sink.queries import Topic, new_topic
from tidelog.plugins.client import NewRecord
from tidelog.plugins.spark_sink.pipelines.definition import Decoding, Output, Pipeline
from tidelog.plugins.spark_sink.pipelines.news_pipe import NewsSender
from tidelog.plugins.spark_sink.pipelines.query import ProgressListener, start_query
from tidelog.plugins.spark_sink.pipelines.reports import Report, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FUNCTIONS = """
rows = []

def collect(frame, number):
    found = [tuple(row) for row in frame.collect()]
    if any(row[1] == 13.0 for row in found):
        raise ValueError("no tide is that high")
    rows.extend(found)

def doubled(frame):
    return frame.withColumn("metres", frame.metres * 2)
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with functions of a user."""
    (tmp_path / "functions_of_a_pipeline.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import functions_of_a_pipeline  # type: ignore[import-not-found]  # pyright: ignore

    yield functions_of_a_pipeline
    del sys.modules["functions_of_a_pipeline"]


def produce(topic: Topic, *values: str) -> None:
    """Append records whose keys are Brest."""
    topic.client.produce(topic.partition(0), [NewRecord(value.encode(), b"Brest") for value in values])


def test_a_pipeline_decodes_and_chooses_rows_until_a_function_raises(
    spark: SparkSession, shared_tidelog: str, tmp_path: Path, functions: Any
) -> None:
    reports: list[Report] = []
    sender = NewsSender(tmp_path / "news")
    listener = ProgressListener(reports.append)
    spark.streams.addListener(listener)
    with new_topic(shared_tidelog) as topic:
        pipeline = Pipeline(
            name="tides",
            topics=(topic.name, "is-not-there"),
            source_options={"kafka.bootstrap.servers": topic.bootstrap, "startingOffsets": "earliest"},
            key=Decoding(format="string"),
            value=Decoding(format="json", schema="metres DOUBLE, at STRUCT<hour: INT>"),
            where="value.metres IS NOT NULL",
            select=("key", "value.metres AS metres", "value.at.hour"),
            transform="functions_of_a_pipeline:doubled",
            output=Output(foreach_batch="functions_of_a_pipeline:collect"),
            checkpoint=str(tmp_path / "checkpoint"),
        )
        produce(topic, '{"metres": 4.5, "at": {"hour": 7}}', "no JSON", '{"metres": 1}')
        query = start_query(spark, pipeline, tmp_path / "news")
        wait_until(lambda: len(functions.rows) == 2, "the first rows")
        assert functions.rows == [("Brest", 9.0, 7), ("Brest", 2.0, None)]
        wait_until(lambda: bool(reports), "the report")
        assert (reports[0].batch, reports[0].batch_rows) == (0, 3)
        assert reports[0].position is not None
        assert reports[0].position[topic.name] == {"0": 3}

        produce(topic, '{"metres": 6.5}')
        sender.send()
        with pytest.raises(Exception, match="no tide") as raised:
            query.awaitTermination(int(DEADLINE_S))
        assert explain(raised.value) == "ValueError: no tide is that high"
    spark.streams.removeListener(listener)
    sender.close()
