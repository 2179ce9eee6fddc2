"""What a partition keeps beside its log: snapshots of its producers, the lineage of its leader epochs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.partition.epochs import CHECKPOINT_NAME
from tidelog.kernel.partition.snapshots import encode_snapshot, snapshot_name

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition

_log = logging.getLogger(__name__)


def snapshot_soon(partition: Partition, offset: int) -> None:
    """Write down the producers of now as those of `offset`, in the background."""
    content = encode_snapshot(partition.producers.entries)
    partition.side_writes.soon(f"snapshot {partition.topic_partition}", snapshot_name(offset), content)


def write_last_snapshot(partition: Partition) -> None:
    """Blocking: write down the producers at the log end; without that the next start only takes longer."""
    name, content = snapshot_name(partition.log_end_offset), encode_snapshot(partition.producers.entries)
    try:
        partition.store.write_side_file(name, content)
    except OSError as error:
        _log.warning(
            "%s: no snapshot of its producers (%s); the next start reads more of the log instead",
            partition.topic_partition,
            error,
        )


def begin_epoch(partition: Partition, epoch: int, start_offset: int) -> None:
    """Enter a leader epoch that begins with the batch at `start_offset` into the lineage."""
    partition.epochs.assign(epoch, start_offset)
    write_epochs_soon(partition)


def write_epochs_soon(partition: Partition) -> None:
    """Write down the lineage in the background."""
    job = f"epochs {partition.topic_partition}"
    partition.side_writes.soon(job, CHECKPOINT_NAME, partition.epochs.encode())
