"""Bringing a partition back: producers and leader epochs from side files and from the log above them.

Source: seed 002, "Crash recovery & startup", step 5, and "ProducerStateManager".
"""

from __future__ import annotations

import logging

from tidelog.kernel.errors import StorageError
from tidelog.kernel.partition.epochs import CHECKPOINT_NAME, LeaderEpochs
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.partition.producers import ProducerEntry
from tidelog.kernel.partition.snapshots import decode_snapshot, snapshot_name, snapshot_offsets

_log = logging.getLogger(__name__)


def load_partition(partition: Partition, *, clean_start: bool) -> None:
    """Blocking: rebuild what the kernel remembers of a partition whose store was just opened.

    After an unclean stop the leader epoch is raised, so that a client which saw records that were lost can
    tell that history parted.
    """
    epochs_known = _load_epochs(partition)
    _load_producers(partition, learn_epochs=not epochs_known)
    had_data = partition.log_end_offset > partition.log_start_offset
    partition.leader_epoch = max(partition.epochs.latest, 0) + (0 if clean_start or not had_data else 1)


def _load_epochs(partition: Partition) -> bool:
    content = partition.store.read_side_file(CHECKPOINT_NAME)
    if content is None:
        return partition.log_end_offset == partition.log_start_offset
    try:
        partition.epochs = LeaderEpochs.decode(content)
    except StorageError as error:
        _log.warning("%s: %s; rebuilding it from the log", partition.topic_partition, error)
        return False
    partition.epochs.truncate_from_end(partition.log_end_offset)
    partition.epochs.truncate_from_start(partition.log_start_offset)
    return True


def _load_producers(partition: Partition, *, learn_epochs: bool) -> None:
    store = partition.store
    snapshot_offset = partition.log_start_offset
    entries = _newest_snapshot(partition)
    if entries is not None:
        snapshot_offset, partition.producers.entries = entries
    from_offset = partition.log_start_offset if learn_epochs else snapshot_offset
    if from_offset >= partition.log_end_offset:
        return
    for header in store.headers(from_offset):
        if learn_epochs:
            partition.epochs.assign(header.leader_epoch, header.base_offset)
        if header.base_offset >= snapshot_offset:
            partition.producers.replay(header)


def _newest_snapshot(partition: Partition) -> tuple[int, dict[int, ProducerEntry]] | None:
    """The newest snapshot that can be read and is not beyond the log's end; the others beyond it go."""
    store = partition.store
    for offset in reversed(snapshot_offsets(store.side_files())):
        name = snapshot_name(offset)
        if offset > partition.log_end_offset:
            store.delete_side_file(name)
            continue
        content = store.read_side_file(name)
        try:
            return offset, decode_snapshot(content or b"")
        except StorageError as error:
            _log.warning("%s: %s is dropped: %s", partition.topic_partition, name, error)
            store.delete_side_file(name)
    return None
