"""Plans of batches: all that is new is read once, in as many tasks as are wanted."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.planning import limited, new_offsets, ranges_between, tasks_for
from tidelog.plugins.spark_sink.source.positions import from_json, to_json
from tidelog.plugins.spark_sink.source.query_position import QueryPosition

PARTITIONS = [TopicPartition(topic, index) for topic in "ab" for index in (0, 1, 10)]
positions = st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 10_000))
range_lists = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 10_000)), max_size=6).map(
    lambda found: [
        OffsetRange(PARTITIONS[index], start, start + size) for index, (start, size) in enumerate(found)
    ]
)


def offsets(ranges: list[OffsetRange]) -> list[tuple[TopicPartition, int]]:
    """Each offset that is read."""
    return [(each.partition, offset) for each in ranges for offset in range(each.start, each.stop)]


@given(range_lists, st.none() | st.integers(1, 20), st.none() | st.integers(500, 5000))
def test_tasks_for_reads_each_offset_once(
    ranges: list[OffsetRange], least: int | None, most: int | None
) -> None:
    tasks = tasks_for(ranges, least, most)
    assert offsets(tasks) == offsets(ranges)
    assert all(task.size > 0 for task in tasks)
    assert most is None or all(task.size <= most for task in tasks)
    if least is None and most is None:
        assert tasks == ranges


def test_tasks_for_splits_as_sparks_own_source_does() -> None:
    whole = OffsetRange(PARTITIONS[0], 0, 100, UUID(int=1))
    assert [task.size for task in tasks_for([whole], 4, None)] == [25, 25, 25, 25]
    assert [task.size for task in tasks_for([whole], 3, None)] == [33, 33, 34]
    assert {task.topic_id for task in tasks_for([whole], 3, None)} == {UUID(int=1)}
    small = OffsetRange(PARTITIONS[1], 0, 2)
    assert [task.size for task in tasks_for([whole, small], 4, None)] == [33, 33, 34, 2]
    assert [task.size for task in tasks_for([whole, small], 2, None)] == [100, 2]
    assert [task.size for task in tasks_for([whole], 2, 30)] == [25, 25, 25, 25]
    assert len(tasks_for([OffsetRange(PARTITIONS[0], 0, 3)], 10, None)) == 3


@given(positions, positions, st.integers(1, 5000))
def test_limited_advances_all_that_has_anything_new(
    start: dict[TopicPartition, int], latest: dict[TopicPartition, int], limit: int
) -> None:
    begin = {**dict.fromkeys(latest, 0), **start}
    found = limited(limit, begin, latest)
    assert found.keys() == latest.keys()
    growing = [part for part in latest if latest[part] > begin[part]]
    assert all(begin[part] < found[part] <= latest[part] for part in growing)
    assert all(found[part] == latest[part] for part in latest if part not in growing)
    assert new_offsets({part: begin[part] for part in latest}, found) <= limit + len(growing)
    if new_offsets(begin, latest) <= limit:
        assert found == latest


@given(positions, positions)
def test_ranges_between_has_all_that_is_new_and_reports_what_is_gone(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int]
) -> None:
    lost: list[str] = []
    ids = {"a": str(UUID(int=7))}
    found = ranges_between(start, QueryPosition(end, ids), dict.fromkeys(end, 0), lost.append)
    expected = [
        OffsetRange(part, start.get(part, 0), end[part], UUID(int=7) if part.topic == "a" else None)
        for part in sorted(end)
        if end[part] > start.get(part, 0)
    ]
    assert found == expected
    gone = [part for part in start if part not in end or end[part] < start[part]]
    assert len(lost) == len(gone)


def test_ranges_between_reports_new_partitions_that_have_lost_records() -> None:
    lost: list[str] = []
    first, second = PARTITIONS[:2]
    found = ranges_between({}, QueryPosition({first: 9, second: 9}), {first: 4}, lost.append)
    assert found == [OffsetRange(first, 4, 9)]
    assert lost == [
        "the new partition a-0 begins at offset 4 instead of 0",
        "partition a-1 is gone before it was read",
    ]


@given(positions)
def test_to_json_and_from_json_are_inverse(found: dict[TopicPartition, int]) -> None:
    assert from_json(to_json(found)) == found


def test_to_json_has_one_order() -> None:
    found = dict.fromkeys(reversed(PARTITIONS), 1)
    assert [list(offsets) for offsets in to_json(found).values()] == [["0", "1", "10"]] * 2
    assert list(to_json(found)) == ["a", "b"]


@for_each(
    ("limit", "sizes", "expected"),
    [
        (10, [10, 0], [10, 0]),  # as much as there is
        (9, [10, 0], [9, 0]),
        (9, [10, 10], [4, 4]),
        (10, [30, 10, 1], [7, 2, 1]),
        (1, [5, 5, 5], [1, 1, 1]),  # each advances
        (4, [5, -3], [4, -3]),  # a log that has become shorter is not part of the share
        (5, [5, -3], [5, -3]),
    ],
)
def test_limited_shares_out_by_size(limit: int, sizes: list[int], expected: list[int]) -> None:
    start = {TopicPartition("t", index): 100 for index in range(len(sizes))}
    latest = {part: 100 + size for part, size in zip(start, sizes, strict=True)}
    assert [offset - 100 for offset in limited(limit, start, latest).values()] == expected


def test_new_offsets_counts_what_is_above_the_start() -> None:
    first, second, third = PARTITIONS[:3]
    assert new_offsets({first: 3, second: 9}, {first: 5, second: 4, third: 7}) == 2 + 0 + 7
    assert new_offsets({}, {}) == 0


@for_each(
    ("start", "end", "new", "lost", "read"),
    [
        ({0: 3}, {}, {}, ["partition a-0 is gone"], []),
        ({0: 3, 1: 4}, {1: 4}, {}, ["partition a-0 is gone"], []),
        ({0: 3}, {0: 2}, {}, ["the offset of a-0 has changed from 3 to 2"], []),
        ({0: 3}, {0: 3}, {}, [], []),
        ({0: 3}, {0: 4}, {}, [], [(3, 4)]),
        ({}, {0: 4}, {0: 0}, [], [(0, 4)]),
        ({}, {0: 4}, {0: 1}, ["the new partition a-0 begins at offset 1 instead of 0"], [(1, 4)]),
        ({0: 2}, {0: 4}, {0: 3}, [], [(2, 4)]),
        ({1: 2}, {0: 9, 1: 4}, {}, ["partition a-0 is gone before it was read"], [(2, 4)]),
    ],
)
def test_ranges_between_names_what_is_lost(
    start: dict[int, int],
    end: dict[int, int],
    new: dict[int, int],
    lost: list[str],
    read: list[tuple[int, int]],
) -> None:
    named = [
        {TopicPartition("a", index): each for index, each in given.items()} for given in (start, end, new)
    ]
    seen: list[str] = []
    found = ranges_between(named[0], QueryPosition(named[1]), named[2], seen.append)
    assert (seen, [(each.start, each.stop) for each in found]) == (lost, read)


@for_each(
    ("sizes", "least", "most", "expected"),
    [
        ([100], 1, None, [100]),
        ([10, 10], 2, None, [10, 10]),
        ([10, 10], 3, None, [5, 5, 5, 5]),
        ([90, 10], 5, None, [22, 22, 23, 23, 10]),
        ([100, 100, 100, 1], 4, None, [100, 100, 100, 1]),
        ([100, 100, 100, 1], 7, None, [50, 50, 50, 50, 50, 50, 1]),
        ([10], None, 10, [10]),
        ([11], None, 10, [5, 6]),
        ([], 3, 10, []),
    ],
)
def test_tasks_for_sizes(sizes: list[int], least: int | None, most: int | None, expected: list[int]) -> None:
    whole = [OffsetRange(TopicPartition("t", part), 7, 7 + size) for part, size in enumerate(sizes)]
    assert [task.size for task in tasks_for(whole, least, most)] == expected
