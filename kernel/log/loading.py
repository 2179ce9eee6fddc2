"""Loading a log: producers, transactions, leader epochs from side files and the log above them.

Source: Apache Kafka's `LogLoader` and `ProducerStateManager`.
"""

from __future__ import annotations

from tidelog.kernel.leader_epochs import NO_EPOCH
from tidelog.kernel.log.unified_log import UnifiedLog


def load_log(log: UnifiedLog, *, clean_start: bool) -> None:
    """Blocking: rebuild the state of a log whose store was just opened.

    After an unclean stop the leader epoch is raised, so that a client which saw records that were lost can
    see that history parted. It never falls: clients take no metadata of an older epoch than they have seen.
    The log comes with the epoch that the metadata store wants it led in, and gets a later one if its
    own history has that epoch already.

    All of the log is committed where this broker leads, since no other replica has to have it. Where another
    one leads (`follows`), what the checkpoint says is, until the leader says more; it also begins epochs.

    Raises:
        OSError, StorageError: the disk refused.
    """
    wanted = log.leader_epoch
    checkpointed = log.epochs.load()
    _read_log(log, epochs_lost=checkpointed is None)
    newest = max(NO_EPOCH if checkpointed is None else checkpointed, log.epochs.latest)
    if clean_start or newest == NO_EPOCH or log.watermarks.follows:
        log.leader_epoch = max(newest, wanted)
    else:
        # With the log's end as its start, as Kafka does.
        log.leader_epoch = max(newest, wanted) + 1
        log.epochs.begin_durably(log.leader_epoch, log.log_end_offset)
    # What a killed process had only appended is not shown before it is durable, where the topic wants that.
    log.commit.flush_if_due()


def _read_log(log: UnifiedLog, *, epochs_lost: bool) -> None:
    """Learn producers and transactions, and epochs whose checkpoint a crash came before.

    When the checkpoint is lost altogether, or entries of the transaction index are, more of the log is read.
    """
    store, start, end = log.store, log.log_start_offset, log.log_end_offset
    producers = log.producers
    producers.remove_snapshots(below=start, above=end)
    high_watermark = end
    if log.watermarks.follows:
        high_watermark = max(min(store.checkpointed_high_watermark, end), start)
    # Transactions that end above the high watermark hold readers back: no snapshot has these.
    newest = min(high_watermark, store.aborted_known_until)
    log.producers.reload(log.epochs, newest_snapshot=newest, whole_log=epochs_lost)
    producers.remove_stray_snapshots()
    producers.write_missing_snapshot()
    log.watermarks.reset(start, high_watermark, end)
