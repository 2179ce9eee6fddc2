"""`spark.read.format("tidelog")`: the records between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.options import SourceOptions
from tidelog.plugins.spark_sink.source.tasks import RangeReader

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Resolves the limits of a batch query once, when Spark plans it."""

    def __init__(self, options: SourceOptions) -> None:
        self._ranges = RangeReader(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks.

        Raises:
            InvalidOption: the query begins after its end.
            DataLost: what it is to read is gone.
            ClientError: no broker answered.
        """
        try:
            return self._ranges.tasks(self._offset_ranges())
        finally:
            self._ranges.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        return self._ranges.read(partition)

    def _offset_ranges(self) -> list[OffsetRange]:
        options, log = self._ranges.options, self._ranges.log_offsets
        starts, stops = log.resolve(options.start), log.resolve(options.end)
        latest = log.latest()
        found: list[OffsetRange] = []
        for partition in sorted(starts.keys() & stops.keys()):
            start, stop = starts[partition], stops[partition]
            if start > stop:
                raise InvalidOption(
                    f"{partition} is to be read from offset {start} ({options.start.option}) to {stop} "
                    f"({options.end.option}), which is below it"
                )
            end = latest.get(partition, 0)
            if stop > end:
                self._ranges.on_loss(
                    f"{partition} is to be read to offset {stop} ({options.end.option}), and ends at {end}"
                )
                stop = max(start, end)
            found.append(OffsetRange(partition, start, stop, log.topic_id(partition.topic)))
        return found
