"""Small micro-batches, which the driver reads while it plans them, over tidelog and over Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.plugins.spark_sink.queries import Query, Topic, new_topic, read_tasks, values
from tidelog.plugins.client import NewRecord
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.prefetching import MOST_BYTES, PrefetchedTask
from tidelog.plugins.spark_sink.source.tasks import RangeTask


def is_prefetched(query: Query) -> bool:
    """Whether the last micro-batch in the log is read while it is planned."""
    tasks = query.tasks(-1 % len(query.log))
    prefetched = [isinstance(task, PrefetchedTask) for task in tasks]
    assert prefetched in ([True], [False] * len(tasks))
    return prefetched[0]


def test_the_task_of_a_small_micro_batch_asks_no_broker(real_broker: str) -> None:
    with new_topic(real_broker, 3) as topic:
        for partition in range(2):
            for index in range(3):
                topic.produce(partition, [f"{partition}-{index}"])
        with Query(topic, startingOffsets="earliest") as query:
            query.plan()
            tasks = query.tasks(0)
            topic.delete()
            assert sorted(values(read_tasks(query.reader, tasks))) == [
                "0-0",
                "0-1",
                "0-2",
                "1-0",
                "1-1",
                "1-2",
            ]


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
                    prefetched = query.tasks(-1 % len(query.log))
                    with Query(topic, query.log, prefetchOffsets=0, **options) as by_tasks:
                        tasks = by_tasks.tasks(-1 % len(query.log))
                    assert all(isinstance(each, PrefetchedTask) for each in prefetched)
                    assert all(isinstance(each, RangeTask) for each in tasks)
                    found = [rows for each in prefetched for rows in query.reader.read(each)]
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
        ({"minPartitions": 1}, False),
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
