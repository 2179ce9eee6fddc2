"""Reports of what a query has done, from Spark's own events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.plugins.spark_sink.pipelines.reports import Report


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
