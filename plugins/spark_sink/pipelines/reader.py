"""The source of a pipeline: that of the format `tidelog`, which waits for news instead of polling.

Two more things are different. A topic need not exist: it is read from its beginning when it comes. And a
topic that was deleted and created again fails no pipeline: it is read from its beginning, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.pipelines.news_pipe import NewsReceiver
from tidelog.plugins.spark_sink.source.options import SourceOptions, parse_options
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader

log = logging.getLogger(__name__)

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topicsRegex"
NEWS: Final = "news"
_OWN: Final = (TOPICS, TOPICS_REGEX, NEWS)
"""Options that only this source has."""
_WAIT_S: Final = 1.0
"""How long a call of Spark is kept waiting: with the query's thread in it, Spark can do nothing else."""

_compiled = cache(compile_regex)


@attrs.frozen
class ExistingTopics:
    """All partitions of the topics that exist, of those named, or of those whose whole name matches."""

    names: frozenset[str]
    regex: str | None
    topics: None = None

    def matches(self, partition: TopicPartition) -> bool:
        """Return whether a partition is read."""
        if self.regex is None:
            return partition.topic in self.names
        expression: Regex = _compiled(self.regex)
        return expression.fullmatch(partition.topic)


class PipelineDataSource(TidelogDataSource):
    """The format by which a pipeline reads; its options are those of `tidelog`, and `_OWN` ones."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tidelog-pipeline"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of the pipeline's query."""
        given = {name.lower(): text for name, text in self.options.items()}
        topics, regex, news = (given.pop(name.lower(), "") for name in _OWN)
        parsed = parse_options({**given, "subscribe": "-"}, streaming=True)
        wanted = ExistingTopics(frozenset(topics.split(",")), regex or None)
        return PipelineReader(attrs.evolve(parsed, subscription=wanted), Path(news))


class PipelineReader(StreamReader):
    """Positions and tasks of a pipeline."""

    def __init__(self, options: SourceOptions, news: Path) -> None:
        super().__init__(options)
        self._news = NewsReceiver(news)
        self._nothing_after: dict[str, Any] | None = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends; wait a moment if the last call with this start had none."""
        self.note_finished(start)
        has_news = self._news.wait(_WAIT_S if start == self._nothing_after else 0)
        # A micro-batch may also begin because time has passed: the broker is asked then.
        is_idle = start == self._nothing_after and not has_news and self.options.min_offsets is None
        if self._news.stopping or is_idle:
            return start
        latest = super().latestOffset(start, limit)
        self._nothing_after = start if latest == start else None
        return latest

    def on_recreated(self, topics: Sequence[str]) -> None:
        """Log it: what a name stands for may change while a pipeline runs for years."""
        for topic in topics:
            log.warning("topic %s was created again: it is read from its beginning", topic)

    def stop(self) -> None:
        """Close the connections and the pipe of news."""
        super().stop()
        self._news.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read.
        return {name: value for name, value in self.__dict__.items() if name != "_news"}
