"""Pure planning: which ranges of offsets a batch reads, in how many tasks, and how much of what is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.spark_sink.ranges import OffsetRange
from tidelog.plugins.spark_sink.source.positions import Positions
from tidelog.plugins.spark_sink.source.query_position import QueryPosition


def ranges_between(
    start: Positions, end: QueryPosition, new: Positions, on_loss: Callable[[str], None]
) -> list[OffsetRange]:
    """Return what lies between two positions of a query, without empty ranges.

    `new` has the log start offsets of partitions that are not in `start`. `on_loss` is called with what is
    gone: partitions, or the offsets above the end of a log that has become shorter.
    """
    for partition in sorted(start.keys() - end.offsets.keys()):
        on_loss(f"partition {partition} is gone")
    found: list[OffsetRange] = []
    for partition, stop in sorted(end.offsets.items()):
        begin = start.get(partition, new.get(partition))
        if begin is None:
            on_loss(f"partition {partition} is gone before it was read")
            continue
        if partition not in start and begin > 0:
            on_loss(f"the new partition {partition} begins at offset {begin} instead of 0")
        if stop < begin:
            on_loss(f"the offset of {partition} has changed from {begin} to {stop}")
        elif stop > begin:
            found.append(OffsetRange(partition, begin, stop, end.topic_id(partition.topic)))
    return found


def tasks_for(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Return what each task reads: a range, or a part of it so that there are enough and none is too large.

    Large ranges are split so that there are about `min_partitions`, and so that none has more than
    `max_records` offsets.
    """
    bounded = [part for each in ranges for part in each.split(_parts_by_size(each, max_records))]
    if min_partitions is None or len(bounded) >= min_partitions:
        return bounded
    total = sum(each.size for each in bounded)
    # A range gets one task however small it is. The others share the tasks that are left, so that all
    # together are about as many as are wanted.
    small = {each for each in bounded if _share(each.size, total, min_partitions) == 1}
    rest = total - sum(each.size for each in small)
    wanted = min_partitions - len(small)
    return [
        part
        for each in bounded
        for part in each.split(1 if each in small else _share(each.size, rest, wanted))
    ]


def limited(limit: int, start: Positions, latest: Positions) -> dict[TopicPartition, int]:
    """Return positions about `limit` offsets above `start`, shared out by how much each partition has.

    Each partition with anything new advances by one offset at least.
    """
    sizes = {part: end - start.get(part, end) for part, end in latest.items()}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= limit:
        return dict(latest)
    return {
        # The end of a log that has become shorter stays as it is: `ranges_between` finds the loss by it.
        part: start[part] + min(size, max(math.floor(limit * size / total), 1)) if size > 0 else latest[part]
        for part, size in sizes.items()
    }


def new_offsets(start: Positions, latest: Positions) -> int:
    """Return how many offsets lie between two positions; a partition that is not in `start` counts from 0."""
    return sum(max(end - start.get(part, 0), 0) for part, end in latest.items())


def _parts_by_size(whole: OffsetRange, max_records: int | None) -> int:
    return 1 if max_records is None else math.ceil(whole.size / max_records)


def _share(size: int, total: int, parts: int) -> int:
    return max(math.floor(size / total * parts + 0.5), 1)
