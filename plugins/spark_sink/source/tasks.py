"""Input partitions, and what the readers of batch and streaming queries have in common."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.errors import report_data_loss
from tidelog.plugins.spark_sink.source.local_log import PartitionDirectory, find_local_log
from tidelog.plugins.spark_sink.source.options import SourceOptions
from tidelog.plugins.spark_sink.source.reading import read_range

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets
    from tidelog.plugins.spark_sink.source.prefetching import Prefetcher

log = logging.getLogger(__name__)


class RangeTask(InputPartition):
    """A range of offsets, and the directory of its log where that may be read on the same host."""

    def __init__(self, wanted: OffsetRange, local_log: PartitionDirectory | None) -> None:
        self.wanted = wanted
        self.local_log = local_log


class SmallBatchTask(InputPartition):
    """All ranges of a small micro-batch, whose rows Spark usually got with the plan.

    Where it did not, or where those are lost with the executor that kept them, the task reads the ranges.
    """

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self.ranges = ranges


class RangeReader:
    """Plans and reads ranges; a pickled copy of it is read in the processes of tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._log_offsets: LogOffsets | None = None
        self._prefetcher: Prefetcher | None = None

    @property
    def log_offsets(self) -> LogOffsets:
        """The driver's connections, made at the first use."""
        if self._log_offsets is None:
            # Like all that only the driver needs, not at the top: each task imports this module.
            from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets

            self._log_offsets = LogOffsets(self.options)
        return self._log_offsets

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_log_offsets": None, "_prefetcher": None}

    def close(self) -> None:
        """Close the driver's connections."""
        if self._log_offsets is not None:
            self._log_offsets.close()
            self._log_offsets = None
        if self._prefetcher is not None:
            self._prefetcher.close()
            self._prefetcher = None

    def on_loss(self, message: str) -> None:
        """Report what is gone.

        Raises:
            DataLost: the query is to fail then.
        """
        report_data_loss(message, fail=self.options.fail_on_data_loss)

    def is_small(self, ranges: Iterable[OffsetRange]) -> bool:
        """Return whether one task is to have all ranges of a micro-batch.

        That depends on nothing else than ranges and options: a micro-batch that Spark repeats after a kill
        has to have the same tasks, by which a writer knows what it has written.
        """
        if self.options.min_partitions is not None or self.options.max_records_per_task is not None:
            return False
        return 0 < sum(each.size for each in ranges) <= self.options.prefetch_offsets

    def prefetched(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        """Return what `Prefetcher.rows` does."""
        if self._prefetcher is None:
            from tidelog.plugins.spark_sink.source.prefetching import Prefetcher

            self._prefetcher = Prefetcher(self.options)
        return self._prefetcher.rows(ranges)

    def tasks(self, ranges: Iterable[OffsetRange]) -> list[RangeTask]:
        """Return the tasks that read the ranges."""
        from tidelog.plugins.spark_sink.source.planning import tasks_for

        tasks = tasks_for(ranges, self.options.min_partitions, self.options.max_records_per_task)
        local = self._local_starts(tasks) if self.options.local_log_dirs else {}
        return [RangeTask(each, self._local_log(each, local)) for each in tasks]

    def read(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        # Without any task Spark runs one with an input partition of its own.
        if isinstance(task, SmallBatchTask):
            for wanted in task.ranges:
                yield from read_range(self.options, wanted)
        elif isinstance(task, RangeTask):
            yield from read_range(self.options, task.wanted, task.local_log)

    def _local_starts(self, tasks: Iterable[OffsetRange]) -> dict[TopicPartition, int]:
        """Return the log start offsets of the partitions that are there; with their topics' ids as of now."""
        existing = self.log_offsets.partitions()
        try:
            return self.log_offsets.earliest({task.partition for task in tasks} & existing)
        except ClientError as error:
            # A topic was deleted just now, or its leader is gone: tasks have more time for that.
            log.warning("segment files are not read by the tasks of this micro-batch: %s", error)
            return {}

    def _local_log(
        self, wanted: OffsetRange, log_starts: dict[TopicPartition, int]
    ) -> PartitionDirectory | None:
        """Return the directory to read, None if there is none or if it may have records that were deleted."""
        if log_starts.get(wanted.partition, wanted.stop) > wanted.start:
            return None
        topic_id = wanted.topic_id or self.log_offsets.topic_id(wanted.partition.topic)
        return find_local_log(self.options.local_log_dirs, wanted.partition, topic_id)
