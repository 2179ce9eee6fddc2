"""What of a partition is durable, and what `flush.messages` therefore allows to acknowledge and to show.

An append that makes a flush due begins it, and the end of the flush moves the high watermark. Neither depends
on the request that appended: its client may be gone before the disk answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.kernel.errors import StorageError
    from tidelog.kernel.partition.partition import Partition


def is_due(partition: Partition) -> bool:
    """Whether so much is not durable that `flush.messages` asks for a flush."""
    return partition.log_end_offset - partition.commit.durable_offset >= partition.config.flush_messages


async def wait_until_flushed(partition: Partition, offset: int) -> None:
    """See `Partition.wait_flushed`."""
    while partition.commit.durable_offset <= offset and is_due(partition):
        await partition.commit.flush()


async def flush_to_end(partition: Partition) -> None:
    """See `Partition.flush`."""
    end = partition.log_end_offset
    # A truncation meanwhile leaves less to wait for.
    while partition.commit.durable_offset < min(end, partition.log_end_offset):
        await partition.commit.flush()


def flush_ended(partition: Partition, failure: StorageError | None) -> None:
    """Show what a flush made durable, and flush again where more has become due meanwhile."""
    if failure is not None:
        partition.take_offline(failure)
        return
    if is_due(partition):
        if not partition.follows:
            partition.watermarks.advance_partly(partition.commit.durable_offset)
        partition.commit.begin()
    elif not partition.follows:
        partition.watermarks.advance(partition.log_end_offset)
