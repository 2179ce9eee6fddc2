"""Micro-batches that are replayed: what is committed is not written again, and nothing is left out."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

from tests.plugins.spark_sink.writer.written import committed, create, options, rows
from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client import BlockingClient, TopicPartition, or_raise
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from tidelog.plugins.client.operations.transactions import abort_transaction, commit_transaction
from tidelog.plugins.spark_sink.writer.producing import Written
from tidelog.plugins.spark_sink.writer.rows import InvalidRow
from tidelog.plugins.spark_sink.writer.transactions import (
    CheckpointSetBack,
    DifferentReplay,
    PreparedTask,
    StreamTask,
    TransactionEnded,
    abort_tasks,
    commit_tasks,
    end_left_open,
    prepare_task,
)

Tasks = Sequence[Sequence[str]]
"""The values that each task has."""


class Killed(BaseException):
    """Stands for the end of the process at this point."""


class Query:
    """A streaming query with its topic at a real broker."""

    def __init__(self, client: BlockingClient, bootstrap: str) -> None:
        self.client = client
        self.id = str(uuid.uuid4())
        self.parts: list[TopicPartition] = create(client, f"t-{self.id}", 2)
        self.options = options(bootstrap, streaming=True, topic=self.parts[0].topic)

    def run(self, batch: int, *tasks: Sequence[str], client: Any = None) -> list[PreparedTask]:
        """Run a micro-batch as Spark does: each task, and then the commit or the abort of the driver."""
        done: list[PreparedTask] = []
        try:
            for index, values in enumerate(tasks):
                done.append(self.prepare(batch, values, task=index, client=client))
            end_left_open(self.client, self.options, done)
            commit_tasks(client or self.client, self.options, done)
        except Exception:
            abort_tasks(self.client, pickled(done))
            raise
        return done

    def prepare(
        self, batch: int, values: Sequence[str], *, task: int = 0, client: Any = None
    ) -> PreparedTask:
        """Run one attempt of a task, which gets two blocks of rows."""
        half = len(values) // 2
        blocks = [rows(value=[each.encode() for each in part]) for part in (values[:half], values[half:])]
        return self.write(batch, iter(blocks), task=task, client=client)

    def write(
        self, batch: int, blocks: Iterator[pa.RecordBatch], *, task: int = 0, client: Any = None
    ) -> PreparedTask:
        """Run one attempt of a task."""
        which = StreamTask(self.id, batch, task)
        found = prepare_task(client or self.client, self.options, which, blocks, wall_clock_ms)
        (copy,) = pickled([found])
        return copy

    def committed(self) -> list[str]:
        """The values that a reader of committed records finds."""
        return committed(self.client, self.parts)


def pickled(done: Sequence[PreparedTask]) -> list[PreparedTask]:
    """What the driver gets of the processes of tasks."""
    copies: list[PreparedTask] = pickle.loads(pickle.dumps(list(done)))
    return copies


@pytest.fixture
def query(real_broker: str) -> Iterator[Query]:
    with BlockingClient(real_broker) as client:
        yield Query(client, real_broker)


@pytest.fixture
def tidelog_query(shared_tidelog: str) -> Iterator[Query]:
    with BlockingClient(shared_tidelog) as client:
        yield Query(client, shared_tidelog)


class Dying:
    """A client whose process is killed before a call of an operation does anything, or after it."""

    def __init__(self, client: BlockingClient, operation: str, call: int = 0, *, after: bool) -> None:
        self._client = client
        self._operation = operation
        self._calls_left = call
        self._after = after
        self._is_dead = False

    def run(self, operation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run an operation, or be killed before or after it, as everything after that."""
        if self._is_dead:
            raise Killed
        if operation.__name__ != self._operation or self._calls_left:
            self._calls_left -= operation.__name__ == self._operation
            return self._client.run(operation, *args, **kwargs)
        if self._after:
            self._client.run(operation, *args, **kwargs)
        self._is_dead = True
        raise Killed


KILLS = [
    (operation, call, after)
    for operation, calls in (
        ("init_transactions", (0, 1)),
        ("produce_batches", (0, 1)),
        ("send_offsets", (0, 1)),
        ("commit_offsets", (0,)),
        ("commit_transaction", (0, 1)),
    )
    for call in calls
    for after in (False, True)
]
"""Where a micro-batch of two tasks with rows is killed; at the last seven both have written."""
ROWS: Tasks = (["b", "c"], [], ["d"])


def test_what_is_committed_is_not_written_again(query: Query) -> None:
    query.run(0, ["a", "b", "c"], [], ["d"])
    same: list[Tasks] = [(["a", "b", "c"], [], ["d"]), (["c", "b", "a"], [], ["d"])]
    for tasks in same:
        assert [each.producer for each in query.run(0, *tasks)] == [None, None, None]
    query.run(1, ["e"], ["f"])
    assert query.committed() == ["a", "b", "c", "d", "e", "f"]


def test_nothing_is_visible_before_all_tasks_have_ended(query: Query) -> None:
    done = [query.prepare(0, ["a"]), query.prepare(0, ["b"], task=1)]
    ends = [client_ends(query, stable=stable) for stable in (True, False)]
    assert (sum(ends[0]), sum(ends[1])) == (0, 2)
    commit_tasks(query.client, query.options, done)
    assert query.committed() == ["a", "b"]


def client_ends(query: Query, *, stable: bool) -> list[int]:
    found = or_raise(query.client.list_offsets(query.parts, read_committed=stable))
    return [found[part].offset for part in query.parts]


@pytest.mark.parametrize(("operation", "call", "after"), KILLS)
def test_each_row_is_written_once_wherever_a_micro_batch_is_killed(
    query: Query, operation: str, call: int, after: bool
) -> None:
    query.run(0, ["a"])
    with pytest.raises(Killed):
        query.run(1, *ROWS, client=Dying(query.client, operation, call, after=after))
    query.run(1, *ROWS)
    query.run(2, ["e"])
    assert query.committed() == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "others",
    [(["b"], ["c"], ["d"]), (["b", "c", "d"],), ([], ["b", "c"], ["d"]), ([], [], [], ["d", "b", "c"])],
)
@pytest.mark.parametrize(("operation", "call", "after"), KILLS[-7:])
def test_a_replay_with_other_tasks_writes_no_row_twice(
    tidelog_query: Query, operation: str, call: int, after: bool, others: Tasks
) -> None:
    query = tidelog_query
    with pytest.raises(Killed):
        query.run(0, *ROWS, client=Dying(query.client, operation, call, after=after))
    is_begun = operation == "commit_transaction" and (call, after) != (0, False)
    if not is_begun:
        query.run(0, *others)
    else:
        with pytest.raises(DifferentReplay, match=r"task \d of micro-batch 0 has .* were committed before"):
            query.run(0, *others)
        query.run(0, *ROWS)
    assert query.committed() == ["b", "c", "d"]


def test_end_left_open_aborts_what_tasks_have_left_that_are_gone_and_nothing_else(query: Query) -> None:
    mine, query.id = query.id, str(uuid.uuid4())
    kept = query.prepare(0, ["other"], task=1)
    query.id = mine
    for task, value in enumerate("bcd"):
        query.prepare(0, [value], task=task)
    done = [query.prepare(0, ["b", "c", "d"]), PreparedTask(StreamTask(query.id, 0, 1), Written())]
    end_left_open(query.client, query.options, done)
    commit_tasks(query.client, query.options, done)
    commit_tasks(query.client, query.options, [kept])
    assert query.committed() == ["b", "c", "d", "other"]


def test_commit_tasks_ends_what_a_task_without_rows_has_left_open(query: Query) -> None:
    """Brokers that do not list transactions have left it to `commit_tasks`."""
    with pytest.raises(Killed):
        query.run(0, ["a"], ["b"], client=Dying(query.client, "commit_transaction", 1, after=False))
    done = [query.prepare(0, ["a"]), PreparedTask(StreamTask(query.id, 0, 1), Written())]
    commit_tasks(query.client, query.options, done)
    assert query.committed() == ["a"]


def test_a_checkpoint_that_was_set_back_fails_with_both_numbers_and_the_remedy(query: Query) -> None:
    for batch in range(3):
        query.run(batch, [f"{batch}-a"], [f"{batch}-b"])
    written = query.committed()
    message = r"micro-batch 1 is to be written.* micro-batch 2 already.*Restore the checkpoint .* up to 2;"
    others: list[Tasks] = [(["1-a", "new"], ["1-b"]), ([], [], ["new"]), ([],)]
    for tasks in others:
        with pytest.raises(CheckpointSetBack, match=message):
            query.run(1, *tasks)
    assert query.committed() == written
    query.run(3, ["3"])
    assert query.committed() == [*written, "3"]


def test_a_task_of_a_checkpoint_that_was_set_back_fails_before_it_writes(query: Query) -> None:
    query.run(1, ["a"])
    with pytest.raises(CheckpointSetBack):
        query.prepare(0, ["b"])
    assert sum(client_ends(query, stable=False)) == 2, "the record and the end of its transaction"


def test_a_newer_attempt_of_a_task_fences_the_one_before(query: Query) -> None:
    query.options = evolve(query.options, max_record_bytes=10_000_000, compression="zstd")
    older = query.prepare(0, ["older"])
    newer = query.prepare(0, ["newer"])
    with pytest.raises(TransactionEnded, match=r"task 0 of micro-batch 0 ended before.*transaction\.timeout"):
        commit_tasks(query.client, query.options, [older])
    commit_tasks(query.client, query.options, [newer])
    assert query.committed() == ["newer"]


@pytest.mark.parametrize(
    ("others", "found"),
    [(["a"], "1 rows of 1 bytes.*2 rows of 2 bytes"), (["a", "c"], "2 rows of 2 bytes.*2 rows of 2 bytes")],
)
def test_a_replay_with_other_rows_is_refused(query: Query, others: list[str], found: str) -> None:
    query.run(0, ["a", "b"])
    with pytest.raises(DifferentReplay, match=f"task 0 of micro-batch 0 has {found}.*without rand"):
        query.run(0, others)
    assert query.committed() == ["a", "b"]


def test_a_task_aborts_when_a_row_cannot_be_written(query: Query) -> None:
    with pytest.raises(InvalidRow):
        query.write(0, iter([rows(value=[bytes(500_000)] * 10), rows(value=[bytes(2_000_000)])]))
    assert query.committed() == []
    query.run(0, ["a"])
    assert query.committed() == ["a"]


def test_abort_tasks_ends_what_is_open_and_leaves_what_is_committed(query: Query) -> None:
    done = [query.prepare(0, [value], task=task) for task, value in enumerate("abc")]
    commit_tasks(query.client, query.options, pickled(done[:1]))
    abort_tasks(query.client, [*done, PreparedTask(StreamTask(query.id, 0, 3), Written())])
    assert query.committed() == ["a"]


def test_abort_tasks_spends_no_time_on_a_cluster_that_cannot_be_reached(query: Query) -> None:
    asked: list[object] = []

    class Unreachable:
        def run(self, operation: object, producer: object) -> None:
            asked.append((operation, producer))
            raise BrokerUnreachable([])

    done = [query.prepare(0, [value], task=task) for task, value in enumerate("ab")]
    abort_tasks(Unreachable(), done)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert asked == [(abort_transaction, done[0].producer)]
    abort_tasks(query.client, done)


def test_a_task_without_rows_needs_no_broker(query: Query) -> None:
    task = StreamTask(query.id, 0, 0)
    for blocks in ([], [rows(value=[])]):
        assert query.write(0, iter(blocks)) == PreparedTask(task, Written())
    commit_tasks(query.client, query.options, [PreparedTask(task, Written())])
    for group in (task.name, task.query_group):
        assert query.client.committed_offsets(group) == {}


def test_a_commit_in_doubt_is_left_to_the_replay(query: Query) -> None:
    class InDoubt(Dying):
        def run(self, operation: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            found = self._client.run(operation, *args, **kwargs)
            if operation is commit_transaction:
                raise RequestTimedOut("EndTxn v4", 30.0)
            return found

    with pytest.raises(ClientError):
        query.run(0, ["a"], client=InDoubt(query.client, "", after=False))
    assert query.run(0, ["a"])[0].producer is None
    assert query.committed() == ["a"]


def test_names_of_transactions_and_markers_stay_as_they_are() -> None:
    """Checkpoints outlive releases: a replay looks for the markers of the release before."""
    task = StreamTask("id-of-query", 4, 7)
    assert (task.name, task.query_group) == ("tidelog-spark-id-of-query-7", "tidelog-spark-id-of-query")
    assert task.marker == 5


def test_markers_say_what_is_written(tidelog_query: Query) -> None:
    query = tidelog_query
    query.run(0, ["a", "bc"], [], ["d"])
    groups = [StreamTask(query.id, 0, index).name for index in range(3)]
    found = [set(query.client.committed_offsets(group).values()) for group in groups]
    assert [[each.offset for each in of_task] for of_task in found] == [[1], [], [1]]
    texts = [each.metadata for index in (0, 2) for each in found[index]]
    assert texts[0].startswith("2 rows of 3 bytes with hash ")
    assert texts[1].startswith("1 rows of 1 bytes with hash ")
    of_query = query.client.committed_offsets(StreamTask(query.id, 0, 0).query_group)
    assert {(each.offset, each.metadata) for each in of_query.values()} == {(1, "3")}
