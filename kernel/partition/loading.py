"""Bringing a partition back: producers, transactions, leader epochs from side files and the log above them.

Source: seed 002, "Crash recovery & startup", step 5, and "ProducerStateManager".
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.partition.epochs import CHECKPOINT_NAME, NO_EPOCH, LeaderEpochs
from tidelog.kernel.partition.keeping import write_last_snapshot
from tidelog.kernel.partition.producers import ProducerEntry
from tidelog.kernel.partition.snapshots import (
    decode_snapshot,
    remove_snapshots,
    remove_stray_snapshots,
    snapshot_name,
    snapshot_offsets,
)
from tidelog.kernel.records.batch import NO_PRODUCER_ID, BatchHeader
from tidelog.kernel.records.control import EndMarker, decode_marker
from tidelog.kernel.seams.storage import region_bytes

if TYPE_CHECKING:
    from tidelog.kernel.partition.partition import Partition

_log = logging.getLogger(__name__)


def load_partition(partition: Partition, *, clean_start: bool) -> None:
    """Blocking: rebuild what the kernel remembers of a partition whose store was just opened.

    After an unclean stop the leader epoch is raised, so that a client which saw records that were lost can
    tell that history parted. It never falls: clients take no metadata of an older epoch than they have seen.
    The partition comes with the epoch that the metadata store wants it led in, and gets a later one if its
    own history tells of that epoch already.

    All of the log is committed where this broker leads, since no other replica has to have it. Where another
    one leads (`follows`), what the checkpoint says is, until the leader says more; it also begins epochs.
    """
    wanted = partition.leader_epoch
    written_down = _load_epochs(partition)
    _read_log(partition, epochs_lost=written_down is None)
    newest = max(NO_EPOCH if written_down is None else written_down, partition.epochs.latest)
    if clean_start or newest == NO_EPOCH or partition.follows:
        partition.leader_epoch = max(newest, wanted)
    else:
        _lead_in_new_epoch(partition, max(newest, wanted) + 1)
    _flush_if_due(partition)


def _flush_if_due(partition: Partition) -> None:
    """Make durable what a killed process had only appended, where the topic wants that before it is seen."""
    commit = partition.commit
    if partition.log_end_offset - commit.durable_offset >= partition.config.flush_messages:
        commit.durable_offset = partition.store.flush()


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
    _learn_first_epochs(partition)
    return newest


def _learn_first_epochs(partition: Partition) -> None:
    """Learn from the log what the lineage lacks at its beginning.

    After DeleteRecords the lineage is written down at once and the log start only at the next checkpoint: a
    kill in between brings records back that no epoch of the lineage covers.
    """
    later, known_from = partition.epochs.entries(), partition.epochs.first_offset
    if known_from <= partition.log_start_offset:
        return
    partition.epochs = LeaderEpochs()
    for header in partition.store.headers(partition.log_start_offset):
        if header.base_offset >= known_from:
            break
        partition.epochs.assign(header.leader_epoch, max(header.base_offset, partition.log_start_offset))
    for epoch, start in later:
        partition.epochs.assign(epoch, start)


def _read_log(partition: Partition, *, epochs_lost: bool) -> None:
    """Learn producers and transactions, and epochs whose checkpoint a crash came before.

    When the checkpoint is lost altogether, or entries of the transaction index are, more of the log is read.
    """
    store, end = partition.store, partition.log_end_offset
    remove_snapshots(store, below=partition.log_start_offset, above=end)
    high_watermark = end
    if partition.follows:
        high_watermark = max(min(store.checkpointed_high_watermark, end), partition.log_start_offset)
    # Transactions that end above the high watermark hold readers back: no snapshot tells of these.
    newest = min(high_watermark, store.aborted_known_until)
    restore_producers(partition, newest_snapshot=newest, whole_log=epochs_lost)
    remove_stray_snapshots(store)
    if end and not snapshot_offsets(store.side_files()) and len(store.segments()) > 1:
        # Rolls and clean stops leave snapshots; a log that lost them is not to be read a second time.
        write_last_snapshot(partition)
    partition.watermarks.set_back(partition.log_start_offset, high_watermark)


def restore_producers(partition: Partition, *, newest_snapshot: int, whole_log: bool) -> None:
    """Blocking: take producers from a snapshot at or below that offset, and from the log what came after.

    Aborted transactions that the store does not know are added to it. With `whole_log` epochs are learned
    from all of it.
    """
    store = partition.store
    # Without a snapshot a batch counts also if the log starts in the middle of it.
    log_start, snapshot_offset = partition.log_start_offset, 0
    snapshot = _newest_snapshot(partition, newest_snapshot)
    if snapshot is None:
        partition.producers.restore({})
    else:
        snapshot_offset = snapshot[0]
        partition.producers.restore(snapshot[1])
    from_offset = log_start if whole_log else max(snapshot_offset, log_start)
    if from_offset >= partition.log_end_offset:
        return
    for header in store.headers(from_offset):
        partition.epochs.assign(header.leader_epoch, header.base_offset)
        if header.base_offset >= snapshot_offset and header.producer_id > NO_PRODUCER_ID:
            _replay(partition, header)


def _replay(partition: Partition, header: BatchHeader) -> None:
    """Take in a producer's batch that is in the log; checks are not repeated."""
    producers, offset = partition.producers, header.base_offset
    if not header.is_control:
        producers.update(header, offset)
        return
    marker = _read_marker(partition, header)
    if marker is None:
        return
    aborted = producers.aborted_by(header, offset, marker)
    if aborted is not None:
        partition.store.add_aborted(aborted)
    producers.end_transaction(header, offset, marker)


def _read_marker(partition: Partition, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch, None without one; one that cannot be read is told and passed over."""
    offset = header.base_offset
    found = partition.store.read(offset, header.size, offset + 1, wait=True)
    try:
        return decode_marker(b"".join(map(region_bytes, found.regions)), header)
    except BrokerError as error:
        _log.error("%s: the control batch at offset %d: %s", partition.topic_partition, offset, error)
        return None


def _newest_snapshot(partition: Partition, newest: int) -> tuple[int, dict[int, ProducerEntry]] | None:
    """The newest snapshot at or below an offset that can be read; those that cannot go."""
    store = partition.store
    for offset in reversed(snapshot_offsets(store.side_files())):
        name = snapshot_name(offset)
        if offset > newest:
            continue
        content = store.read_side_file(name)
        try:
            return offset, decode_snapshot(content or b"")
        except StorageError as error:
            _log.warning("%s: %s is dropped: %s", partition.topic_partition, name, error)
            store.delete_side_file(name)
    return None
