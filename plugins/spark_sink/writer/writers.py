"""The writers that Spark calls: in a process of its own for each task, and on the driver at the end.

What they are created with is checked on the driver, so that a query with a wrong option or column fails at
its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.kernel.clock import wall_clock_ms
from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.producer_ids import init_producer
from tidelog.plugins.spark_sink.option_values import InvalidOption, warn_of_options
from tidelog.plugins.spark_sink.writer.options import WriterOptions, parse_writer_options
from tidelog.plugins.spark_sink.writer.producing import TaskProducer, Written, gather
from tidelog.plugins.spark_sink.writer.transactions import (
    PreparedTask,
    StreamTask,
    abort_tasks,
    commit_tasks,
    end_left_open,
    prepare_task,
)

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_TYPES: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    "key": (StringType, BinaryType),
    "value": (StringType, BinaryType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType, TimestampNTZType, DoubleType),
}
_warned: Final[set[tuple[str, ...]]] = set()
"""Options without effect of which this process has warned."""
_committed: Final[dict[str, int]] = {}
"""The last micro-batch of a query, by its id, if this process has committed it and left nothing open."""


class InvalidColumns(TidelogError, ValueError):
    """The rows of a query have no columns that can be written; the message names the column and its types."""


@attrs.frozen
class TaskDone(WriterCommitMessage):
    """What a task has written."""

    written: Written


@attrs.frozen
class TaskPrepared(WriterCommitMessage):
    """What a task has written in a transaction, which the driver ends."""

    prepared: PreparedTask


class BatchWriter(DataSourceArrowWriter):
    """Writer of a batch query; what is sent again is dropped, but a task that runs again writes again."""

    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task.

        Raises:
            InvalidRow: a row cannot be written.
            ClientError: the rows are not written, or not all of them.
        """
        return TaskDone(write_rows(self._options, iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of a streaming query; each task of a micro-batch writes its rows once, or at least once."""

    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, unless an earlier run of the micro-batch has committed them.

        Raises:
            CheckpointSetBack: the task has written rows of a later micro-batch.
            DifferentReplay: the task has written other rows for this micro-batch before.
            InvalidRow: a row cannot be written.
            ClientError: the rows are not written, or it is not known whether they are.
        """
        if not self._options.exactly_once:
            return TaskDone(write_rows(self._options, iterator))
        with self._client() as client:
            return TaskPrepared(prepare_task(client, self._options, _task(), iterator, wall_clock_ms))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit what all tasks have written, if that is in transactions, and warn of options once.

        Spark makes many writers for a query, in several processes: one of them commits all micro-batches.

        Raises:
            CheckpointSetBack: the query has written a later micro-batch.
            DifferentReplay: a task whose rows are committed has none any more.
            TransactionEnded: a transaction has ended by itself, or by another run of the query.
            ClientError: not all are committed, or it is not known whether they are.
        """
        if self._options.without_effect and self._options.without_effect not in _warned:
            _warned.add(self._options.without_effect)
            warn_of_options(self._options.without_effect)
        if done := _prepared(messages):
            with self._client() as client:
                self._commit(client, done)

    def _commit(self, client: BlockingDriver, done: Sequence[PreparedTask]) -> None:
        query, batch = done[0].task.query, done[0].task.batch
        # Removed first: if this commit fails, the next one looks for transactions that are open again.
        is_clean = _committed.pop(query, None) == batch - 1
        if not is_clean:
            with suppress(ClientError):  # the next micro-batch tries again
                end_left_open(client, self._options, done)
                is_clean = True
        commit_tasks(client, self._options, done)
        if is_clean:
            _committed[query] = batch

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort what other tasks have written than those that failed, which have aborted themselves."""
        _committed.clear()  # a task that failed may have left something open
        done = [each for each in _prepared(messages) if each.producer is not None]
        if done:
            with self._client() as client:
                abort_tasks(client, done)

    def _client(self) -> BlockingDriver:
        return BlockingDriver(self._options.bootstrap_servers, settings=self._options.client)


def write_rows(options: WriterOptions, rows: Iterator[pa.RecordBatch]) -> Written:
    """Write the rows of a task at least once. Raises as `BatchWriter.write`."""
    with BlockingDriver(options.bootstrap_servers, settings=options.client) as client:
        producer = client.run(init_producer) if options.idempotent else None
        writing = TaskProducer(client, options, producer)
        for block in gather(rows):
            writing.write(block, wall_clock_ms())
        return writing.written


def batch_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, also: Sequence[str] = ()
) -> BatchWriter:
    """Return the writer of a batch query; `also` are options that only reading uses.

    Raises:
        InvalidColumns: a column is missing, or has another type.
        InvalidOption: an option is wrong, or the mode is `overwrite`.
    """
    if overwrite:
        raise InvalidOption("records cannot be overwritten: use the mode append")
    parsed = parse_writer_options(options, streaming=False, also=also)
    check_columns(schema, parsed.topic)
    warn_of_options(parsed.without_effect)
    return BatchWriter(parsed)


def stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, also: Sequence[str] = ()
) -> StreamWriter:
    """Return the writer of a streaming query; `also` are options that only reading uses.

    Raises:
        InvalidColumns: a column is missing, or has another type.
        InvalidOption: an option is wrong, or the output mode is `complete`.
    """
    if overwrite:
        raise InvalidOption("records cannot be overwritten: use the output mode append or update")
    parsed = parse_writer_options(options, streaming=True, also=also)
    check_columns(schema, parsed.topic)
    return StreamWriter(parsed)


def check_columns(schema: StructType, topic: str | None) -> None:
    """Check that the columns can be written.

    Raises:
        InvalidColumns: a column is missing, or has another type.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise InvalidColumns(f"there is no column value among {', '.join(columns) or 'none'}")
    if topic is None and "topic" not in columns:
        raise InvalidColumns("there is no column topic: set the option topic, or add the column")
    for name, types in _TYPES.items():
        if name in columns and not isinstance(columns[name], types):
            wanted = " or ".join(each().simpleString() for each in types)
            raise InvalidColumns(f"the column {name} is {columns[name].simpleString()}; it must be {wanted}")
    if "headers" in columns and not _is_headers(columns["headers"]):
        raise InvalidColumns(
            f"the column headers is {columns['headers'].simpleString()}; it must be "
            "array<struct<key:string,value:binary>>"
        )


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    found = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return found == [("key", StringType), ("value", BinaryType)]


def _prepared(messages: Sequence[WriterCommitMessage | None]) -> list[PreparedTask]:
    """Return what tasks have written in transactions, in the order of the tasks; one that failed has None."""
    found = [each.prepared for each in messages if isinstance(each, TaskPrepared)]
    return sorted(found, key=lambda each: each.task.index)


def _task() -> StreamTask:
    context: Any = TaskContext.get()
    query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    return StreamTask(str(query), int(batch), int(context.partitionId()))
