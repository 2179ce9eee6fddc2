"""Where a log begins: DeleteRecords and retention let it begin later, and what lies before goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.partition.keeping import write_epochs_soon
from tidelog.kernel.partition.snapshots import remove_snapshots

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition


def begin_at(partition: Partition, offset: int) -> None:
    """See `Partition.raise_log_start`."""
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(
            f"{partition.topic_partition}: the log cannot begin at {offset}, its high watermark is "
            f"{partition.high_watermark}"
        )
    if offset <= partition.log_start_offset:
        return
    partition.store.raise_log_start(offset)
    partition.watermarks.raise_log_start(offset)
    if partition.epochs.truncate_from_start(offset):
        write_epochs_soon(partition)
    partition.side_writes.run_soon(
        f"snapshots {partition.topic_partition}", lambda: remove_snapshots(partition.store, below=offset)
    )
