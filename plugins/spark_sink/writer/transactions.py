"""Exactly once: a transaction for each task of a micro-batch, which the driver commits when all have written.

Spark runs a micro-batch again if it was killed before it had noted that the batch was done. Markers in the
cluster say what of it is written. Beside the rows, the transaction of a task commits an offset of a group
that only this task of this query has; before the first transaction of a micro-batch ends, the driver commits
one of the query:

    group      tidelog-spark-QUERY-TASK, as the transactional id  | tidelog-spark-QUERY
    partition  one of each topic that was written to; it has no meaning
    offset     micro-batch + 1
    metadata   rows and bytes that were written, and their hash   | number of tasks that have rows

A task whose marker is there compares its rows with it, and writes nothing. Since nothing is committed before
all tasks have ended, a replay that shares out the rows differently fails before it has written any of them
twice:

    killed before                   the replay finds
    the marker of the query         nothing: it aborts what tasks have left open, and writes
    the end of a transaction        the tasks that were committed, which have to have the same rows again; the
                                    driver checks those that have no rows any more
    Spark notes the micro-batch     all tasks, and compares
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.errors import TidelogError
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.errors import ClientError, ErrorResponse, FencedProducer
from tidelog.plugins.client.operations.group_offsets import GroupOffset, commit_offsets, committed_offsets
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.sending import or_raise, send_request
from tidelog.plugins.client.operations.transactions import (
    abort_transaction,
    commit_transaction,
    init_transactions,
    send_offsets,
)
from tidelog.plugins.client.producers import TransactionalProducer
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.plugins.spark_sink.writer.fingerprint import Fingerprint
from tidelog.plugins.spark_sink.writer.producing import TaskProducer, Written, gather
from tidelog.plugins.spark_sink.writer.rows import rows_by_topic

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.plugins.client.drivers.blocking_driver import BlockingDriver
    from tidelog.plugins.spark_sink.writer.options import WriterOptions

PREFIX: Final = "tidelog-spark"
_NO_MARKER: Final = GroupOffset(-1)
_ONGOING: Final = "Ongoing"


class DifferentReplay(TidelogError):
    """A micro-batch that is replayed has other rows in a task than those that are committed."""


class CheckpointSetBack(TidelogError):
    """The cluster has rows of a later micro-batch than the one that is to be written."""


class TransactionEnded(TidelogError):
    """The transaction of a task ended before the driver committed it; the micro-batch is to be repeated."""


@attrs.frozen
class StreamTask:
    """A task of a micro-batch; `query` is the id of the query, which stays over restarts."""

    query: str
    batch: int
    index: int

    @property
    def name(self) -> str:
        """Return the transactional id, and the group of the task's markers."""
        return f"{PREFIX}-{self.query}-{self.index}"

    @property
    def query_group(self) -> str:
        """Return the group of the query's markers."""
        return f"{PREFIX}-{self.query}"

    @property
    def marker(self) -> int:
        """Return the offset that is committed with the rows."""
        return self.batch + 1


@attrs.frozen
class PreparedTask:
    """A task that has ended; a message to the driver.

    Attributes:
        task: which one it is
        written: what it has written, now or in an earlier run of the micro-batch
        producer: of the open transaction, None if there is nothing to commit
        markable: one partition of each topic that it has written to
    """

    task: StreamTask
    written: Written
    producer: TransactionalProducer | None = None
    markable: tuple[TopicPartition, ...] = ()


def prepare_task(
    client: BlockingDriver,
    options: WriterOptions,
    task: StreamTask,
    rows: Iterator[pa.RecordBatch],
    now_ms: Callable[[], int],
) -> PreparedTask:
    """Write the rows of a task in a transaction that stays open, unless an earlier run has committed them.

    An earlier attempt of the task that is still running cannot be committed any more.

    Raises:
        CheckpointSetBack: the task has written rows of a later micro-batch.
        DifferentReplay: the task has written other rows for this micro-batch before.
        InvalidRow: a row cannot be written.
        ClientError: the rows are not written, or it is not known whether they are: a replay finds out.
    """
    blocks = gather(rows)
    first = next(blocks, None)
    if first is None or not first.num_rows:
        return PreparedTask(task, Written())
    producer = client.run(init_transactions, task.name, timeout_ms=options.transaction_timeout_ms)
    # After the transaction of an earlier attempt has ended, so that its marker counts.
    marker = _newest_marker(client, task.name, task)
    if marker.offset == task.marker:
        return PreparedTask(task, _compared(task, marker, chain([first], blocks), options))
    producer.begin_transaction()
    writing = TaskProducer(client, options, producer, Fingerprint())
    try:
        writing.write(first, now_ms())
        for block in blocks:
            writing.write(block, now_ms())
        marker = GroupOffset(task.marker, str(writing.written))
        client.run(send_offsets, producer, task.name, dict.fromkeys(writing.markable.values(), marker))
    except BaseException:
        # The next attempt aborts it as well, but until then readers of committed records would wait.
        with suppress(ClientError):
            client.run(abort_transaction, producer)
        raise
    return PreparedTask(task, writing.written, producer, tuple(writing.markable.values()))


def commit_tasks(client: BlockingDriver, options: WriterOptions, done: Sequence[PreparedTask]) -> None:
    """Commit the transactions of all tasks of a micro-batch.

    Raises:
        CheckpointSetBack: the query has written a later micro-batch.
        DifferentReplay: a task whose rows are committed has none any more; nothing is committed then.
        TransactionEnded: a transaction has ended by itself, or by another run of the query.
        ClientError: not all are committed, or it is not known whether they are: a replay finds out.
    """
    some_task = done[0].task
    stored = _newest_marker(client, some_task.query_group, some_task)
    with_rows = {each.task.index for each in done if each.written.rows}
    if stored.offset == some_task.marker:
        for index in sorted(set(range(int(stored.metadata))) - with_rows):
            _check_not_committed(client, options, attrs.evolve(some_task, index=index))
    prepared = [(each.task, each.producer) for each in done if each.producer is not None]
    if not prepared:
        return
    marker = GroupOffset(some_task.marker, str(max(with_rows) + 1))
    markable = {partition for each in done for partition in each.markable}
    # Before the first transaction ends: by it a replay knows of tasks that had rows and have none any more.
    or_raise(client.run(commit_offsets, some_task.query_group, dict.fromkeys(markable, marker)))
    for task, producer in prepared:
        try:
            client.run(commit_transaction, producer)
        except FencedProducer as error:
            raise TransactionEnded(
                f"the transaction of task {task.index} of micro-batch {task.batch} ended before the "
                f"micro-batch did ({error}): it was open for longer than kafka.transaction.timeout.ms, which "
                f"is {options.transaction_timeout_ms}, or the task or the query ran twice. The rows are "
                "written when the micro-batch is repeated; make that time longer than a micro-batch takes"
            ) from error


def end_left_open(client: BlockingDriver, options: WriterOptions, done: Sequence[PreparedTask]) -> None:
    """Abort open transactions of tasks of the query that are not among those that `commit_tasks` commits.

    A driver that was killed has left them, and the micro-batch has fewer tasks with rows now. Readers of
    committed records would wait for each until its timeout.

    Raises:
        ClientError: some may still be open; brokers list transactions since Kafka 3.0.
    """
    own = f"{done[0].task.query_group}-"
    prepared = {each.task.name for each in done if each.producer is not None}
    request = ListTransactionsRequest(state_filters=[_ONGOING], producer_id_filters=[])
    for node in client.run(metadata, []).brokers:
        answer: ListTransactionsResponse = client.run(send_request, request, node=node)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "transactions")
        for found in answer.transaction_states:
            name = found.transactional_id
            if name.startswith(own) and name not in prepared:
                client.run(init_transactions, name, timeout_ms=options.transaction_timeout_ms)


def abort_tasks(client: BlockingDriver, done: Sequence[PreparedTask]) -> None:
    """Abort the transactions of tasks; one that has ended stays as it is.

    What cannot be aborted now is aborted by the next run of the task, or when its time is up.
    """
    for each in done:
        if each.producer is not None:
            try:
                client.run(abort_transaction, each.producer)
            except ClientError as error:
                if error.retriable:
                    return  # the cluster cannot be reached: no further time is spent on it
                # Else it has ended, or there is another attempt of the task.


def _newest_marker(client: BlockingDriver, group: str, task: StreamTask) -> GroupOffset:
    """Return the newest marker of a group, whose offset is -1 if there is none.

    Raises:
        CheckpointSetBack: it is of a later micro-batch.
    """
    markers = client.run(committed_offsets, group)
    newest = max(markers.values(), key=lambda each: each.offset, default=_NO_MARKER)
    if newest.offset > task.marker:
        raise CheckpointSetBack(
            f"micro-batch {task.batch} is to be written, and the query has written micro-batch "
            f"{newest.offset - 1} already: its checkpoint was set back, or is an old copy. Restore the "
            f"checkpoint with offsets/ and commits/ up to {newest.offset - 1}; or begin with a new "
            "checkpointLocation, and with startingOffsets from where on rows are to be written"
        )
    return newest


def _compared(
    task: StreamTask, marker: GroupOffset, blocks: Iterator[pa.RecordBatch], options: WriterOptions
) -> Written:
    """Read the rows of a task without writing them, and return what they are: the same as in the marker.

    Raises:
        DifferentReplay: they are others.
    """
    seen = Fingerprint()
    for block in blocks:
        for rows in rows_by_topic(block, options.topic):
            seen.add(rows)
    if marker.metadata != str(seen):
        raise _different(task, marker, str(seen))
    return seen


def _check_not_committed(client: BlockingDriver, options: WriterOptions, task: StreamTask) -> None:
    """Check that a task without rows has none that are committed, and end its open transaction.

    Raises:
        DifferentReplay: it has some for this micro-batch.
    """
    client.run(init_transactions, task.name, timeout_ms=options.transaction_timeout_ms)
    marker = _newest_marker(client, task.name, task)
    if marker.offset == task.marker:
        raise _different(task, marker, "no rows")


def _different(task: StreamTask, marker: GroupOffset, now: str) -> DifferentReplay:
    return DifferentReplay(
        f"task {task.index} of micro-batch {task.batch} has {now}, and {marker.metadata} were committed "
        "before: the replay has other rows or other tasks, and nothing of it is committed. Run the query "
        "with as many tasks as before, such as with .repartition(n) before .writeStream, and without rand(), "
        "uuid() and the like, until the micro-batch is done; or once with exactlyOnce=false, which writes "
        "all of its rows again"
    )
