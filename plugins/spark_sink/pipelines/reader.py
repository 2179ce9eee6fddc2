"""The source of a pipeline: that of the format `tidelog`, which waits for news instead of polling.

Two things are different. A topic need not exist: it is read from its beginning when it comes. And a topic
that was deleted and created again is another one: a position has one more field, `$topics`, with their ids.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.pipelines.news import NewsReceiver
from tidelog.plugins.spark_sink.source.options import SourceOptions, parse_options
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader

log = logging.getLogger(__name__)

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topicsRegex"
NEWS: Final = "news"
_OWN: Final = (TOPICS, TOPICS_REGEX, NEWS)
"""Options that only this source has."""
_IDS: Final = "$topics"
"""No topic can have this name."""
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
        self._first: dict[str, Any] | None = None
        self._nothing_after: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the pipeline begins, the same every time."""
        if self._first is None:
            self._first = self._with_ids(super().initialOffset())
        return self._first

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends; wait a moment if the last call with this start had none."""
        has_news = self._news.wait(_WAIT_S if start == self._nothing_after else 0)
        # A micro-batch may also begin because time has passed: the broker is asked then.
        is_idle = start == self._nothing_after and not has_news and self.options.min_offsets is None
        if self._news.stopping or is_idle:
            return start
        offsets, ids = _without_ids(start)
        latest = super().latestOffset(offsets, limit)
        same = _of_same_topics(offsets, ids, self._ids(offsets))
        if same != offsets:
            latest = super().latestOffset(same, limit)
        if latest == offsets:
            self._nothing_after = start
            return start
        self._nothing_after = None
        return self._with_ids(latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        """Return the tasks of a micro-batch; topics that were created again are new ones."""
        (begin, begin_ids), (stop, stop_ids) = _without_ids(start), _without_ids(end)
        return super().partitions(_of_same_topics(begin, begin_ids, stop_ids), stop)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the position for the group of the options, if there is one."""
        super().commit(_without_ids(end)[0])

    def stop(self) -> None:
        """Close the connections and the pipe of news."""
        super().stop()
        self._news.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks only read.
        return {name: value for name, value in self.__dict__.items() if name != "_news"}

    def _ids(self, offsets: Mapping[str, Any]) -> dict[str, str]:
        """Return the ids that the broker has for the topics of a position."""
        found = {topic: self._ranges.log_offsets.topic_id(topic) for topic in offsets}
        return {topic: str(each) for topic, each in found.items() if each is not None}

    def _with_ids(self, offsets: dict[str, Any]) -> dict[str, Any]:
        return {**offsets, _IDS: self._ids(offsets)}


def _without_ids(position: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, str]]:
    offsets = dict(position)
    return offsets, offsets.pop(_IDS, {})


def _of_same_topics(
    offsets: dict[str, Any], ids: Mapping[str, str], now: Mapping[str, str]
) -> dict[str, Any]:
    """Return the offsets without those of topics that have another id now."""
    other = {topic for topic in ids if topic in now and now[topic] != ids[topic]}
    for topic in sorted(other & offsets.keys()):
        log.warning("topic %s was created again: it is read from its beginning", topic)
    return {topic: each for topic, each in offsets.items() if topic not in other}
