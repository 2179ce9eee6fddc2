"""Compacted topics: their gaps are no loss, at the beginning of a range, inside it and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.peers import TidelogServer, running_tidelog
from tests.plugins.spark_sink.queries import Query, Row, Topic, batch_rows, new_topic
from tidelog.plugins.client import NewRecord

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "0"}
BATCHES = 6
LEFT = [2, 7, 14, 15, 16, 17]
LARGE = b"v" * 600_000


@pytest.fixture(scope="module")
def tidelog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogServer]:
    """A broker that compacts at once."""
    with running_tidelog(tmp_path_factory.mktemp("compacting"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def topic(tidelog: TidelogServer) -> Iterator[Topic]:
    """18 offsets: left are the newest record of each key before the last segment, and all of that one."""
    # Each batch has a segment of its own, and the last one is never compacted.
    with new_topic(
        tidelog.bootstrap, cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_bytes="1048576"
    ) as topic:
        for batch in range(BATCHES):
            # Key 0 is in all batches, 1 in the second and third one, 2 in the first one alone.
            keys = [b"0", b"1" if batch in (1, 2) else b"0", b"2" if batch == 0 else b"0"]
            values = [b"a", b"b", LARGE]
            records = [NewRecord(value, key) for key, value in zip(keys, values, strict=True)]
            topic.client.produce(topic.partition(0), records)
        wait_until(lambda: len(batch_rows(topic)) == len(LEFT), "the compaction")
        yield topic


def offsets(rows: list[Row]) -> list[int]:
    return [offset for _, offset, _ in rows]


def test_a_batch_query_reads_what_is_left(topic: Topic) -> None:
    assert offsets(batch_rows(topic)) == LEFT
    for start, stop in ((0, 2), (3, 7), (3, 8), (8, 14), (8, 16)):
        bounds = {"startingOffsets": start, "endingOffsets": stop}
        options = {name: f'{{"{topic.name}": {{"0": {offset}}}}}' for name, offset in bounds.items()}
        assert offsets(batch_rows(topic, **options)) == [each for each in LEFT if start <= each < stop]


@pytest.mark.parametrize("options", [{}, {"prefetchOffsets": 0}])
@pytest.mark.parametrize("most", [1, 4, 100])
def test_a_streaming_query_reads_what_is_left(topic: Topic, most: int, options: dict[str, Any]) -> None:
    with Query(topic, startingOffsets="earliest", maxOffsetsPerTrigger=most, **options) as query:
        batches = query.rest()
    assert [offset for rows in batches for offset in offsets(rows)] == LEFT


def test_tasks_of_parts_and_tasks_that_read_files_find_what_is_left(
    topic: Topic, tidelog: TidelogServer
) -> None:
    assert offsets(batch_rows(topic, minPartitions=9)) == LEFT
    assert offsets(batch_rows(topic, localLogDirs=tidelog.data_dir)) == LEFT
