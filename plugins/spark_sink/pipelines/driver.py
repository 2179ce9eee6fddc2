"""The process of one pipeline: `python -m tidelog.plugins.spark_sink.pipelines.driver FOLDER`.

It gets the pipeline and then commands on its standard input, and reports on its standard output (`reports`).
FOLDER is for its temporary files, and is gone afterwards. With the JVM that it starts it is a process group,
which ends with it: also when the broker has died, which it sees by the end of its input.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from tidelog.kernel.config.paths import scheme_of
from tidelog.plugins.spark_sink.environment import prepare_spark, start_context
from tidelog.plugins.spark_sink.pipelines.definition import Pipeline
from tidelog.plugins.spark_sink.pipelines.news_pipe import STOP as STOP_SOURCE
from tidelog.plugins.spark_sink.pipelines.news_pipe import NewsSender
from tidelog.plugins.spark_sink.pipelines.reports import STOP, Report, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_FILE_SCHEME: Final = re.compile(r"^file:(//)?(?=/)")
_POLL_S: Final = 0.05
"""How often the end of the last micro-batch is looked for."""


class Driver:
    """The query of a pipeline, and what controls it; commands are obeyed in a thread of their own."""

    def __init__(self, folder: Path, commands: TextIO, reports: TextIO) -> None:
        self._folder = folder
        self._commands = commands
        self._reports = reports
        self._reporting = threading.Lock()
        self._query: StreamingQuery | None = None
        self._news = NewsSender(folder / "news")

    def run(self) -> int:
        """Run the pipeline until it is stopped or fails; return the exit code."""
        try:
            pipeline = Pipeline.from_text(self._commands.readline())
            threading.Thread(target=self._obey, name="commands", daemon=True).start()
            os.nice(pipeline.nice)
            self._run(pipeline)
        except (Exception, SystemExit) as error:
            self.report(Report("failed", error=explain(error)))
            return 1
        return 0

    def report(self, report: Report) -> None:
        """Write a report, from any thread."""
        with self._reporting, suppress(BrokenPipeError):
            self._reports.write(report.to_line())
            self._reports.flush()

    def _run(self, pipeline: Pipeline) -> None:
        self.report(Report("starting", position=delivered_position(pipeline.checkpoint)))
        spark = self._session(pipeline)
        # Not at the top: it needs the environment that is made above.
        from tidelog.plugins.spark_sink.pipelines.query import ProgressListener, start_query

        spark.streams.addListener(ProgressListener(self.report))
        self._query = start_query(spark, pipeline, self._folder / "news")
        self.report(Report("running"))
        self._query.awaitTermination()

    def _session(self, pipeline: Pipeline) -> SparkSession:
        folders = [*pipeline.python_path, str(Path.cwd())]
        sys.path[:0] = [folder for folder in folders if folder not in sys.path]
        # Python's workers import the user's modules, too.
        known = [path for path in [os.environ.get("PYTHONPATH")] if path]
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *known])
        prepare_spark()
        from pyspark.sql import SparkSession

        defaults = {"spark.local.dir": str(self._folder)}
        settings: dict[str, Any] = {**defaults, **pipeline.spark_conf}
        start_context(settings)
        return SparkSession.builder.config(map=settings).getOrCreate()

    def _obey(self) -> None:
        for line in self._commands:
            if json.loads(line) == STOP:
                self._stop()
                return
            self._news.send()
        self._end()

    def _stop(self) -> None:
        """End the query after its micro-batch."""
        query = self._query
        if query is None:
            self._end()
            return
        self.report(Report("stopping"))
        # Before the wait: the source begins no further micro-batch from here on.
        self._news.send(STOP_SOURCE)
        while query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"]:
            time.sleep(_POLL_S)
        query.stop()

    def _end(self) -> None:
        """End at once, with all processes: their results are not needed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def delivered_position(checkpoint: str) -> dict[str, Any] | None:
    """Return the position of the last complete micro-batch in a checkpoint, None if there is none to be read.

    A checkpoint elsewhere than in a folder of this machine is not read: the position is for statistics alone.
    """
    local = _FILE_SCHEME.sub("", checkpoint)
    if scheme_of(local) is not None:
        return None
    folder = Path(local)
    try:
        done = max(_numbers(folder / "commits"))
        position = json.loads((folder / "offsets" / str(done)).read_text().splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return None
    return position if isinstance(position, dict) else None


def _numbers(folder: Path) -> Iterable[int]:
    return [int(each.name) for each in folder.iterdir() if each.name.isdecimal()]


def main() -> int:
    """Run the pipeline of the standard input."""
    # What Spark or the user's functions print is for the broker's log, not among the reports.
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return Driver(Path(sys.argv[1]), sys.stdin, reports).run()


if __name__ == "__main__":
    # Threads of Spark would delay the end; the broker ends what is left of the process group.
    code = main()
    sys.stderr.flush()
    os._exit(code)
