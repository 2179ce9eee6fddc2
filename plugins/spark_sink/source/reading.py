"""Reading a range of offsets in a task, from the broker or from its files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
from tidelog.plugins.client.errors import ErrorResponse, RequestTimedOut
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.offsets import list_offsets
from tidelog.plugins.client.operations.reading import PartitionReader
from tidelog.plugins.client.operations.sending import or_raise
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.rows import rows_of
from tidelog.plugins.spark_sink.source.errors import report_data_loss
from tidelog.plugins.spark_sink.source.local_log import PartitionDirectory, SegmentFilesReader
from tidelog.plugins.spark_sink.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.plugins.client import FetchedBatch

_CREATED_AGAIN: Final = "its topic was deleted and created again"


def read_range(
    options: SourceOptions, wanted: OffsetRange, local_log: PartitionDirectory | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, in the order of their offsets.

    What fails for a while is repeated until `poll_timeout_s` have passed: a task that fails also fails the
    query, where Spark has only one attempt for each.

    Raises:
        DataLost: records of the range are gone, and that is to fail the query.
        ClientError: no broker answered in time, or what it sent is malformed.
    """
    if local_log is not None:
        local = SegmentFilesReader(local_log, wanted, read_committed=options.read_committed)
        yield from rows_of(local.batches(), wanted, include_headers=options.include_headers)
        wanted = attrs.evolve(wanted, start=local.position)
    if wanted.start < wanted.stop:
        with BlockingDriver(options.bootstrap_servers, settings=options.task_client) as client:
            remote = _RemoteLog(client, options, wanted)
            while not remote.finished:
                yield from rows_of(remote.batches(), remote.rest, include_headers=options.include_headers)


class _RemoteLog:
    """Reader of a range by fetch requests, which reports what is lost."""

    def __init__(self, client: BlockingDriver, options: SourceOptions, wanted: OffsetRange) -> None:
        self._client = client
        self._options = options
        self._wanted = wanted
        self._reader = PartitionReader(wanted.partition, wanted.start, wanted.stop, options.fetch)
        self._waited_s = 0.0

    @property
    def finished(self) -> bool:
        """Whether all of the range that is there has been read."""
        return self._reader.finished

    @property
    def rest(self) -> OffsetRange:
        """The range from the next offset on."""
        return attrs.evolve(self._wanted, start=self._reader.position)

    def batches(self) -> Iterator[FetchedBatch]:
        """Yield the data batches of `rest`, up to the end of the range or to offsets that are lost.

        A batch may also have records before `rest`; if some were lost just there, they are among these.
        """
        while not self.finished:
            before, since_s = self._reader.position, time.monotonic()
            try:
                found = self._client.run(self._reader.poll_batches)
            except (ErrorResponse, RequestTimedOut) as error:
                self._skip_lost(error)
                return
            if self._is_other_topic():
                # What was read is of the new topic, so none of it counts.
                self._reader.position = before
                self._lose(_CREATED_AGAIN, self._wanted.stop)
                return
            self._waited_s = (
                0.0 if self._reader.position > before else self._waited_s + time.monotonic() - since_s
            )
            yield from found
            if self._waited_s > self._options.poll_timeout_s:
                self._lose(f"its log ends at offset {self._reader.log_end}", self._wanted.stop)

    def _is_other_topic(self) -> bool:
        """Return whether the topic was created again since the task was planned, as of the last response."""
        return self._wanted.is_of_other_topic(self._client.topic_id(self._wanted.partition.topic))

    def _skip_lost(self, error: ErrorResponse | RequestTimedOut) -> None:
        """Continue behind what is gone, if that is what the error means; else raise it."""
        partition = self._wanted.partition
        is_out_of_range = isinstance(error, ErrorResponse) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        # A missing topic is requested again until the time is up: metadata may be on their way.
        code = self._client.run(metadata, [partition.topic]).errors.get(partition.topic)
        if self._is_other_topic():
            self._lose(_CREATED_AGAIN, self._wanted.stop)
        elif not is_out_of_range:
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
            self._lose("its topic was deleted", self._wanted.stop)
        else:
            self._skip_out_of_range()

    def _skip_out_of_range(self) -> None:
        partition = self._wanted.partition
        found = or_raise(self._client.run(list_offsets, [partition], EARLIEST_TIMESTAMP))[partition]
        if found.offset > self._reader.position:
            self._lose(f"its log begins at offset {found.offset}", found.offset)
        else:
            self._lose("its log ends before them", self._wanted.stop)

    def _lose(self, reason: str, next_offset: int) -> None:
        """Report that offsets are lost, and continue at the next one."""
        position, next_offset = self._reader.position, min(next_offset, self._wanted.stop)
        report_data_loss(
            f"offsets {position} to {next_offset - 1} of {self._wanted.partition} cannot be read: {reason}",
            fail=self._options.fail_on_data_loss,
        )
        self._reader.position = next_offset
