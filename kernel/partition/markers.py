"""The end of a producer's transaction in a partition: its control batch, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import StorageError

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition
    from tidelog.kernel.records.batch import BatchHeader
    from tidelog.kernel.records.control import EndMarker


def end_transaction(partition: Partition, header: BatchHeader, base_offset: int, marker: EndMarker) -> None:
    """Take over what a marker decided that was written at `base_offset`.

    Raises:
        StorageError: the transaction index takes no entry; the partition is offline then.
    """
    aborted = partition.producers.aborted_by(header, base_offset, marker)
    if aborted is not None:
        try:
            partition.store.add_aborted(aborted)
        except OSError as error:
            # The log has the marker and the index does not. Nothing that is remembered goes beyond the
            # marker then, so the next start finds it in the log and adds the entry.
            failure = StorageError(f"{partition.topic_partition}: no entry in the transaction index: {error}")
            partition.take_offline(failure)
            raise failure from error
    partition.producers.end_transaction(header, base_offset, marker)
