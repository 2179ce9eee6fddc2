"""Chunks of a load: every offset is in one, and none is larger than it may be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.spark_sink.load.loads import small_plan
from tidelog.plugins.client import TopicPartition
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import LoadPlan, chunk_size, chunks_of
from tidelog.plugins.spark_sink.ranges import OffsetRange


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=5),
    st.integers(1, 40),
    st.integers(1, 60),
)
def test_chunks_of_have_each_offset_once(sizes: list[tuple[int, int]], task: int, most: int) -> None:
    ranges = [
        OffsetRange(TopicPartition("t", part), start, start + size)
        for part, (start, size) in enumerate(sizes)
    ]
    chunks = chunks_of(ranges, task, most)
    read = Counter(
        (each.partition, offset)
        for chunk in chunks
        for each in chunk
        for offset in range(each.start, each.stop)
    )
    expected = {(each.partition, offset) for each in ranges for offset in range(each.start, each.stop)}
    assert read == dict.fromkeys(expected, 1)
    for chunk in chunks:
        assert len({each.partition for each in chunk}) == len(chunk)
        assert chunk_size(chunk) <= max(most, task)


def test_chunks_of_read_from_all_partitions_at_once() -> None:
    ranges = [OffsetRange(TopicPartition("t", part), 0, 100) for part in range(2)]
    first, second = chunks_of(ranges, task_records=25, chunk_records=100)
    assert [(each.partition.partition, each.start, each.stop) for each in first] == [(0, 0, 50), (1, 0, 50)]
    assert [(each.partition.partition, each.start, each.stop) for each in second] == [
        (0, 50, 100),
        (1, 50, 100),
    ]


def test_plan_is_the_same_after_its_file() -> None:
    plan = small_plan()
    assert LoadPlan.decode(plan.encode(), "plan.json") == plan
    assert plan.size == 11


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1, "request": {}}', b"\xff"])
def test_plan_of_something_else_is_refused(content: bytes) -> None:
    with pytest.raises(LoadFailed, match=r"plan\.json is not the plan of a load"):
        LoadPlan.decode(content, "plan.json")
