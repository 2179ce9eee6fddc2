"""Rows of small micro-batches, read by the driver while it plans them.

A task has a Python process of its own, which connects, requests metadata and fetches for however few records.
The driver is connected already: it fetches a small range while it plans. Spark gets the rows with the plan,
and its tasks read them in the JVM. It takes rows only of readers of a class of its own, so a `HandsOverRows`
claims to be of that class while it has some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql import datasource_internal

from tidelog.plugins.client import FetchLimits, RetryPolicy, or_raise
from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.fetching import fetch_partitions
from tidelog.plugins.spark_sink.rows import rows_of
from tidelog.plugins.spark_sink.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.fetched import Fetched
    from tidelog.plugins.spark_sink.ranges import OffsetRange

_ROWS_READER: Final[Any] = getattr(datasource_internal, "_SimpleStreamReaderWrapper", None)
"""The class is not public: with a Spark that has it no more, tasks read all micro-batches."""
MOST_BYTES: Final = 512 * 1024
"""Of the rows of a micro-batch, and of one response: the driver plans nothing else while it reads them."""


class HandsOverRows:
    """A stream reader that may have the rows of a micro-batch which it has planned."""

    _rows: Sequence[pa.RecordBatch] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - it cannot be set
        return type(self) if self._rows is None else _ROWS_READER

    def getCache(self, _start: dict[str, Any], _end: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: N802
        """Return the rows of the micro-batch that was planned last; Spark's name, and called once."""
        rows, self._rows = self._rows, None
        return iter(rows or ())


class Prefetcher:
    """Reader of small micro-batches in the driver, which keeps its connections from one to the next.

    It holds nothing else: each call fetches the ranges that it is called with.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._limits = FetchLimits(MOST_BYTES, max_wait_ms=0, read_committed=options.read_committed)
        # What fails is left to tasks, which have the time to try again.
        settings = attrs.evolve(options.client, retry=RetryPolicy(retries=0))
        self._client = BlockingDriver(options.bootstrap_servers, settings=settings)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def rows(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch] | None:
        """Return the rows of all ranges.

        None if a task is to fetch them: they are too many bytes, or something failed or is missing, which the
        task reports.
        """
        if _ROWS_READER is None:
            return None
        try:
            return self._read(ranges)
        except (ClientError, _NotSmall):
            return None

    def _read(self, ranges: Sequence[OffsetRange]) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        size = 0
        pending = {each.partition: each for each in ranges}
        while pending:
            positions = {partition: rest.start for partition, rest in pending.items()}
            outcomes = self._client.run(fetch_partitions, positions, self._limits)
            for each in pending.values():
                if each.is_of_other_topic(self._client.topic_id(each.partition.topic)):
                    raise _NotSmall
            for partition, fetched in or_raise(outcomes).items():
                for rows in self._rows(fetched, pending[partition]):
                    found.append(rows)
                    size += rows.nbytes
                    if size > MOST_BYTES:
                        raise _NotSmall
                _advance(pending, partition, fetched)
            if positions == {partition: rest.start for partition, rest in pending.items()}:
                raise _NotSmall  # a gap at the end of the log, or a broker that reads remote storage
        return found

    def _rows(self, fetched: Fetched, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        batches = (each for each in fetched.committed_batches() if each[0].base_offset < wanted.stop)
        for rows in rows_of(batches, wanted, include_headers=self._options.include_headers):
            if rows.num_rows:
                yield rows


class _NotSmall(Exception):
    """The rows have too many bytes, or are not to be had at once."""


def _advance(pending: dict[TopicPartition, OffsetRange], partition: TopicPartition, fetched: Fetched) -> None:
    rest = attrs.evolve(pending[partition], start=fetched.next_offset())
    if rest.start >= rest.stop:
        del pending[partition]
    else:
        pending[partition] = rest
