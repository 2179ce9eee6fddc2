"""Rolling and deleting segments by a partition, off the event loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from tests.kernel.log.parts import batch_of, new_store, open_partition, sent
from tidelog.kernel.errors import OffsetOutOfRange, StorageError, UnknownTopicOrPartition
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.storage import ForwardingStore, SegmentView


def bases(partition: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in partition.store.segments()]


async def test_roll_begins_a_segment_with_a_producer_snapshot() -> None:
    partition = open_partition()
    assert not await partition.roll()
    partition.append_nowait(sent(7, 0, 0, count=3))
    assert await partition.roll()
    assert not await partition.roll()
    assert bases(partition) == [0, 3]
    assert partition.store.side_files() == [f"{3:020}.snapshot", "leader-epoch-checkpoint"]
    assert partition.append_nowait(sent(7, 0, 3)).base_offset == 3


async def test_roll_lets_appends_continue_while_it_is_prepared() -> None:
    class Slow(ForwardingStore):
        def prepare_roll(self) -> None:
            trio.from_thread.run_sync(partition.append_nowait, batch_of(2))

    partition = open_partition(Slow(new_store()))
    partition.append_nowait(batch_of(1))
    assert await partition.roll()
    assert bases(partition) == [0, 3]


async def test_delete_segments_before_returns_what_went() -> None:
    partition = open_partition()
    for _ in range(3):
        partition.append_nowait(batch_of(2))
        await partition.roll()
    views = partition.store.segments()
    assert len(await partition.delete_segments_before(1)) == 0
    assert (partition.log_start_offset, bases(partition)) == (1, [0, 2, 4, 6])
    assert await partition.delete_segments_before(5) == views[:2]
    assert (partition.log_start_offset, bases(partition)) == (5, [4, 6])
    with pytest.raises(OffsetOutOfRange, match="its high watermark is 6"):
        await partition.delete_segments_before(7)
    assert await partition.delete_segments_before(6) == views[2:3]
    assert (partition.log_start_offset, bases(partition)) == (6, [6])


async def test_roll_and_delete_segments_before_name_the_partition_when_the_disk_refuses() -> None:
    class Broken(ForwardingStore):
        def prepare_roll(self) -> None:
            raise OSError(5, "no more")

        def delete_segments_before(self, offset: int) -> Sequence[SegmentView]:
            raise OSError(5, f"not up to {offset}")

    partition = open_partition(Broken(new_store()))
    partition.append_nowait(batch_of(2))
    with pytest.raises(StorageError, match=r"flights-3: no new segment: .*no more"):
        await partition.roll()
    with pytest.raises(StorageError, match=r"flights-3: segments are not deleted: .*not up to 1"):
        await partition.delete_segments_before(1)
    assert bases(partition) == [0]


async def test_roll_and_delete_segments_before_refuse_a_partition_that_is_gone() -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(2))
    partition.take_offline()
    with pytest.raises(UnknownTopicOrPartition):
        await partition.roll()
    with pytest.raises(UnknownTopicOrPartition):
        await partition.delete_segments_before(1)
