"""Topics with known records, and queries over them that are called as Spark calls them, without Spark."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import datasource_internal

from tests.deadlines import wait_until
from tidelog.plugins.client import (
    BlockingClient,
    NewRecord,
    NewTopic,
    TopicPartition,
    TransactionalProducer,
    or_raise,
)
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.spark_sink.data_source import TidelogDataSource
from tidelog.plugins.spark_sink.source.stream_reader import StreamReader
from tidelog.plugins.spark_sink.source.tasks import RangeTask

TAKES_ROWS: Final[Any] = vars(datasource_internal)["_SimpleStreamReaderWrapper"]
"""The class of readers whose rows Spark takes with the plan."""
Row = tuple[int, int, bytes]
"""Partition, offset and value."""


@attrs.frozen
class Topic:
    """A topic of a real broker."""

    bootstrap: str
    name: str
    client: BlockingClient

    def partition(self, index: int) -> TopicPartition:
        """One of its partitions."""
        return TopicPartition(self.name, index)

    def produce(self, partition: int, values: Sequence[str], *, timestamp: int = 1000) -> None:
        """Append a batch; its records have the timestamps that follow `timestamp`."""
        records = [
            NewRecord(value.encode(), timestamp=timestamp + index) for index, value in enumerate(values)
        ]
        self.client.produce(self.partition(partition), records)

    def produce_in(self, producer: TransactionalProducer, partition: int, values: Sequence[str]) -> None:
        """Append a batch in the producer's transaction."""
        self.client.produce(
            self.partition(partition), [NewRecord(value.encode()) for value in values], producer=producer
        )

    def grow(self, partitions: int) -> None:
        """Give it more partitions."""
        or_raise(self.client.create_partitions({self.name: partitions}))
        self.wait_for(partitions)

    def delete(self) -> None:
        """Delete it."""
        or_raise(self.client.delete_topics([self.name]))
        wait_until(lambda: bool(self.client.metadata([self.name]).errors), "the deletion")

    def delete_records(self, partition: int, before: int) -> None:
        """Raise the log start offset."""
        below = DeleteRecordsPartition(partition_index=partition, offset=before)
        wanted = DeleteRecordsTopic(name=self.name, partitions=[below])
        answer = self.client.request(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000))
        assert answer.topics[0].partitions[0].low_watermark == before

    def wait_for(self, partitions: int) -> None:
        """Apache Kafka's brokers hear of a change from their controller."""

        def is_there() -> bool:
            outcomes = self.client.list_offsets([self.partition(index) for index in range(partitions)])
            return not any(isinstance(outcome, ClientError) for outcome in outcomes.values())

        wait_until(is_there, f"{partitions} partitions of {self.name}")


@contextmanager
def new_topic(
    bootstrap: str, partitions: int = 1, name: str | None = None, **configs: str
) -> Generator[Topic]:
    """A topic of its own for a test."""
    with BlockingClient(bootstrap) as client:
        topic = Topic(bootstrap, name or f"t-{uuid.uuid4()}", client)
        # Rows may have any time: retention must not delete them before they are read.
        named = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        or_raise(client.create_topics([NewTopic(topic.name, partitions, config=named)]))
        topic.wait_for(partitions)
        yield topic


def source(topic: Topic, **options: Any) -> TidelogDataSource:
    """The format with these options, over the topic unless they say something else."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = topic.name
    return TidelogDataSource({"kafka.bootstrap.servers": topic.bootstrap, **given})


def read_tasks(reader: Any, tasks: Iterable[Any]) -> list[Row]:
    """The rows of tasks, each read in a process of its own as far as the reader can tell."""
    rows: list[Row] = []
    for task in tasks:
        copied_reader, copied_task = pickle.loads(pickle.dumps((reader, task)))
        rows += rows_of(copied_reader.read(copied_task))
    return rows


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of Arrow record batches."""
    rows: list[Row] = []
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
        rows += zip(*columns, strict=True)
    return rows


def planned(
    reader: Any, start: dict[str, Any], end: dict[str, Any]
) -> tuple[Sequence[Any], list[pa.RecordBatch] | None]:
    """The tasks of a micro-batch, and its rows if Spark gets them with the plan."""
    tasks = reader.partitions(start, end)
    # As Spark's process for planning does.
    if not isinstance(reader, TAKES_ROWS):
        return tasks, None
    return tasks, list(reader.getCache(start, end) or ())


def planned_rows(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    """The rows of a micro-batch."""
    tasks, rows = planned(reader, start, end)
    return read_tasks(reader, tasks) if rows is None else rows_of(rows)


def ranges(tasks: Iterable[Any]) -> list[tuple[int, int, int]]:
    """Partition, start and stop of each task."""
    found: list[tuple[int, int, int]] = []
    for task in tasks:
        assert isinstance(task, RangeTask)
        found.append((task.wanted.partition.partition, task.wanted.start, task.wanted.stop))
    return found


def batch_rows(topic: Topic, **options: Any) -> list[Row]:
    """All rows of a batch query."""
    data_source = source(topic, **options)
    reader = data_source.reader(data_source.schema())
    return read_tasks(reader, reader.partitions())


def values(rows: Iterable[Row]) -> list[str]:
    """The values of rows."""
    return [value.decode() for _, _, value in rows]


class Query:
    """A streaming query: its reader, and the offset log of its checkpoint as the text that Spark writes."""

    def __init__(
        self, topic: Topic, log: list[str] | None = None, *, available_now: bool = False, **options: Any
    ) -> None:
        data_source = source(topic, **options)
        reader = data_source.streamReader(data_source.schema())
        assert isinstance(reader, StreamReader)
        self.reader = reader
        self.log: list[str] = [] if log is None else log
        if available_now:
            reader.prepareForTriggerAvailableNow()

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def start_of(self, batch: int) -> dict[str, Any]:
        """Where a micro-batch begins, as far as Spark knows."""
        return stored(self.reader.initialOffset()) if batch == 0 else json.loads(self.log[batch - 1])

    def plan(self) -> bool:
        """Write the end of the next micro-batch into the log, if there is anything new."""
        start = self.start_of(len(self.log))
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if self.log and json.dumps(end) == self.log[-1]:
            return False
        self.log.append(json.dumps(end))
        return True

    def read(self, batch: int = -1) -> list[Row]:
        """The rows of a micro-batch in the log."""
        index = batch % len(self.log)
        return planned_rows(self.reader, self.start_of(index), json.loads(self.log[index]))

    def tasks(self, batch: int) -> Sequence[Any]:
        """The tasks of a micro-batch in the log."""
        return self.planned(batch)[0]

    def planned(self, batch: int) -> tuple[Sequence[Any], list[pa.RecordBatch] | None]:
        """The tasks of a micro-batch in the log, and its rows if Spark gets them with the plan."""
        return planned(self.reader, self.start_of(batch), json.loads(self.log[batch]))

    def next_rows(self) -> list[Row]:
        """The rows of the next micro-batch."""
        assert self.plan(), "there is nothing new"
        rows = self.read()
        self.reader.commit(json.loads(self.log[-1]))
        return rows

    def rest(self) -> list[list[Row]]:
        """The rows of all micro-batches until nothing is new."""
        found: list[list[Row]] = []
        while self.plan():
            found.append(self.read())
        return found


def stored(offset: Mapping[str, Any]) -> dict[str, Any]:
    """An offset that went through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found
