"""The writers as Spark calls them: in the process of a task, whose context names what it is of."""

from __future__ import annotations

import logging
import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

from tests.plugins.spark_sink.writer.written import committed, create, values_of
from tests.tables import for_each
from tidelog.plugins.client import BlockingClient, TopicPartition
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.writer import writers
from tidelog.plugins.spark_sink.writer.transactions import StreamTask
from tidelog.plugins.spark_sink.writer.writers import (
    InvalidColumns,
    TaskDone,
    TaskPrepared,
    batch_writer,
    check_columns,
    stream_writer,
)

SCHEMA = StructType([StructField("value", StringType())])


class Context:
    """Stands for Spark's context of a task."""

    def __init__(self, query: str, batch: int, index: int) -> None:
        self._properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
        self._index = index

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        """See Spark."""
        return self._properties.get(name)

    def partitionId(self) -> int:  # noqa: N802
        """See Spark."""
        return self._index


class Query:
    """A query with its topic and its writer."""

    def __init__(
        self, client: BlockingClient, bootstrap: str, patch: pytest.MonkeyPatch, **given: str
    ) -> None:
        self.client = client
        self.id = str(uuid.uuid4())
        self.parts: list[TopicPartition] = create(client, f"t-{self.id}", 2)
        options = {"kafka.bootstrap.servers": bootstrap, "topic": self.parts[0].topic, **given}
        self._patch = patch
        self.writer: Any = stream_writer(options, SCHEMA, overwrite=False)

    def write(self, batch: int, *tasks: Sequence[str], first: int = 0) -> list[Any]:
        """What the tasks of a micro-batch send to the driver."""
        messages: list[Any] = []
        for index, values in enumerate(tasks):
            context = Context(self.id, batch, first + index)
            self._patch.setattr(TaskContext, "get", staticmethod(lambda context=context: context))
            copy = pickle.loads(pickle.dumps(self.writer))
            messages.append(pickle.loads(pickle.dumps(copy.write(values_of(values)))))
        return messages

    def committed(self) -> list[str]:
        """The values that a reader of committed records finds."""
        return committed(self.client, self.parts)


@pytest.fixture
def query(shared_tidelog: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with BlockingClient(shared_tidelog) as client:
        yield Query(client, shared_tidelog, monkeypatch)


def test_a_micro_batch_is_committed_by_the_driver(query: Query) -> None:
    messages = query.write(3, ["a", "b"], [], ["c"])
    assert all(isinstance(each, TaskPrepared) for each in messages)
    assert [each.prepared.task for each in messages] == [StreamTask(query.id, 3, index) for index in range(3)]
    # As a task that failed, whose message is None; and in the order in which they ended.
    query.writer.commit([messages[2], None, messages[0], messages[1]], 3)
    assert query.committed() == ["a", "b", "c"]
    again = query.write(3, ["a", "b"], [], ["c"])
    query.writer.commit(again, 3)
    assert query.committed() == ["a", "b", "c"]


def test_a_micro_batch_that_failed_is_aborted(query: Query) -> None:
    messages = query.write(0, ["a"], ["b"])
    query.writer.abort([None, *messages], 0)
    assert query.committed() == []


def test_nothing_is_sent_for_tasks_without_rows(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = query.write(0, [], [])
    monkeypatch.setattr(writers, "BlockingDriver", None)
    query.writer.abort([*messages, None], 0)
    query.writer.abort([], 0)
    query.writer.commit([], 0)


def test_without_exactly_once_rows_are_there_when_they_are_written(
    query: Query, shared_tidelog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_least_once = Query(query.client, shared_tidelog, monkeypatch, exactlyOnce="false")
    messages = at_least_once.write(0, ["a", "b"])
    assert all(isinstance(each, TaskDone) for each in messages)
    assert (messages[0].written.rows, messages[0].written.data_bytes) == (2, 2)
    assert at_least_once.committed() == ["a", "b"]
    at_least_once.writer.commit(messages, 0)
    at_least_once.writer.abort(messages, 0)
    assert at_least_once.committed() == ["a", "b"]


@for_each(("acks", "has_producer"), [("all", True), ("1", False)])
def test_a_batch_query_writes_with_a_producer_unless_acks_say_otherwise(
    acks: str, has_producer: bool, shared_tidelog: str
) -> None:
    with BlockingClient(shared_tidelog) as client:
        (part,) = create(client, f"t-{uuid.uuid4()}", 1)
        options = {"kafka.bootstrap.servers": shared_tidelog, "topic": part.topic, "kafka.acks": acks}
        done: Any = batch_writer(options, SCHEMA, overwrite=False).write(values_of(["a"], ["b", "c"]))
        assert (done.written.rows, done.written.data_bytes) == (3, 3)
        assert committed(client, [part]) == ["a", "b", "c"]
        headers = [header for each in client.read_batches(part, 0) for header, _ in each]
        assert [header.producer_id >= 0 for header in headers] == [has_producer] * len(headers)


def test_a_query_warns_once_of_options_without_effect(
    query: Query, shared_tidelog: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writers, "_warned", set())
    options = {"kafka.bootstrap.servers": shared_tidelog, "topic": "t", "kafka.linger.ms": "5"}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            stream_writer(options, SCHEMA, overwrite=False).commit([], 0)
        query.writer.commit([], 0)
        stream_writer({**options, "kafka.buffer.memory": "1"}, SCHEMA, overwrite=False).commit([], 0)
        assert [each.split(": ")[1] for each in caplog.messages] == [
            "kafka.linger.ms",
            "kafka.buffer.memory, kafka.linger.ms",
        ]
        batch_writer(options, SCHEMA, overwrite=False)
        assert caplog.messages[2].endswith(": kafka.linger.ms")


@pytest.mark.parametrize("writer", [batch_writer, stream_writer])
def test_writers_are_made_with_options_and_columns_that_fit(writer: Any) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
    with pytest.raises(InvalidColumns, match=r"there is no column value among none$"):
        writer(options, StructType([]), overwrite=False)
    with pytest.raises(InvalidColumns, match="there is no column topic"):
        writer({"kafka.bootstrap.servers": "localhost:9092"}, SCHEMA, overwrite=False)
    with pytest.raises(InvalidOption, match="there is no option subscribe"):
        writer({**options, "subscribe": "t"}, SCHEMA, overwrite=False)
    writer({**options, "subscribe": "t"}, SCHEMA, overwrite=False, also=("subscribe",))


@pytest.mark.parametrize(("writer", "is_for"), [(batch_writer, False), (stream_writer, True)])
def test_exactly_once_is_for_streaming_queries(writer: Any, is_for: bool) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "exactlyOnce": "true"}
    if is_for:
        writer(options, SCHEMA, overwrite=False)
        return
    with pytest.raises(InvalidOption, match="for streaming queries"):
        writer(options, SCHEMA, overwrite=False)


def test_check_columns_names_headers_of_another_form() -> None:
    for fields in (
        [StructField("key", StringType())],
        [StructField("value", BinaryType()), StructField("key", StringType())],
        [StructField("key", BinaryType()), StructField("value", BinaryType())],
        [StructField("key", StringType()), StructField("value", StringType())],
    ):
        headers = StructField("headers", ArrayType(StructType(fields)))
        with pytest.raises(
            InvalidColumns, match=r"the column headers is array<struct<.*it must be array<struct"
        ):
            check_columns(StructType([*SCHEMA.fields, headers]), "t")
    with pytest.raises(InvalidColumns, match="the column headers is array<string>"):
        check_columns(StructType([*SCHEMA.fields, StructField("headers", ArrayType(StringType()))]), "t")
