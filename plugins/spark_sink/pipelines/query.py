"""The query of a pipeline, made of its definition: reading, decoding, choosing, writing; and its progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.spark_sink.pipelines.definition import Decoding, Pipeline
from tidelog.plugins.spark_sink.pipelines.reader import NEWS, TOPICS, TOPICS_REGEX, PipelineDataSource
from tidelog.plugins.spark_sink.pipelines.reports import Report

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class InvalidFunction(TidelogError):
    """A function that the configuration names is not there, or returns something else than it should."""


def start_query(spark: SparkSession, pipeline: Pipeline, news: Path) -> StreamingQuery:
    """Start the query; its source learns of news from the named pipe `news`.

    Raises:
        InvalidFunction: the function of the user cannot be used.
        Exception: what Spark, or the module or function of the user raises.
    """
    rows = _chosen(_decoded(_read(spark, pipeline, news), pipeline), pipeline)
    output = pipeline.output
    writer = (
        rows.writeStream.queryName(pipeline.name)
        .outputMode(output.mode)
        .options(**output.options)
        .option("checkpointLocation", pipeline.checkpoint)
        .trigger(processingTime=f"{pipeline.trigger_interval_ms} milliseconds")
    )
    if output.foreach_batch is not None:
        return writer.foreachBatch(function_of(output.foreach_batch)).start()
    if output.partition_by:
        writer = writer.partitionBy(*output.partition_by)
    if output.path is not None:
        writer = writer.option("path", output.path)
    return writer.format(output.format).start()


def function_of(name: str) -> Callable[..., Any]:
    """Return the function `module:function`.

    Raises:
        InvalidFunction: the module has no such function.
        Exception: what importing the module raises.
    """
    module_name, _, path = name.partition(":")
    found: Any = import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidFunction(f"{name}: the module {module_name} has no function {path}")
    made: Callable[..., Any] = found
    return made


def _read(spark: SparkSession, pipeline: Pipeline, news: Path) -> DataFrame:
    spark.dataSource.register(PipelineDataSource)
    options = {**pipeline.source_options, TOPICS: ",".join(pipeline.topics), NEWS: str(news)}
    if pipeline.topics_regex is not None:
        options[TOPICS_REGEX] = pipeline.topics_regex
    return spark.readStream.format(PipelineDataSource.name()).options(**options).load()


def _decoded(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    mode = {"null": "PERMISSIVE", "fail": "FAILFAST"}[pipeline.malformed_json]
    for name, decoding in (("key", pipeline.key), ("value", pipeline.value)):
        rows = rows.withColumn(name, _decode(name, decoding, mode))
    return rows


def _decode(name: str, decoding: Decoding, mode: str) -> Any:
    if decoding.format == "binary":
        return sql.col(name)
    text = sql.col(name).cast("string")
    if decoding.schema is None:
        return text
    return sql.from_json(text, decoding.schema, {"mode": mode})


def _chosen(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    if pipeline.where is not None:
        rows = rows.where(pipeline.where)
    if pipeline.select:
        rows = rows.selectExpr(*pipeline.select)
    if pipeline.transform is None:
        return rows
    made = function_of(pipeline.transform)(rows)
    if not isinstance(made, DataFrame):
        raise InvalidFunction(f"{pipeline.transform} has to return a DataFrame, not {made!r}")
    return made


class ProgressListener(StreamingQueryListener):
    """Reports each micro-batch; Spark calls it in a thread of its own."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing: the query is reported by what has started it."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Report the micro-batch that has ended."""
        progress = event.progress
        (source,) = progress.sources
        self._report(
            Report(
                "running",
                position=json.loads(source.endOffset) if source.endOffset else None,
                batch=progress.batchId,
                batch_rows=progress.numInputRows,
                batch_ms=progress.durationMs.get("triggerExecution"),
                batch_time=progress.timestamp,
            )
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing: what waits for the query reports its end."""
