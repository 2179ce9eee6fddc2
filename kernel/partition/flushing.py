"""What of a partition is durable, and what `flush.messages` therefore allows to acknowledge and to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import StorageError

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition


def is_due(partition: Partition) -> bool:
    """Whether so much is not durable that `flush.messages` asks for a flush."""
    return partition.log_end_offset - partition.commit.durable_offset >= partition.config.flush_messages


async def wait_until_flushed(partition: Partition, offset: int) -> None:
    """See `Partition.wait_flushed`."""
    while partition.commit.durable_offset <= offset and is_due(partition):
        await _flush_once(partition)
    _show_up_to(partition, partition.commit.durable_offset if is_due(partition) else partition.log_end_offset)


async def flush_to_end(partition: Partition) -> None:
    """See `Partition.flush`."""
    end = partition.log_end_offset
    while partition.commit.durable_offset < end:
        await _flush_once(partition)
    _show_up_to(partition, end)


def _show_up_to(partition: Partition, offset: int) -> None:
    if not partition.follows:
        partition.watermarks.advance(offset)


async def _flush_once(partition: Partition) -> None:
    try:
        await partition.commit.flush()
    except StorageError as error:
        partition.take_offline(error)
        raise
