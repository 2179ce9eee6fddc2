"""Small micro-batches, which the driver reads while it plans them, over tidelog and over Apache Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.plugins.spark_sink.queries import TAKES_ROWS, Query, Topic, new_topic, read_tasks, rows_of, values
from tidelog.plugins.client import NewRecord
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source import prefetching
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.prefetching import MOST_BYTES
from tidelog.plugins.spark_sink.source.tasks import RangeTask, SmallBatchTask


def is_prefetched(query: Query) -> bool:
    """Whether the last micro-batch in the log is read while it is planned; one task has all of it then."""
    tasks, rows = query.planned(-1 % len(query.log))
    assert rows is None or [type(task) for task in tasks] == [SmallBatchTask]
    return rows is not None


def test_spark_gets_the_rows_of_a_small_micro_batch_with_the_plan(real_broker: str) -> None:
    with new_topic(real_broker, 3) as topic:
        for partition in range(2):
            for index in range(3):
                topic.produce(partition, [f"{partition}-{index}"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            (task,), rows = query.planned(0)
            assert rows is not None
            assert sorted(values(rows_of(rows))) == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
            # Where the executor that kept them is lost, the task reads the same ones.
            assert sorted(read_tasks(query.reader, [task])) == sorted(rows_of(rows))


def test_spark_is_given_rows_only_with_the_plan_they_belong_to(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["a"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            end = json.loads(query.log[0])
            for _ in range(2):
                assert not isinstance(query.reader, TAKES_ROWS)
                query.reader.partitions(query.start_of(0), end)
                # Spark's process for planning looks at the class.
                assert isinstance(query.reader, TAKES_ROWS)
                assert values(rows_of(query.reader.getCache(query.start_of(0), end))) == ["a"]
            # A query that continues plans an empty micro-batch first.
            assert query.reader.partitions(end, end) == []
            assert not isinstance(query.reader, TAKES_ROWS)
            assert query.reader.reportLatestOffset() == {topic.name: {"0": 1}}


def test_rows_that_spark_did_not_take_are_not_those_of_a_larger_micro_batch(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["a"])
        with Query(topic, startingOffsets="earliest", prefetchOffsets=1) as query:
            query.plan()
            query.reader.partitions(query.start_of(0), json.loads(query.log[0]))
            assert isinstance(query.reader, TAKES_ROWS)
            topic.produce(0, ["b", "c"])
            assert values(query.next_rows()) == ["b", "c"]


def mixed(topic: Topic) -> None:
    """Plain batches of three, then an aborted, a committed and an open transaction, with headers."""
    for index in range(3):
        record = NewRecord(b"plain %d" % index, b"key", [("h", b"1")], 1000)
        topic.client.produce(topic.partition(0), [record] * 3)
    producer = topic.client.init_transactions(f"id-of-{topic.name}")
    for end in (topic.client.abort_transaction, topic.client.commit_transaction, None):
        producer.begin_transaction()
        topic.produce_in(producer, 0, ["x", "y"])
        if end is not None:
            end(producer)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_rows_are_those_that_tasks_read(real_broker: str, level: str) -> None:
    options: dict[str, Any] = {"includeHeaders": True, "kafka__isolation__level": level}
    with new_topic(real_broker) as topic:
        mixed(topic)
        options["startingOffsets"] = f'{{"{topic.name}": {{"0": 4}}}}'
        for most in (3, 100):
            with Query(topic, maxOffsetsPerTrigger=most, **options) as query:
                while query.plan():
                    _, found = query.planned(-1 % len(query.log))
                    with Query(topic, query.log, prefetchOffsets=0, **options) as by_tasks:
                        tasks = by_tasks.tasks(-1 % len(query.log))
                    assert all(isinstance(each, RangeTask) for each in tasks)
                    assert found is not None
                    wanted = [rows for each in tasks for rows in by_tasks.reader.read(each)]
                    assert [row for rows in found for row in rows.to_pylist()] == [
                        row for rows in wanted for row in rows.to_pylist()
                    ]


def test_a_micro_batch_without_records_needs_no_task(real_broker: str) -> None:
    with new_topic(real_broker) as topic:
        producer = topic.client.init_transactions(f"id-of-{topic.name}")
        with Query(topic, kafka__isolation__level="read_committed") as query:
            query.plan()
            producer.begin_transaction()
            topic.produce_in(producer, 0, ["never"])
            topic.client.abort_transaction(producer)
            wait_until(query.plan, "the end of the transaction")
            assert query.tasks(1) == []


@pytest.mark.parametrize(
    ("options", "prefetched"),
    [
        ({}, True),
        ({"prefetchOffsets": 10}, True),
        ({"prefetchOffsets": 9}, False),
        ({"minPartitions": 2}, False),
        ({"maxRecordsPerPartition": 100}, False),
    ],
)
def test_how_many_offsets_are_small(shared_tidelog: str, options: dict[str, Any], prefetched: bool) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        topic.produce(0, ["a"] * 4)
        topic.produce(1, ["b"] * 6)
        with Query(topic, startingOffsets="earliest", **options) as query:
            query.plan()
            assert is_prefetched(query) is prefetched
            assert len(query.tasks(0)) == (1 if prefetched else 2)
            assert len(query.read()) == 10


@pytest.mark.parametrize(("records", "prefetched"), [(2, True), (3, False)])
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_how_many_bytes_are_small(
    shared_tidelog: str, compression: str, records: int, prefetched: bool
) -> None:
    with new_topic(shared_tidelog, compression_type=compression) as topic:
        for _ in range(records):
            topic.produce(0, ["v" * (MOST_BYTES * 2 // 5)])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            assert is_prefetched(query) is prefetched
            assert len(query.read()) == records


def test_a_micro_batch_that_is_repeated_has_the_same_tasks(
    shared_tidelog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer knows by the number of a task what it has written, whatever has happened since."""

    def fail(*_: object, **__: object) -> None:
        raise ClientError("the broker is not there")

    def layout(query: Query) -> list[list[OffsetRange]]:
        return [list(task.ranges) for task in query.planned(0)[0]]

    with new_topic(shared_tidelog, 2) as topic:
        topic.produce(0, ["a0", "a1"])
        topic.produce(1, ["b0"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            (first,) = layout(query)
            assert [(each.start, each.stop) for each in first] == [(0, 2), (0, 1)]
            for changed in (
                (prefetching, "MOST_BYTES", 1),
                (prefetching, "_ROWS_READER", None),
                (prefetching, "fetch_partitions", fail),
            ):
                with monkeypatch.context() as patch:
                    patch.setattr(*changed)
                    assert not is_prefetched(query)
                    assert layout(query) == [first]
                assert values(query.read()) == ["a0", "a1", "b0"]


def test_what_fails_while_a_micro_batch_is_planned_is_reported_by_its_tasks(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog, 2) as topic:
        topic.produce(0, ["a0", "a1"])
        topic.produce(1, ["b0"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            topic.delete_records(0, before=1)
            assert not is_prefetched(query)
            with pytest.raises(DataLost, match="begins at offset 1"):
                query.read()
            topic.produce(1, ["b1"])
            with Query(topic, query.log, failOnDataLoss=False) as later:
                assert values(later.read(0)) == ["a1", "b0"]
                assert values(later.next_rows()) == ["b1"]
                assert is_prefetched(later)


def test_offsets_that_the_log_does_not_have_are_left_to_tasks(shared_tidelog: str) -> None:
    """As after a leader election that has lost some: a task waits for a while whether they come."""
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["a", "b"])
        ends = [json.dumps({topic.name: {"0": offset}}) for offset in (0, 3)]
        with Query(topic, ends) as query:
            assert not is_prefetched(query)
            topic.produce(0, ["c"])
            assert values(query.read()) == ["a", "b", "c"]


def test_rows_of_a_topic_that_was_made_again_are_not_those_of_the_plan(shared_tidelog: str) -> None:
    with new_topic(shared_tidelog) as topic:
        topic.produce(0, ["a", "b"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            topic.delete()
            with new_topic(shared_tidelog, name=topic.name) as again:
                again.produce(0, ["c", "d"])
                tasks, rows = query.planned(0)
                assert rows is None
                with pytest.raises(DataLost, match=r"offsets 0 to 1 of .*-0 .*deleted and created again"):
                    read_tasks(query.reader, tasks)
