"""Chunks of a load: every offset is in one, and none is larger than it may be."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.spark_sink.load.loads import small_plan
from tests.tables import for_each
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


def test_plan_of_a_release_is_read_by_later_ones() -> None:
    """Loads outlive releases."""
    stored = (
        b'{"version": 1, "request": {"TOPIC": ["a", "b"], "--format": "lines"}, "topic_ids": {"a": null, '
        b'"b": null}, "task_records": 2, "chunks": [[["a", 0, 5, 6], ["a", 1, 0, 1], ["b", 0, 100, 101]], '
        b'[["a", 0, 6, 8], ["a", 1, 1, 3]], [["a", 0, 8, 12]]]}'
    )
    assert small_plan().encode() == stored
    assert LoadPlan.decode(stored, "plan.json") == small_plan()


def test_partitions_are_what_chunks_have_of_them_in_any_order() -> None:
    found = small_plan().partitions([2, 0])
    assert {str(partition): (each.start, each.stop) for partition, each in found.items()} == {
        "a-0": (5, 12),
        "a-1": (0, 1),
        "b-0": (100, 101),
    }


@for_each(
    ("sizes", "task", "most", "expected"),
    [
        ([4], 4, 4, [[4]]),  # as much as fits is one chunk
        ([4, 1], 4, 4, [[4], [1]]),
        ([3, 3], 2, 4, [[3, 1], [2]]),
        ([5], 2, 1, [[1], [2], [2]]),  # a piece is never split for the sake of a chunk
        ([], 1, 1, []),
    ],
)
def test_chunks_of_sizes(sizes: list[int], task: int, most: int, expected: list[list[int]]) -> None:
    ranges = [OffsetRange(TopicPartition("t", part), 7, 7 + size) for part, size in enumerate(sizes)]
    assert [[each.size for each in chunk] for chunk in chunks_of(ranges, task, most)] == expected
