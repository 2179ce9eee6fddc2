"""Loading a partition: producers, transactions, leader epochs from side files and the log above them.

Source: Apache Kafka's `LogLoader` and `ProducerStateManager`.
"""

from __future__ import annotations

from tidelog.kernel.leader_epochs import NO_EPOCH
from tidelog.kernel.partition.partition import Partition


def load_partition(partition: Partition, *, clean_start: bool) -> None:
    """Blocking: rebuild the state of a partition whose store was just opened.

    After an unclean stop the leader epoch is raised, so that a client which saw records that were lost can
    see that history parted. It never falls: clients take no metadata of an older epoch than they have seen.
    The partition comes with the epoch that the metadata store wants it led in, and gets a later one if its
    own history has that epoch already.

    All of the log is committed where this broker leads, since no other replica has to have it. Where another
    one leads (`follows`), what the checkpoint says is, until the leader says more; it also begins epochs.

    Raises:
        OSError, StorageError: the disk refused.
    """
    wanted = partition.leader_epoch
    checkpointed = partition.epochs.load()
    _read_log(partition, epochs_lost=checkpointed is None)
    newest = max(NO_EPOCH if checkpointed is None else checkpointed, partition.epochs.latest)
    if clean_start or newest == NO_EPOCH or partition.follows:
        partition.leader_epoch = max(newest, wanted)
    else:
        # With the log's end as its start, as Kafka does.
        partition.leader_epoch = max(newest, wanted) + 1
        partition.epochs.begin_durably(partition.leader_epoch, partition.log_end_offset)
    # What a killed process had only appended is not shown before it is durable, where the topic wants that.
    partition.commit.flush_if_due()


def _read_log(partition: Partition, *, epochs_lost: bool) -> None:
    """Learn producers and transactions, and epochs whose checkpoint a crash came before.

    When the checkpoint is lost altogether, or entries of the transaction index are, more of the log is read.
    """
    store, start, end = partition.store, partition.log_start_offset, partition.log_end_offset
    producers = partition.producers
    producers.remove_snapshots(below=start, above=end)
    high_watermark = end
    if partition.follows:
        high_watermark = max(min(store.checkpointed_high_watermark, end), start)
    # Transactions that end above the high watermark hold readers back: no snapshot has these.
    newest = min(high_watermark, store.aborted_known_until)
    partition.changes.replay_log(newest_snapshot=newest, whole_log=epochs_lost)
    producers.remove_stray_snapshots()
    producers.write_missing_snapshot()
    partition.watermarks.reset(start, high_watermark, end)
