"""Exactly once: one transaction for each task of a micro-batch, with a marker that the replay finds.

Spark runs a micro-batch again if it was killed before it had noted that the batch was done. The transaction
of a task therefore commits, beside the rows, an offset of a group that only this task of this query has:

    group      tidelog-spark-QUERY-TASK, as the transactional id
    partition  one of each topic that was written to; it has no meaning
    offset     micro-batch + 1
    metadata   rows and bytes that were written

A task whose marker is there skips its rows. It compares them with the marker: Spark guarantees the same rows
in a replayed micro-batch, but not the same rows in each task if the number of tasks has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client import BlockingClient, GroupOffset
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.spark_sink.writer.producing import TaskProducer, Written, gather
from tidelog.plugins.spark_sink.writer.rows import rows_by_topic

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.plugins.spark_sink.writer.options import WriterOptions

PREFIX: Final = "tidelog-spark"


class DifferentReplay(TidelogError):
    """A micro-batch that is replayed has other rows in a task than those that the task has written before."""


@attrs.frozen
class StreamTask:
    """A task of a micro-batch; `query` is the id of the query, which stays over restarts."""

    query: str
    batch: int
    index: int

    @property
    def name(self) -> str:
        """Return the transactional id, and the group of the markers."""
        return f"{PREFIX}-{self.query}-{self.index}"

    @property
    def marker(self) -> int:
        """Return the offset that is committed with the rows."""
        return self.batch + 1


def write_once(
    client: BlockingClient,
    options: WriterOptions,
    task: StreamTask,
    rows: Iterator[pa.RecordBatch],
    now_ms: Callable[[], int],
) -> Written:
    """Write the rows of a task in one transaction, unless the task has written them before.

    An earlier attempt of the task that is still running cannot commit any more.

    Raises:
        DifferentReplay: the task has written other rows for this micro-batch before.
        InvalidRow: a row cannot be written.
        ClientError: the rows are not written, or it is not known whether they are: a replay finds out.
    """
    blocks = gather(rows)
    first = next(blocks, None)
    if first is None or not first.num_rows:
        return Written()
    producer = client.init_transactions(task.name, timeout_ms=options.transaction_timeout_ms)
    # After the transaction of an earlier attempt has ended, so that its marker counts.
    markers = client.committed_offsets(task.name)
    newest = max(markers.values(), key=lambda each: each.offset, default=GroupOffset(-1))
    if newest.offset >= task.marker:
        return _skip(task, newest, first, blocks, options, now_ms)
    producer.begin_transaction()
    writing = TaskProducer(client, options, producer)
    try:
        writing.write(first, now_ms())
        for block in blocks:
            writing.write(block, now_ms())
        marker = GroupOffset(task.marker, str(writing.written))
        client.send_offsets(producer, task.name, dict.fromkeys(writing.markable.values(), marker))
    except BaseException:
        # The next attempt aborts it as well, but until then readers of committed records would wait.
        with suppress(ClientError):
            client.abort_transaction(producer)
        raise
    client.commit_transaction(producer)
    return writing.written


def _skip(
    task: StreamTask,
    marker: GroupOffset,
    first: pa.RecordBatch,
    blocks: Iterator[pa.RecordBatch],
    options: WriterOptions,
    now_ms: Callable[[], int],
) -> Written:
    """Read the rows without writing them, and compare them with those of the marker."""
    seen = Written()
    for block in chain([first], blocks):
        for rows in rows_by_topic(block, options.topic, now_ms()):
            seen.add(rows.records)
    if marker.offset == task.marker and marker.metadata != str(seen):
        raise DifferentReplay(
            f"task {task.index} of micro-batch {task.batch} has {seen}, and wrote {marker.metadata} before: "
            "the replay has other tasks. Run the query with as many tasks as before, such as with "
            ".repartition(n) before .writeStream, until the micro-batch is done"
        )
    return Written()
