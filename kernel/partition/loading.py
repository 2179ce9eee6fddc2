"""Bringing a partition back: producers and leader epochs from side files and from the log above them.

Source: seed 002, "Crash recovery & startup", step 5, and "ProducerStateManager".
"""

from __future__ import annotations

import logging

from tidelog.kernel.errors import StorageError
from tidelog.kernel.partition.epochs import CHECKPOINT_NAME, NO_EPOCH, LeaderEpochs
from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.partition.producers import ProducerEntry
from tidelog.kernel.partition.snapshots import decode_snapshot, snapshot_name, snapshot_offsets

_log = logging.getLogger(__name__)


def load_partition(partition: Partition, *, clean_start: bool) -> None:
    """Blocking: rebuild what the kernel remembers of a partition whose store was just opened.

    After an unclean stop the leader epoch is raised, so that a client which saw records that were lost can
    tell that history parted. It never falls: clients take no metadata of an older epoch than they have seen.
    The partition comes with the epoch that the metadata store wants it led in, and gets a later one if its
    own history tells of that epoch already.
    """
    wanted = partition.leader_epoch
    written_down = _load_epochs(partition)
    _read_log(partition, epochs_lost=written_down is None)
    newest = max(NO_EPOCH if written_down is None else written_down, partition.epochs.latest)
    if clean_start or newest == NO_EPOCH:
        partition.leader_epoch = max(newest, wanted)
    elif newest < wanted:
        partition.leader_epoch = wanted
    else:
        _lead_in_new_epoch(partition, newest + 1)


def _lead_in_new_epoch(partition: Partition, epoch: int) -> None:
    """Write it down before anybody can see it, with the log's end as its start, as Kafka does."""
    partition.leader_epoch = epoch
    partition.epochs.assign(epoch, partition.log_end_offset)
    partition.store.write_side_file(CHECKPOINT_NAME, partition.epochs.encode())


def _load_epochs(partition: Partition) -> int | None:
    """The newest epoch that the checkpoint names, None when the lineage has to be learned from the log."""
    content = partition.store.read_side_file(CHECKPOINT_NAME)
    if content is None:
        return NO_EPOCH if partition.log_end_offset == partition.log_start_offset else None
    try:
        partition.epochs = LeaderEpochs.decode(content)
    except StorageError as error:
        _log.warning("%s: %s; rebuilding it from the log", partition.topic_partition, error)
        return None
    newest = partition.epochs.latest
    partition.epochs.truncate_from_end(partition.log_end_offset + 1)
    partition.epochs.truncate_from_start(partition.log_start_offset)
    return newest


def _read_log(partition: Partition, *, epochs_lost: bool) -> None:
    """Take producers from the newest snapshot, and from the log above it what came after.

    That also tells of epochs whose checkpoint a crash came before. When the checkpoint is lost altogether,
    the whole log is read.
    """
    store = partition.store
    log_start = snapshot_offset = partition.log_start_offset
    snapshot = _newest_snapshot(partition)
    if snapshot is not None:
        snapshot_offset, partition.producers.entries = snapshot
    from_offset = log_start if epochs_lost else max(snapshot_offset, log_start)
    if from_offset >= partition.log_end_offset:
        return
    for header in store.headers(from_offset):
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
