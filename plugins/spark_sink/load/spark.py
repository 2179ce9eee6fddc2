"""The Spark of a load: its session, and the writing of chunks."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as f

from tidelog.plugins.spark_sink.environment import prepare_spark, start_context
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import Chunk
from tidelog.plugins.spark_sink.load.request import LoadRequest
from tidelog.plugins.spark_sink.source.positions import to_json

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"
SETTINGS: Final = {
    # With one attempt, the default of a local Spark, a task that fails once fails the load.
    "spark.master": "local[*,4]",
    "spark.app.name": "tidelog load",
    "spark.ui.enabled": "false",
    # A machine that is busy starts Python workers in more than the default of 15 s.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default, INT96, is deprecated and has no statistics, by which readers leave out files.
    _TIMESTAMPS: "TIMESTAMP_MICROS",
}
"""Settings of a session that is started for a load, unless the user has others."""
_POLL_S: Final = 0.5
_DERIVED: Final = {"date": f.to_date, "hour": f.hour}
"""Columns that only exist if something is partitioned by them: made of the timestamp."""
_PYTHON_ERROR: Final = re.compile(r"^\s*tidelog\.plugins\.[\w.]+: (.+)", re.MULTILINE)

_CALL: Final = "An error occurred while calling"
_JAVA_CLASS: Final = re.compile(r"^: [\w.$]+: ")


@contextmanager
def spark_session(given: Mapping[str, str], log: Path) -> Generator[SparkSession]:
    """Yield the active session, or one that is started for the load; its JVM's output is appended to `log`.

    Raises:
        JavaNotFound: there is no Java that Spark runs on.
        LoadFailed: Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        with _file_settings(active, given):
            yield active
        return
    prepare_spark()
    with log.open("ab") as output:
        try:
            context = start_context({**SETTINGS, **given}, output)
        except Exception as error:
            raise LoadFailed(f"Spark does not start; the end of {log} says why.") from error
    session = SparkSession(context)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _file_settings(spark: SparkSession, given: Mapping[str, str]) -> Generator[None]:
    """Set how timestamps are written by a session that is not the load's own, until the block ends."""
    before = str(spark.conf.get(_TIMESTAMPS))
    spark.conf.set(_TIMESTAMPS, given.get(_TIMESTAMPS, SETTINGS[_TIMESTAMPS]))
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMPS, before)


class SparkChunks:
    """Writes chunks with a session, one task for each range of a partition."""

    def __init__(self, spark: SparkSession, request: LoadRequest, bootstrap: str, task_records: int) -> None:
        self._spark = spark
        self._request = request
        self._options = {**request.options(bootstrap), "maxRecordsPerPartition": str(task_records)}

    def read_with(self, **options: str) -> None:
        """Set more options of the source, such as `localLogDirs`: they change neither records nor files."""
        self._options |= options

    def write(self, chunk: Chunk, folder: Path, on_progress: Callable[[float], None]) -> int:
        """Write the records of a chunk into a new folder, and return how many there are.

        Raises:
            LoadFailed: a task failed at each of its attempts, or the request does not fit the format.
        """
        counted = Observation()
        try:
            frame = self._columns(self._frame(chunk)).observe(counted, f.count(f.lit(1)).alias("records"))
            writer = frame.write.format(self._request.format).options(**self._request.write_options)
            with self._watched(on_progress):
                # As text with its scheme: what has none is looked for in Hadoop's default file system.
                writer.partitionBy(*self._request.partition_by).save(f"file://{folder}")
        except Exception as error:
            if not _is_of_spark(error):
                raise
            raise LoadFailed(f"Spark cannot write the files: {failure_text(error)}") from error
        return int(counted.get["records"])

    def _frame(self, chunk: Chunk) -> DataFrame:
        assigned: defaultdict[str, list[int]] = defaultdict(list)
        for each in chunk:
            assigned[each.partition.topic].append(each.partition.partition)
        limits = {
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(to_json({each.partition: each.start for each in chunk})),
            "endingOffsets": json.dumps(to_json({each.partition: each.stop for each in chunk})),
        }
        return self._spark.read.format("tidelog").options(**self._options, **limits).load()

    def _columns(self, frame: DataFrame) -> DataFrame:
        """Return the columns to write: those of `select`, and what files are partitioned by."""
        for name, derive in _DERIVED.items():
            frame = frame.withColumn(name, derive("timestamp"))
        chosen = list(self._request.select) or [name for name in frame.columns if name not in _DERIVED]
        there = frame.selectExpr(*chosen).columns
        wanted = [name for name in self._request.partition_by if name not in there and name in frame.columns]
        return frame.selectExpr(*chosen, *wanted)

    @contextmanager
    def _watched(self, on_progress: Callable[[float], None]) -> Generator[None]:
        """Report the share of tasks that have ended, until the block ends."""
        context, group, ended = self._spark.sparkContext, uuid.uuid4().hex, threading.Event()
        context.setJobGroup(group, "tidelog load")
        watcher = threading.Thread(target=_watch, args=(context, group, ended, on_progress), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def failure_text(error: BaseException) -> str:
    """Return the sentence in what Spark raised: that of a task's own error, or its first line."""
    text = str(error)
    own = _PYTHON_ERROR.search(text)
    if own is not None:
        return own[1].strip()
    lines = [_JAVA_CLASS.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(_CALL)), type(error).__name__)


def _is_of_spark(error: Exception) -> bool:
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def _watch(
    context: SparkContext, group: str, ended: threading.Event, on_progress: Callable[[float], None]
) -> None:
    tracker: Any = context.statusTracker()
    while not ended.wait(_POLL_S):
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
        tasks = sum(stage.numTasks for stage in stages if stage)
        if tasks:
            on_progress(sum(stage.numCompletedTasks for stage in stages if stage) / tasks)
