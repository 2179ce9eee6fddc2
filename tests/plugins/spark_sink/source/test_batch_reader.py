"""Batch queries as Spark calls them, over tidelog and over Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from tests.plugins.spark_sink.queries import Topic, batch_rows, new_topic, ranges, source, values
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.limits import Limit
from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets


@pytest.fixture
def topic(real_broker: str) -> Iterator[Topic]:
    """A topic with two partitions: a0 to a4 in two batches, and b0 to b2."""
    with new_topic(real_broker, 2) as topic:
        topic.produce(0, ["a0", "a1", "a2"], timestamp=1000)
        topic.produce(0, ["a3", "a4"], timestamp=1003)
        topic.produce(1, ["b0", "b1", "b2"], timestamp=1000)
        yield topic


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "a0 a1 a2 a3 a4 b0 b1 b2"),
        ({"startingOffsets": '{"T": {"0": 4, "1": -2}}'}, "a4 b0 b1 b2"),
        ({"endingOffsets": '{"T": {"0": 1, "1": -1}}'}, "a0 b0 b1 b2"),
        ({"startingTimestamp": 1002, "endingTimestamp": 1004}, "a2 a3 b2"),
        ({"endingTimestamp": 9999}, "a0 a1 a2 a3 a4 b0 b1 b2"),
        ({"endingOffsetsByTimestamp": '{"T": {"0": 1001, "1": 1002}}'}, "a0 b0 b1"),
        ({"startingOffsets": '{"T": {"0": 5, "1": 3}}'}, ""),
        ({"assign": '{"T": [1]}', "minPartitions": 3}, "b0 b1 b2"),
    ],
)
def test_a_batch_query_reads_what_its_options_say(
    topic: Topic, options: dict[str, str | int], expected: str
) -> None:
    given = {name: str(value).replace('"T"', f'"{topic.name}"') for name, value in options.items()}
    assert values(batch_rows(topic, **given)) == expected.split()


def planned_ranges(topic: Topic, **options: Any) -> list[tuple[int, int, int]]:
    """Partition, start and stop of the tasks of a batch query."""
    data_source = source(topic, **options)
    return ranges(data_source.reader(data_source.schema()).partitions())


def test_the_tasks_of_a_batch_query_are_those_of_partitions_with_offsets_to_read(topic: Topic) -> None:
    assert planned_ranges(topic) == [(0, 0, 5), (1, 0, 3)]
    starts = f'{{"{topic.name}": {{"0": 5, "1": 2}}}}'
    assert planned_ranges(topic, startingOffsets=starts) == [(1, 2, 3)]


def test_a_partition_that_is_added_while_a_batch_query_is_planned_is_left_out(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its starts and its ends, which are looked up one after the other."""
    resolve = LogOffsets.resolve

    def resolve_and_grow(log: LogOffsets, limit: Limit) -> dict[TopicPartition, int]:
        found = resolve(log, limit)
        if len(found) == 2:
            topic.grow(3)
        return found

    monkeypatch.setattr(LogOffsets, "resolve", resolve_and_grow)
    assert planned_ranges(topic) == [(0, 0, 5), (1, 0, 3)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_of_a_pattern_that_is_deleted_while_a_batch_query_is_planned_is_data_loss(
    fails: bool, topic: Topic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    latest = LogOffsets.latest

    def delete_and_list(log: LogOffsets) -> dict[TopicPartition, int]:
        topic.delete()
        return latest(log)

    monkeypatch.setattr(LogOffsets, "latest", delete_and_list)
    message = f"{topic.name}-0 is to be read to offset 5 (endingOffsets), and ends at 0."
    if fails:
        with pytest.raises(DataLost, match=re.escape(message)):
            planned_ranges(topic, subscribePattern=topic.name)
    else:
        assert planned_ranges(topic, subscribePattern=topic.name, failOnDataLoss=False) == []
        assert message in caplog.text


def test_a_reader_without_tasks_yields_nothing(topic: Topic) -> None:
    """Spark then calls it with an input partition of its own."""
    data_source = source(topic)
    assert list(data_source.reader(data_source.schema()).read(InputPartition(None))) == []


def test_a_batch_query_refuses_an_end_below_its_start(topic: Topic) -> None:
    limits = {"startingOffsets": f'{{"{topic.name}": {{"0": 4, "1": 0}}}}'}
    limits["endingOffsets"] = f'{{"{topic.name}": {{"0": 3, "1": 0}}}}'
    with pytest.raises(InvalidOption, match=r"from offset 4 \(startingOffsets\) to 3 \(endingOffsets\)"):
        batch_rows(topic, **limits)


def test_a_batch_query_beyond_the_end_of_a_log_is_data_loss(topic: Topic) -> None:
    limits = {"endingOffsets": f'{{"{topic.name}": {{"0": 9, "1": 1}}}}'}
    with pytest.raises(DataLost, match=r"to offset 9 \(endingOffsets\), and ends at 5"):
        batch_rows(topic, **limits)
    assert values(batch_rows(topic, failOnDataLoss=False, **limits)) == ["a0", "a1", "a2", "a3", "a4", "b0"]


def test_a_batch_query_below_the_start_of_a_log_is_data_loss(topic: Topic) -> None:
    topic.delete_records(0, before=2)
    assert values(batch_rows(topic)) == ["a2", "a3", "a4", "b0", "b1", "b2"]
    limits = {"startingOffsets": f'{{"{topic.name}": {{"0": 1, "1": 2}}}}'}
    with pytest.raises(DataLost, match=r"offsets 1 to 1 .* its log begins at offset 2"):
        batch_rows(topic, **limits)
    assert values(batch_rows(topic, failOnDataLoss=False, **limits)) == ["a2", "a3", "a4", "b2"]
