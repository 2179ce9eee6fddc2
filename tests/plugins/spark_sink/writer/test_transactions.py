"""Micro-batches that are replayed: what a task has committed is not written again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.plugins.spark_sink.writer.written import committed, create, options, rows, values_of
from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client import BlockingClient, TopicPartition
from tidelog.plugins.client.errors import ClientError, ProducerFenced, RequestTimedOut
from tidelog.plugins.spark_sink.writer.producing import Written
from tidelog.plugins.spark_sink.writer.rows import InvalidRow
from tidelog.plugins.spark_sink.writer.transactions import DifferentReplay, StreamTask, write_once


class Killed(BaseException):
    """Stands for the end of the process at this point."""


class Query:
    """A streaming query with its topic at a real broker."""

    def __init__(self, client: BlockingClient, bootstrap: str) -> None:
        self.client = client
        self.id = str(uuid.uuid4())
        self.parts: list[TopicPartition] = create(client, f"t-{self.id}", 2)
        self.options = options(bootstrap, streaming=True, topic=self.parts[0].topic)

    def run(self, batch: int, *blocks: list[str], task: int = 0, client: Any = None) -> Written:
        """One attempt of a task."""
        return self.write(batch, values_of(*blocks), task=task, client=client)

    def write(
        self, batch: int, blocks: Iterator[pa.RecordBatch], *, task: int = 0, client: Any = None
    ) -> Written:
        """One attempt of a task."""
        which = StreamTask(self.id, batch, task)
        return write_once(client or self.client, self.options, which, blocks, wall_clock_ms)

    def committed(self) -> list[str]:
        """The values that a reader of committed records finds."""
        return committed(self.client, self.parts)


@pytest.fixture
def query(real_broker: str) -> Iterator[Query]:
    with BlockingClient(real_broker) as client:
        yield Query(client, real_broker)


class Dying:
    """A client whose process is killed before a method does anything, or after it has done it."""

    def __init__(self, client: BlockingClient, method: str, *, after: bool) -> None:
        self._client = client
        self._method = method
        self._after = after
        self._is_dead = False

    def __getattr__(self, name: str) -> Any:
        if self._is_dead:
            raise Killed
        found = getattr(self._client, name)
        if name != self._method:
            return found

        def dying(*args: Any, **kwargs: Any) -> Any:
            if self._after:
                found(*args, **kwargs)
            self._is_dead = True
            raise Killed

        return dying


def test_write_once_skips_what_the_task_has_written_in_an_earlier_run(query: Query) -> None:
    assert query.run(0, ["a", "b"], ["c"]) == Written(3, 3)
    assert query.run(0, ["d"], task=1) == Written(1, 1)
    assert query.run(0, ["a", "b"], ["c"]) == Written()
    assert query.run(0, ["c", "b", "a"]) == Written()
    assert query.run(1, ["e"]) == Written(1, 1)
    assert query.run(1, ["f"], task=1) == Written(1, 1)
    assert query.committed() == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "method", ["init_transactions", "produce_batches", "send_offsets", "commit_transaction"]
)
def test_write_once_writes_each_row_once_wherever_it_is_killed(
    query: Query, method: str, after: bool
) -> None:
    query.run(0, ["a"])
    with pytest.raises(Killed):
        query.run(1, ["b", "c"], client=Dying(query.client, method, after=after))
    is_done = method == "commit_transaction" and after
    assert query.run(1, ["b", "c"]) == (Written() if is_done else Written(2, 2))
    query.run(2, ["d"])
    assert query.committed() == ["a", "b", "c", "d"]


def test_write_once_of_a_newer_attempt_fences_the_one_before(query: Query) -> None:
    def interrupted() -> Iterator[pa.RecordBatch]:
        yield rows(value=[bytes(5_000_000)])
        assert query.run(0, ["newer"]) == Written(1, 5)
        yield rows(value=[b"older"])

    query.options = options_with_large_records(query)
    with pytest.raises(ProducerFenced):
        query.write(0, interrupted())
    assert query.committed() == ["newer"]


def options_with_large_records(query: Query) -> Any:
    from attrs import evolve

    return evolve(query.options, max_record_bytes=10_000_000, compression="zstd")


def test_write_once_refuses_a_replay_with_other_rows_in_the_task(query: Query) -> None:
    query.run(0, ["a", "b"])
    with pytest.raises(DifferentReplay, match=r"task 0 of micro-batch 0 has 1 rows of 1 bytes.*2 rows of 2"):
        query.run(0, ["a"])
    assert query.committed() == ["a", "b"]


def test_write_once_aborts_when_a_row_cannot_be_written(query: Query) -> None:
    with pytest.raises(InvalidRow):
        query.write(0, iter([rows(value=[bytes(500_000)] * 10), rows(value=[bytes(2_000_000)])]))
    assert query.committed() == []
    assert query.run(0, ["a"]) == Written(1, 1)


def test_write_once_without_rows_needs_no_broker(query: Query) -> None:
    assert query.write(0, iter([])) == Written()
    assert query.write(0, iter([rows(value=[])])) == Written()
    assert query.client.committed_offsets(StreamTask(query.id, 0, 0).name) == {}


def test_write_once_leaves_a_commit_in_doubt_to_the_replay(query: Query) -> None:
    class InDoubt(Dying):
        def __getattr__(self, name: str) -> Any:
            found = getattr(self._client, name)
            if name != "commit_transaction":
                return found

            def lost(producer: Any) -> None:
                found(producer)
                raise RequestTimedOut("EndTxn v4", 30.0)

            return lost

    with pytest.raises(ClientError):
        query.run(0, ["a"], client=InDoubt(query.client, "", after=False))
    assert query.run(0, ["a"]) == Written()
    assert query.committed() == ["a"]
