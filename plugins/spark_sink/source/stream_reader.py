"""`spark.readStream.format("tidelog")`: micro-batches of committed records.

The position of a query is a JSON object of offsets by topic and partition, with the ids of the topics
(`query_position`). That of the first micro-batch has one more field, `$start`: where that batch begins. Spark
stores only where batches end, and asks for the initial offset again if it has to repeat the first one, when
the logs have new ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.option_values import warn_of_options
from tidelog.plugins.spark_sink.source.options import SourceOptions
from tidelog.plugins.spark_sink.source.planning import limited, new_offsets, ranges_between
from tidelog.plugins.spark_sink.source.positions import to_json
from tidelog.plugins.spark_sink.source.prefetching import HandsOverRows
from tidelog.plugins.spark_sink.source.query_position import NOWHERE, QueryPosition
from tidelog.plugins.spark_sink.source.tasks import RangeReader, SmallBatchTask

if TYPE_CHECKING:
    import pyarrow as pa

_START: Final = "$start"
"""No topic can have this name."""


class StreamReader(HandsOverRows, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions and tasks of a streaming query; one object lives as long as the query, in one process."""

    def __init__(self, options: SourceOptions, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ranges = RangeReader(options)
        self.options = options
        self._now_s = now_s
        self._initial: dict[str, Any] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._target: QueryPosition | None = None
        self._last_batch_s: float | None = None
        self._has_warned = False
        self._committed: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the query begins, the same every time."""
        if self._initial is None:
            log = self._ranges.log_offsets
            self._initial = QueryPosition(log.resolve(self.options.start), log.topic_ids()).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limits that the options set."""
        # Spark makes another reader, for tasks alone; this method is only called of the one that plans.
        if not self._has_warned:
            self._has_warned = True
            warn_of_options(self.options.without_effect)
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.min_offsets is not None:
            return ReadMinRows(self.options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Store the ends of the logs, which are the end of the query."""
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends, `start` itself if there is nothing new or not enough.

        Spark calls it when the micro-batch that ends at `start` is finished.

        Raises:
            DataLost: a topic is gone or was created again, and that is to fail the query.
            ClientError: no broker answered.
        """
        self.note_finished(start)
        is_first = start == self._initial
        stored = QueryPosition.from_json(start)
        ends = self._ends(stored) if self._target is None else self._target
        position = self._in_same_topics(stored, ends)
        latest = self._latest = dict(ends.offsets)
        if not isinstance(limit, ReadAllAvailable):
            new = self._ranges.log_offsets.earliest(latest.keys() - position.offsets.keys())
            begin = {**new, **position.offsets}
            if not is_first and self._has_to_wait(new_offsets(begin, latest)):
                return start
            if isinstance(limit, ReadMaxRows):
                latest = limited(limit.max_rows, begin, latest)
        end = attrs.evolve(ends, offsets=latest).to_json()
        if is_first:
            return {_START: start, **end}
        return start if latest == stored.offsets and position is stored else end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the logs as of the last micro-batch, for the query's progress."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch.

        Raises:
            DataLost: what it is to read is gone.
            ClientError: no broker answered.
        """
        is_first = _START in end and start != end
        stop = QueryPosition.from_json(end)
        begin = QueryPosition.from_json(end[_START] if is_first else start)
        # A topic that was created again is a new one; that was reported when the micro-batch was planned.
        begin = begin.without(begin.recreated(stop.topic_ids))
        new = self._ranges.log_offsets.earliest(stop.offsets.keys() - begin.offsets.keys())
        ranges = ranges_between(begin.offsets, stop, new, self._ranges.on_loss)
        self._rows = None
        if self._ranges.is_small(ranges):
            rows = self._ranges.prefetched(ranges)
            self._rows = rows or None
            return [] if rows == [] else [SmallBatchTask(ranges)]
        return self._ranges.tasks(ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return self._ranges.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the position for the group of the options, if there is one: only tools read that.

        Spark calls it when the next micro-batch is planned, so never for the last one of a query that ends.
        """
        if self.options.group is not None and end != self._committed:
            self._committed = end
            offsets = QueryPosition.from_json(end).offsets
            self._ranges.log_offsets.commit(self.options.group, offsets)

    def stop(self) -> None:
        """Close the connections."""
        self._ranges.close()

    def note_finished(self, position: dict[str, Any]) -> None:
        """Commit the position of a finished micro-batch as `commit` does, but not where the query begins."""
        if position != self._initial:
            self.commit(position)

    def on_recreated(self, topics: Sequence[str]) -> None:
        """Report topics that were deleted and created again: they are read from their log start offsets.

        Raises:
            DataLost: that is to fail the query.
        """
        for topic in topics:
            self._ranges.on_loss(f"topic {topic!r} was deleted and created again")

    def _ends(self, known: QueryPosition = NOWHERE) -> QueryPosition:
        """Return the ends of the logs now."""
        latest = self._ranges.log_offsets.latest(known)
        return QueryPosition(latest, self._ranges.log_offsets.topic_ids())

    def _in_same_topics(self, position: QueryPosition, now: QueryPosition) -> QueryPosition:
        """Return a position without the topics that were created again, itself if there are none."""
        topics = position.recreated(now.topic_ids)
        if not topics:
            return position
        self.on_recreated(topics)
        return position.without(topics)

    def _has_to_wait(self, available: int) -> bool:
        """Return whether there is too little for a micro-batch, and the last one was not long ago."""
        now_s, last_s = self._now_s(), self._last_batch_s
        is_recent = last_s is not None and (now_s - last_s) * 1000 < self.options.max_trigger_delay_ms
        if self._target is None and is_recent and available < (self.options.min_offsets or 0):
            return True
        self._last_batch_s = now_s
        return False
